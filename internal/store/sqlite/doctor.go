package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/leasehold/leasehold/internal/store"
)

// Diagnose reads what the store knows of its own health and of the agents on it. Each part is read within store.DiagnosisTime; one that takes
// longer is left out, and named.
func (s *Store) Diagnose(ctx context.Context) (*store.Diagnosis, error) {
	if err := s.Ping(ctx); err != nil {
		return nil, err
	}
	d := &store.Diagnosis{Now: s.now()}
	for _, p := range []struct {
		part store.DiagnosisPart
		read func(context.Context) error
	}{
		{store.PartServer, func(ctx context.Context) (err error) { d.File, err = s.fileHealth(ctx); return err }},
		{store.PartAgents, s.ofSnapshot(d, (*snapshot).diagnoseAgents)},
		{store.PartDeclarations, func(ctx context.Context) (err error) { d.Declared, err = s.DeclaredBlocks(ctx); return err }},
		{store.PartPauses, func(ctx context.Context) (err error) { d.Pauses, err = s.Pauses(ctx); return err }},
		{store.PartOrphans, s.ofSnapshot(d, (*snapshot).diagnoseOrphans)},
		{store.PartRegions, func(ctx context.Context) (err error) { d.Regions, err = s.RegionOrphans(ctx); return err }},
		{store.PartSchedules, s.ofSnapshot(d, (*snapshot).diagnoseSchedules)},
		{store.PartSequences, s.ofSnapshot(d, (*snapshot).diagnoseSequences)},
		{store.PartRollbacks, s.ofSnapshot(d, (*snapshot).diagnoseRollbacks)},
		{store.PartStalls, s.ofSnapshot(d, (*snapshot).diagnoseStalls)},
	} {
		reading, cancel := context.WithTimeout(ctx, store.DiagnosisTime)
		err := p.read(reading)
		late := reading.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case err != nil && late:
			d.Unseen = append(d.Unseen, store.UnseenPart{Part: p.part})
		case err != nil:
			return nil, err
		}
	}
	return d, nil
}

// Halted counts parked schedules and blocked sequences.
func (s *Store) Halted(ctx context.Context) (store.Halted, error) {
	var d store.Diagnosis
	err := s.view(ctx, "count what is halted", func(t *snapshot) error {
		d = store.Diagnosis{Now: s.now()}
		if err := t.diagnoseSchedules(&d); err != nil {
			return err
		}
		return t.diagnoseSequences(&d)
	})
	return d.Halted(), err
}

// ofSnapshot reads a part on a snapshot of its own.
func (s *Store) ofSnapshot(d *store.Diagnosis, read func(*snapshot, *store.Diagnosis) error) func(context.Context) error {
	return func(ctx context.Context) error {
		return s.view(ctx, "look at the store", func(t *snapshot) error { return read(t, d) })
	}
}

func (t *snapshot) diagnoseAgents(d *store.Diagnosis) (err error) {
	if d.Agents, err = t.agents(d.Now, false); err != nil {
		return err
	}
	all, err := t.agents(d.Now, true)
	d.Fresh = err == nil && len(all) == 0
	d.Agents = append(d.Agents, store.Vanished(all, d.Now)...)
	return err
}

// waitingClasses are the classes of waiting rows, each with its index, that claims take rows from.
func waitingClasses() map[string]string {
	const due, rollback = "task.state IN ('pending', 'retry_pending') AND task.held IS NULL", "task.state = 'rollback_pending' AND task.held IS NULL"
	return map[string]string{
		"task_due": due + " AND task.tenant IS NULL", "task_tenant": due + " AND task.tenant IS NOT NULL",
		"task_rollback": rollback + " AND task.tenant IS NULL", "task_tenant_rollback": rollback + " AND task.tenant IS NOT NULL",
	}
}

func (t *snapshot) diagnoseOrphans(d *store.Diagnosis) error {
	waiting := map[string]int{}
	for index, where := range waitingClasses() {
		types, err := t.sql.UndeclaredTypes.Fill("{where}", where)
		if err != nil {
			return err
		}
		if types, err = types.Fill("{index}", "INDEXED BY "+index); err != nil {
			return err
		}
		count, err := t.sql.CountUndeclared.Fill("{where}", where)
		if err != nil {
			return err
		}
		if count, err = count.Fill("{index}", "INDEXED BY "+index); err != nil {
			return err
		}
		var found []string
		if err := t.query(func(r *sql.Rows) error {
			var typ string
			err := r.Scan(&typ)
			found = append(found, typ)
			return err
		}, types, arg("steps", store.DiagnosisTypes), arg("now", stamp(d.Now)), arg("most", store.DiagnosisListed+1)); err != nil {
			return err
		}
		for _, typ := range found {
			var n int
			if err := t.row([]any{&n}, count, arg("type", typ), arg("most", store.DiagnosisWaiting+1)); err != nil {
				return err
			}
			waiting[typ] += n
		}
	}
	d.Orphans = store.SortedWaiting(waiting)
	return nil
}

func (t *snapshot) diagnoseSchedules(d *store.Diagnosis) error {
	return t.query(func(r *sql.Rows) error {
		var s store.IdleSchedule
		var next, parked, paused time.Time
		err := r.Scan(&s.Name, timeOf{&next}, timeOf{&parked}, timeOf{&paused}, &s.PausedBy, &s.Invalid)
		s.NextAt, s.ParkedAt, s.PausedAt = pointer(next), pointer(parked), pointer(paused)
		d.Schedules = append(d.Schedules, s)
		return err
	}, t.sql.IdleSchedules, arg("before", stamp(d.Now.Add(-store.DiagnosisBehind))), arg("most", store.DiagnosisListed+1))
}

func (t *snapshot) diagnoseSequences(d *store.Diagnosis) error {
	return t.query(func(r *sql.Rows) error {
		var s store.BlockedSequence
		var since time.Time
		err := r.Scan(&s.Type, &s.Sequence, &s.Task, timeOf{&since})
		s.Since = pointer(since)
		d.Sequences = append(d.Sequences, s)
		return err
	}, t.sql.BlockedSequences, arg("looked", store.DiagnosisSequences), arg("most", store.DiagnosisListed+1))
}

func (t *snapshot) diagnoseRollbacks(d *store.Diagnosis) error {
	return t.query(func(r *sql.Rows) error {
		var f store.FailedRollback
		err := r.Scan(&f.Task, &f.Type, timeOf{&f.At})
		d.Rollbacks = append(d.Rollbacks, f)
		return err
	}, t.sql.FailedRollbacks, arg("most", store.DiagnosisListed+1))
}

func (t *snapshot) diagnoseStalls(d *store.Diagnosis) error {
	return t.query(func(r *sql.Rows) error {
		var s store.StalledType
		err := r.Scan(&s.Type, &s.Stalls, timeOf{&s.Last})
		d.Stalls = append(d.Stalls, s)
		return err
	}, t.sql.StalledTypes, arg("looked", store.DiagnosisStalls), arg("since", stamp(d.Now.Add(-store.DiagnosisAgents))),
		arg("most", store.DiagnosisListed+1))
}

// fileHealth looks at the file, and what SQLite keeps beside it.
func (s *Store) fileHealth(ctx context.Context) (*store.FileHealth, error) {
	h := &store.FileHealth{Path: s.path, Mode: uint32(s.allowed.mode())}
	for _, file := range s.open(s.allowed) {
		h.Open = append(h.Open, store.OpenFile{Path: file.path, Mode: uint32(file.mode)})
	}
	h.Free, h.Size = s.room(s.real())
	var err error
	h.Unchecked, err = s.unchecked(ctx)
	return h, err
}

// unchecked moves what it can of the write-ahead log into the file, as each commit does from time to time, and returns how many bytes it could
// not move.
func (s *Store) unchecked(ctx context.Context) (bytes int64, err error) {
	db, err := s.openDB("rw")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var busy, frames, moved, page int64
	if err := db.QueryRowContext(ctx, "PRAGMA wal_checkpoint(passive)").Scan(&busy, &frames, &moved); err != nil {
		return 0, s.explain("look at the write-ahead log", err)
	}
	if err := db.QueryRowContext(ctx, "PRAGMA page_size").Scan(&page); err != nil {
		return 0, s.explain("look at the file", err)
	}
	return max(frames-moved, 0) * page, nil
}
