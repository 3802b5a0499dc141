package suite

import (
	"context"
	"errors"
	"fmt"

	"github.com/leasehold/leasehold/bench/rig"
	"github.com/leasehold/leasehold/bench/work"
)

// filling is what stands in the tables already when the rows come.
type filling struct {
	name string
	rows int
	live bool   // they stand in the hot table
	sql  string // inserts so many rows, numbered from 1
}

const (
	fillLive = `INSERT INTO leasehold.task (type, priority, run_at, payload)
		SELECT %s, '{"n": 1}' FROM generate_series(1, $1::integer) AS n`
	tomorrow    = `now() + interval '1 day' + n * interval '1 ms'`
	fillArchive = `INSERT INTO leasehold.task_archive (id, type, state, priority, run_at, payload, created_at, attempt, deferrals,
			ever_started, fence, session, claim, policy, lease_until, claimed_at, started_at, finished_at)
		SELECT n, '` + work.TaskType + `', 'succeeded', 0, at, '{"n": 1}', at AS created_at, 1, 0, true, 2, 1, n / 1000, 1,
			at AS lease_until, at AS claimed_at, at AS started_at, at AS finished_at
		FROM generate_series(1, $1::integer) AS n, now() AS at`
	// Agents make the archive's days, under these names.
	today = `DO $$ DECLARE day date := (now() AT TIME ZONE 'UTC')::date; BEGIN
		EXECUTE format('CREATE TABLE leasehold.%I PARTITION OF leasehold.task_archive FOR VALUES FROM (%L) TO (%L)',
			'task_archive_' || to_char(day, 'YYYYMMDD'), day || ' 00:00:00+00', day + 1 || ' 00:00:00+00'); END $$`
	// The ids of the archive are taken.
	skipIDs = `SELECT setval(pg_get_serial_sequence('leasehold.task', 'id'), $1::bigint)`
)

func fillings() []filling {
	return []filling{
		{name: "future", rows: 1_000_000, live: true, sql: fmt.Sprintf(fillLive, `'`+work.TaskType+`', 10, `+tomorrow)},
		{name: "undeclared", rows: 1_000_000, live: true, sql: fmt.Sprintf(fillLive, `'undeclared', 0, now()`)},
		{name: "archived", rows: 10_000_000, sql: fillArchive},
	}
}

// flat measures Leasehold on tables that are full of other rows, beside the empty ones. A filling is made once; each run
// begins with a copy of it.
func flat(ctx context.Context, s *Suite) (err error) {
	c, there := s.contender("leasehold")
	if !there {
		return nil
	}
	templates := []rig.Template{{Name: "empty"}}
	defer func() {
		for _, t := range templates {
			if t.Database != nil {
				err = errors.Join(err, t.Database.Drop(context.WithoutCancel(ctx)))
			}
		}
	}()
	for _, f := range fillings() {
		rows := s.rows(f.rows)
		t, err := s.Rig.Fill(ctx, c, f.name, func(ctx context.Context, d *rig.Database) error { return fill(ctx, d, f, rows) })
		if err != nil {
			return fmt.Errorf("fill with %s rows: %w", f.name, err)
		}
		if f.live {
			t.Live = rows
		}
		templates = append(templates, t)
		s.say("flat: %d %s rows are there\n", rows, f.name)
	}
	for range s.Rounds {
		for _, t := range templates {
			for scenario, j := range flatJobs(s) {
				j.Filled = t.Live
				if err := s.run(ctx, scenario, t.Name, rig.Run{Contender: c, Job: j, Template: t.Of()}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// flatJobs is what is done on each filling, by the names under which it is noted.
func flatJobs(s *Suite) func(yield func(string, work.Job) bool) {
	return func(yield func(string, work.Job) bool) {
		_ = yield("flat", work.Job{Kind: work.Noop, Rows: s.rows(200_000)}) &&
			yield("flat-latency", work.Job{Kind: work.Latency, Rows: s.rows(500)})
	}
}

// fill fills, and leaves nothing behind for the server to do later.
func fill(ctx context.Context, d *rig.Database, f filling, rows int) error {
	conn, err := d.Connect(ctx)
	if err != nil {
		return err
	}
	if !f.live {
		_, err = conn.Exec(ctx, today)
	}
	if err == nil {
		_, err = conn.Exec(ctx, f.sql, rows)
	}
	if err == nil && !f.live {
		_, err = conn.Exec(ctx, skipIDs, rows)
	}
	if err == nil {
		_, err = conn.Exec(ctx, `VACUUM (FREEZE, ANALYZE)`)
	}
	return errors.Join(err, conn.Close(ctx))
}
