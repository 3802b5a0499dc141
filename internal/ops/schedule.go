package ops

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/internal/schedule"
	"github.com/leasehold/leasehold/internal/store"
)

// Bounds of what is read and inserted for schedules.
const (
	nextSlots    = 10  // that are shown
	stepSlots    = 200 // inserted in one transaction
	insertTries  = 5   // while agents move the schedule on
	MostBackfill = 100_000
)

// ScheduleDetail is a schedule with what its declaration means.
type ScheduleDetail struct {
	*store.ScheduleInfo

	Words string         `json:"words,omitempty"`      // "": no agent can use it
	Next  []ScheduleSlot `json:"next_slots,omitempty"` // those that follow, as if it were neither paused nor parked
}

// ScheduleSlot is the time of a slot in UTC, and in the schedule's zone.
type ScheduleSlot struct {
	UTC   time.Time `json:"utc"`
	Local time.Time `json:"local"`
}

// ScheduleChanged is what became of a schedule that was to be changed.
type ScheduleChanged struct {
	Schedule string      `json:"schedule"`
	Became   string      `json:"became,omitempty"`
	Slots    []time.Time `json:"slots,omitempty"`
	Inserted int         `json:"inserted,omitempty"` // tasks
	DryRun   bool        `json:"dry_run,omitempty"`  // nothing was changed
}

// scheduleError names a schedule that does not exist.
func scheduleError(name string, err error) error {
	if errors.Is(err, store.ErrNoSchedule) {
		return fmt.Errorf("schedule %q: %w: `leasehold schedule list` shows those that exist", name, store.ErrNoSchedule)
	}
	return err
}

// DescribeSchedule returns a schedule with what it means, and at most ten slots after now. Of its payload, the members are masked that are of its
// tasks. of stays as it is.
func DescribeSchedule(of *store.ScheduleInfo, now time.Time, masks Redactions) ScheduleDetail {
	shown := *of
	i := &shown
	i.Payload = masks[i.Task].Document(i.Payload)
	d := ScheduleDetail{ScheduleInfo: i}
	p, err := schedule.New(i.ScheduleSpec)
	if err != nil {
		if i.Invalid == "" {
			i.Invalid = err.Error()
		}
		return d
	}
	d.Words = p.Words()
	zone, err := time.LoadLocation(p.Filled().Timezone)
	if err != nil {
		zone = time.UTC
	}
	for at, ok := p.Next(now); ok && len(d.Next) < nextSlots; at, ok = p.Next(at) {
		d.Next = append(d.Next, ScheduleSlot{UTC: at, Local: at.In(zone)})
	}
	return d
}

// ListSchedules lists schedules that match, by name, as they may be shown.
func ListSchedules(ctx context.Context, s ScheduleStore, f store.ScheduleFilter) ([]ScheduleDetail, error) {
	all, err := s.ListSchedules(ctx, f)
	if err != nil {
		return nil, err
	}
	masks, err := ReadRedactions(ctx, s)
	if err != nil {
		return nil, err
	}
	list := make([]ScheduleDetail, len(all.List))
	for n := range all.List {
		list[n] = DescribeSchedule(&all.List[n], all.Now, masks)
	}
	return list, nil
}

// ShowSchedule reads one schedule as it may be shown. It names one that does not exist.
func ShowSchedule(ctx context.Context, s ScheduleStore, name string) (ScheduleDetail, error) {
	i, now, err := ReadSchedule(ctx, s, name)
	if err != nil {
		return ScheduleDetail{}, err
	}
	masks, err := ReadRedactions(ctx, s)
	if err != nil {
		return ScheduleDetail{}, err
	}
	return DescribeSchedule(i, now, masks), nil
}

// ReadSchedule reads one schedule, to fire it. It names one that does not exist.
func ReadSchedule(ctx context.Context, s Schedules, name string) (*store.ScheduleInfo, time.Time, error) {
	all, err := s.ListSchedules(ctx, store.ScheduleFilter{Name: name, Limit: 1})
	if err == nil && len(all.List) == 0 {
		err = store.ErrNoSchedule
	}
	if err != nil {
		return nil, time.Time{}, scheduleError(name, err)
	}
	return &all.List[0], all.Now, nil
}

// PauseSchedule has agents leave a schedule alone, or go on with it.
func PauseSchedule(ctx context.Context, s Schedules, name string, pause bool, by string) (c ScheduleChanged, err error) {
	if err := checkBy(by); err != nil {
		return c, err
	}
	c = ScheduleChanged{Schedule: name, Became: "paused"}
	if pause {
		_, err = s.PauseSchedule(ctx, name, by)
		return c, scheduleError(name, err)
	}
	changed, err := s.ResumeSchedule(ctx, name, by)
	if c.Became = "resumed"; !changed {
		c.Became = "was not paused"
	}
	return c, scheduleError(name, err)
}

// RemoveSchedule deletes a schedule.
func RemoveSchedule(ctx context.Context, s Schedules, name, by string) (ScheduleChanged, error) {
	c := ScheduleChanged{Schedule: name, Became: "removed"}
	if err := checkBy(by); err != nil {
		return c, err
	}
	return c, scheduleError(name, s.RemoveSchedule(ctx, name, by))
}

// FireSchedule inserts one task of a schedule, whose slot is the time of now. It returns the type of the task, too.
func FireSchedule(ctx context.Context, s Schedules, name, by string) (c ScheduleChanged, typ string, err error) {
	i, now, err := ReadSchedule(ctx, s, name)
	if err != nil {
		return c, "", err
	}
	c = ScheduleChanged{Schedule: name, Slots: []time.Time{now.UTC().Truncate(time.Millisecond)}}
	c.Inserted, err = InsertSlots(ctx, s, name, c.Slots, store.AsideFire, by)
	return c, i.Task, err
}

// BackfillSlots returns the slots of a schedule that are not before from, and before to. It refuses more than limit.
func BackfillSlots(i *store.ScheduleInfo, from, to time.Time, limit int) ([]time.Time, error) {
	p, err := schedule.New(i.ScheduleSpec)
	switch {
	case err != nil:
		return nil, err
	case i.After != "":
		return nil, &store.InputError{Text: fmt.Sprintf("schedule %q has no slots: it fires %s. Use `leasehold schedule fire`", i.Name, p.Words())}
	case !from.Before(to):
		return nil, &store.InputError{Text: fmt.Sprintf("FROM %s is not before TO %s", Time(from), Time(to))}
	}
	var slots []time.Time
	for at, ok := p.Next(from.Add(-1)); ok && at.Before(to); at, ok = p.Next(at) {
		if len(slots) == limit {
			return nil, &store.InputError{Text: fmt.Sprintf("more than %d slots from %s to %s: the first that is left out is %s: use a shorter "+
				"time, or a higher limit", limit, Time(from), Time(to), Time(at))}
		}
		slots = append(slots, at)
	}
	return slots, nil
}

// InsertSlots inserts a task for each slot, due at once, beside the schedule's own course, in steps. It returns how many were
// inserted; with an error, those of the step that failed may have been inserted, too, if it failed because the store could not be
// reached. The audit notes each step, under the verb.
func InsertSlots(
	ctx context.Context, s Schedules, name string, slots []time.Time, verb store.AsideVerb, by string,
) (done int, err error) {
	if err := checkBy(by); err != nil {
		return 0, err
	}
	for done < len(slots) {
		step := slots[done:min(done+stepSlots, len(slots))]
		if err := insertStep(ctx, s, store.Firing{Name: name, Aside: verb, By: by}, step); err != nil {
			return done, err
		}
		done += len(step)
	}
	return done, nil
}

// ErrPartlyInserted says that some of the tasks of a backfill were inserted, or may have been.
var ErrPartlyInserted = errors.New("not all tasks were inserted")

// InsertBackfill is InsertSlots for the slots of a backfill. Its steps say how many slots have their task: a backfill that is repeated inserts
// its tasks again (ErrPartlyInserted).
func InsertBackfill(ctx context.Context, s Schedules, name string, slots []time.Time, by string) (done int, err error) {
	done, err = InsertSlots(ctx, s, name, slots, store.AsideBackfill, by)
	nothing := errors.As(err, new(*store.InputError)) || errors.As(err, new(*store.RefusedError)) || errors.Is(err, store.ErrNoSchedule)
	if err == nil || done == 0 && nothing {
		return done, err
	}
	return done, fmt.Errorf("%w: inserted the first %d of %d; those of the next step may have been inserted, too, if the store could not be reached: "+
		"look for payload.slot before you go on: %w", ErrPartlyInserted, done, len(slots), err)
}

// insertStep inserts rows as the firing of a schedule says.
func insertStep(ctx context.Context, s Schedules, f store.Firing, slots []time.Time) error {
	for range insertTries {
		i, now, err := ReadSchedule(ctx, s, f.Name)
		if err != nil {
			return err
		}
		f.Version, f.Rows = i.Version, nil
		for _, at := range slots {
			f.Rows = append(f.Rows, store.FiringRow{Slot: at, RunAt: now})
		}
		applied, err := s.ApplyFirings(ctx, []store.Firing{f})
		if err != nil || len(applied) == 1 && applied[0] {
			return err
		}
	}
	return fmt.Errorf("schedule %q changes all the time, or is locked: nothing was inserted; try again", f.Name)
}
