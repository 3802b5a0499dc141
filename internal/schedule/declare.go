package schedule

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Declarations is what a Declarer needs of the store. Each call is one short transaction and may be repeated.
type Declarations interface {
	// DeclareSchedules notes that a session declares these schedules, and no others: each with the number of its first load,
	// which is now if it was never loaded. It reports false where the session is not known, and notes nothing then.
	DeclareSchedules(ctx context.Context, s task.Session, list []store.ScheduleSpec) (bool, error)
	// UnsettledSchedules returns at most limit names behind after ("": from the first one on) whose schedules are not what
	// the configurations of present agents declare, some that are left as they are among them. It locks nothing.
	UnsettledSchedules(ctx context.Context, after string, limit int) (store.UnsettledSchedules, error)
	// WakeSchedules has those schedules be looked at now that are decided further than one store.JumpTolerance ahead of the
	// store's clock, which was ahead and is back, and that have not fired there; it reports how many.
	WakeSchedules(ctx context.Context) (woken int, err error)
	// SettleSchedules applies each change whose schedule has the version that was seen, and reports how many. Nothing waits
	// for an application that has locked a schedule: that change is not applied.
	SettleSchedules(ctx context.Context, list []store.ScheduleChange) (applied int, err error)
}

// Bounds of a Declarer.
const (
	settleEvery  = 10 * time.Second // how often schedules are compared with what is declared
	declareEvery = time.Minute      // how often an agent says again what it declares
	settleLimit  = 500              // names of one look
)

// Declarer has the schedules of one agent's configuration put in force, and parks what no present agent declares.
type Declarer struct {
	store   Declarations
	session func() (s task.Session, joined bool)
	held    func(now time.Time) bool
	log     *slog.Logger

	mu    sync.Mutex
	list  []Spec
	place func(name string) string
	anew  bool // the list has been replaced, and is yet to be declared

	of               task.Session // that has declared
	declared, looked time.Time    // when, last
	said             map[Refused]bool
	settled          atomic.Bool // the list has been declared, and compared since
}

// NewDeclarer returns a Declarer for the schedules of a configuration. session returns the agent's session, once it has joined.
// Nothing changes while held reports true, as in NewEngine: after a jump of the clock agents look absent that are not. place returns
// where the configuration declares a schedule, for the log.
func NewDeclarer(
	s Declarations, list []Spec, session func() (s task.Session, joined bool), held func(now time.Time) bool,
	place func(name string) string, log *slog.Logger,
) *Declarer {
	return &Declarer{store: s, list: list, session: session, held: held, place: place, log: log, said: make(map[Refused]bool)}
}

// Declare replaces the schedules of the configuration, at any time. The next Turn declares them.
func (d *Declarer) Declare(list []Spec, place func(name string) string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.anew = d.anew || len(list)+len(d.list) > 0
	d.settled.Store(d.settled.Load() && !d.anew)
	d.list, d.place = list, place
}

// Turn declares and settles what is due for that; else it does nothing.
func (d *Declarer) Turn(ctx context.Context) error {
	s, joined := d.session()
	if !joined {
		return nil
	}
	if err := d.declare(ctx, s); err != nil {
		return err
	}
	if time.Since(d.looked) < settleEvery {
		return nil
	}
	wait, err := d.settle(ctx)
	if err == nil && !wait {
		_, err = d.store.WakeSchedules(ctx)
	}
	if err == nil && !wait {
		d.looked = time.Now()
		d.mu.Lock()
		d.settled.Store(!d.anew)
		d.mu.Unlock()
	}
	return err
}

// Settled reports whether the schedules of the configuration are in force, as far as they can be; true where it has none.
func (d *Declarer) Settled() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.list) == 0 || d.settled.Load()
}

// declare declares the list, if that is due.
func (d *Declarer) declare(ctx context.Context, s task.Session) error {
	d.mu.Lock()
	list, anew := d.list, d.anew
	d.anew = false
	d.mu.Unlock()
	if !anew && (len(list) == 0 || s == d.of && time.Since(d.declared) <= declareEvery) {
		return nil
	}
	known, err := d.store.DeclareSchedules(ctx, s, list)
	if err != nil || !known {
		d.mu.Lock()
		d.anew = d.anew || anew
		d.mu.Unlock()
		return err
	}
	if anew {
		clear(d.said)
	}
	if anew || s != d.of {
		d.looked = time.Time{}
	}
	d.of, d.declared = s, time.Now()
	return nil
}

// settle compares all schedules with what is declared. wait: some are to be looked at again soon.
func (d *Declarer) settle(ctx context.Context) (wait bool, err error) {
	for after := ""; ; {
		page, err := d.store.UnsettledSchedules(ctx, after, settleLimit)
		if err != nil || len(page.List) == 0 {
			return wait, err
		}
		if d.held(page.Now) {
			return true, nil
		}
		var list []store.ScheduleChange
		for i := range page.List {
			change, refused := Reconcile(&page.List[i])
			d.say(refused)
			if change != nil {
				list = append(list, *change)
			}
			wait = wait || page.List[i].Due && change == nil && len(refused) == 0
		}
		if len(list) > 0 {
			n, err := d.store.SettleSchedules(ctx, list)
			if err != nil {
				return wait, err
			}
			wait = wait || n < len(list)
		}
		if len(page.List) < settleLimit {
			return wait, nil
		}
		after = page.List[len(page.List)-1].Name
	}
}

// say logs, once, which of this agent's declarations are refused.
func (d *Declarer) say(refused []Refused) {
	d.mu.Lock()
	list, place := d.list, d.place
	d.mu.Unlock()
	for _, r := range refused {
		if d.said[r] {
			continue
		}
		d.said[r] = true
		for i := range list {
			if list[i].Name == r.Name && list[i].Task == r.Task {
				d.log.Error("a schedule of the configuration is not put in force", "schedule", r.Name, "task", r.Task, "at", place(r.Name),
					"error", r.Reason)
			}
		}
	}
}
