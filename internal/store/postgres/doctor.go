package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
)

// diagnoseTimeout bounds all parts of a diagnosis together.
const diagnoseTimeout = time.Minute

// diagnosed is a part of a diagnosis, and the relations that it reads.
type diagnosed struct {
	part   store.DiagnosisPart
	tables []string
	read   func(ctx context.Context, tx pgx.Tx, d *store.Diagnosis) error
}

func (s *Store) diagnosed() []diagnosed {
	return []diagnosed{
		{store.PartServer, nil, s.diagnoseServer},
		{store.PartAgents, []string{"agents"}, s.diagnoseAgents},
		{store.PartDeclarations, []string{"agent", "declaration", "declarer"}, func(ctx context.Context, tx pgx.Tx, d *store.Diagnosis) (err error) {
			d.Declared, err = s.readDefinitions(ctx, tx, s.sql.DeclaredBlocks)
			return err
		}},
		{store.PartPauses, []string{"type_pause"}, func(ctx context.Context, tx pgx.Tx, d *store.Diagnosis) (err error) {
			d.Pauses, err = s.readPauses(ctx, tx)
			return err
		}},
		{store.PartOrphans, []string{"agent", "task"}, s.diagnoseOrphans},
		{store.PartRegions, []string{"agent", "task"}, func(ctx context.Context, tx pgx.Tx, d *store.Diagnosis) (err error) {
			d.Regions, err = s.readRegionOrphans(ctx, tx)
			return err
		}},
		{store.PartSchedules, []string{"schedules"}, s.diagnoseSchedules},
		{store.PartSequences, []string{"sequence_failure", "sequence_holder", "sequence_rule", "task", "task_archive"}, s.diagnoseSequences},
		{store.PartRollbacks, []string{"task_archive"}, s.diagnoseRollbacks},
		{store.PartStalls, []string{"attempt", "task", "task_archive"}, s.diagnoseStalls},
	}
}

// Diagnose reads what the store knows of its own health and of the agents on it. Each part is one short transaction; one that takes longer than
// store.DiagnosisTime, or that the role may not read, is left out, and named.
func (s *Store) Diagnose(ctx context.Context) (*store.Diagnosis, error) {
	d := &store.Diagnosis{}
	var denied []string
	err := s.with(ctx, s.pool, "look at the store", diagnoseTimeout, func(ctx context.Context, conn *pgx.Conn) error {
		if err := s.checkSchema(ctx, conn); err != nil {
			return err
		}
		for _, p := range s.diagnosed() {
			err := bounded(ctx, conn, func(tx pgx.Tx) error { return p.read(ctx, tx, d) })
			switch code(err) {
			case codeRight:
				d.Unseen = append(d.Unseen, store.UnseenPart{Part: p.part, Denied: true})
				denied = append(denied, p.tables...)
				err = nil
			case codeCancelled:
				d.Unseen = append(d.Unseen, store.UnseenPart{Part: p.part})
				err = nil
			}
			if err != nil {
				return err
			}
			if d.Postgres != nil && d.Postgres.ReadOnly != "" {
				return nil
			}
		}
		return nil
	})
	if err != nil && strings.Contains(err.Error(), readOnlyServer) {
		return &store.Diagnosis{Postgres: &store.PostgresHealth{ReadOnly: "the server, or the role, takes no writes"}}, nil
	}
	if err != nil {
		return nil, explain(err)
	}
	if len(denied) > 0 {
		d.Grant = s.grantFor(denied, d.Postgres)
	}
	if d.Postgres != nil && d.Postgres.ReadOnly == "" {
		d.Postgres.Silent = s.silent(ctx)
	}
	return d, nil
}

// Halted counts parked schedules and blocked sequences, in one short transaction.
func (s *Store) Halted(ctx context.Context) (store.Halted, error) {
	var d store.Diagnosis
	err := s.do(ctx, "count what is halted", func(ctx context.Context, conn *pgx.Conn) error {
		d = store.Diagnosis{}
		return bounded(ctx, conn, func(tx pgx.Tx) error {
			if err := s.diagnoseSchedules(ctx, tx, &d); err != nil {
				return err
			}
			return s.diagnoseSequences(ctx, tx, &d)
		})
	})
	return d.Halted(), err
}

// readOnlyServer is what pgconn says of a server that takes no writes, for which it has no type.
const readOnlyServer = "read only connection"

// bounded runs f in a transaction that reads, each statement of which ends within store.DiagnosisTime.
func bounded(ctx context.Context, conn *pgx.Conn, f func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, fmt.Sprintf("SET LOCAL statement_timeout = %d", store.DiagnosisTime.Milliseconds())); err != nil {
			return err
		}
		return f(tx)
	})
}

// grantFor is the statement that lets the role read relations.
func (s *Store) grantFor(relations []string, p *store.PostgresHealth) string {
	slices.Sort(relations)
	var names []string
	for _, r := range slices.Compact(relations) {
		names = append(names, s.schema.quoted()+"."+r)
	}
	role := "ROLE"
	if p != nil && p.Role != "" {
		role = quoteIdentifier(p.Role)
	}
	return "GRANT SELECT ON " + strings.Join(names, ", ") + " TO " + role + ";"
}

// silent reports whether a notification that the store sends itself does not arrive: a pooler shares server connections between clients. Where
// no connection can be made to listen on, nothing is known of it.
func (s *Store) silent(ctx context.Context) bool {
	if !s.notify {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	conn, err := s.connect.single(ctx)
	if err != nil {
		return false
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing) // it is closed in any case
	}()
	if _, err := conn.Exec(ctx, s.schema.fill("LISTEN {channel}")); err != nil {
		return false
	}
	return errors.Is(s.echo(ctx, conn, func(store.News) {}), errNoEcho)
}

func (s *Store) diagnoseServer(ctx context.Context, tx pgx.Tx, d *store.Diagnosis) error {
	p := &store.PostgresHealth{Schema: string(s.schema)}
	task := arg("task", s.schema.fill("{schema}.task"))
	if err := queryRow(ctx, tx, s.sql.ServerHealth, task).Scan(&d.Now, &p.Version, &p.Role, &p.Hidden, &p.ReadOnly, &p.AutovacuumOff,
		&p.Dead, &p.Live, &p.Vacuumed, &p.Server.Used, &p.Server.Most, &p.Database.Used, &p.Database.Most, &p.OfRole.Used,
		&p.OfRole.Most); err != nil {
		return err
	}
	d.Now, p.Vacuumed, d.Postgres = d.Now.UTC(), utcPointer(p.Vacuumed), p
	if err := queryRow(ctx, tx, s.sql.RightsLacking, task, arg("schema", s.schema.quoted()),
		arg("most", store.DiagnosisListed)).Scan(&p.IsAgent, &p.Super, &p.Owner, &p.Lacking); err != nil {
		return err
	}
	var oldest store.Transaction
	if err := forEach(ctx, tx, []any{&oldest.Since, &oldest.PID, &oldest.Prepared, &oldest.User, &oldest.Application, &oldest.State}, func() error {
		oldest.Since = oldest.Since.UTC()
		p.Oldest = &oldest
		return nil
	}, s.sql.OldestTransaction); err != nil {
		return err
	}
	var slot store.ReplicationSlot
	if err := forEach(ctx, tx, []any{&slot.Name, &slot.Active, &slot.Transactions}, func() error {
		p.Slot = &slot
		return nil
	}, s.sql.OldestSlot); err != nil {
		return err
	}
	var unused store.UnusedSlot
	if err := forEach(ctx, tx, []any{&unused.Name, &unused.Bytes, &unused.Lost}, func() error {
		p.Unused = append(p.Unused, unused)
		return nil
	}, s.sql.UnusedSlots, arg("much", int64(store.DiagnosisLog)), arg("most", store.DiagnosisListed)); err != nil {
		return err
	}
	rows, err := query(ctx, tx, s.sql.MissingDays, arg("back", 0), arg("ahead", 1), arg("archive", s.schema.fill("{schema}.task_archive")))
	if err != nil {
		return err
	}
	p.Archive, err = pgx.CollectRows(rows, pgx.RowTo[time.Time])
	return err
}

func (s *Store) diagnoseAgents(ctx context.Context, tx pgx.Tx, d *store.Diagnosis) (err error) {
	if d.Agents, err = s.agents(ctx, tx, false); err != nil {
		return err
	}
	all, err := s.agents(ctx, tx, true)
	d.Fresh = err == nil && len(all) == 0
	d.Agents = append(d.Agents, store.Vanished(all, d.Now)...)
	return err
}

// waitingClasses are the classes of waiting rows that claims take rows from, each by the condition of its index.
func waitingClasses() []string {
	const due, rollback = "t.state IN ('pending', 'retry_pending') AND t.held IS NULL", "t.state = 'rollback_pending' AND t.held IS NULL"
	return []string{
		due + " AND t.tenant IS NULL", due + " AND t.tenant IS NOT NULL",
		rollback + " AND t.tenant IS NULL", rollback + " AND t.tenant IS NOT NULL",
	}
}

func (s *Store) diagnoseOrphans(ctx context.Context, tx pgx.Tx, d *store.Diagnosis) error {
	waiting := map[string]int{}
	for _, where := range waitingClasses() {
		types, err := s.sql.UndeclaredTypes.Fill("{where}", where)
		if err != nil {
			return err
		}
		count, err := s.sql.CountUndeclared.Fill("{where}", where)
		if err != nil {
			return err
		}
		rows, err := query(ctx, tx, types, arg("steps", store.DiagnosisTypes), arg("most", store.DiagnosisListed+1))
		if err != nil {
			return err
		}
		found, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		for _, typ := range found {
			var n int
			if err := queryRow(ctx, tx, count, arg("type", typ), arg("most", store.DiagnosisWaiting+1)).Scan(&n); err != nil {
				return err
			}
			waiting[typ] += n
		}
	}
	d.Orphans = store.SortedWaiting(waiting)
	return nil
}

func (s *Store) diagnoseSchedules(ctx context.Context, tx pgx.Tx, d *store.Diagnosis) error {
	var i store.IdleSchedule
	return forEach(ctx, tx, []any{&i.Name, &i.NextAt, &i.ParkedAt, &i.PausedAt, &i.PausedBy, &i.Invalid}, func() error {
		one := i
		one.NextAt, one.ParkedAt, one.PausedAt = utcPointer(i.NextAt), utcPointer(i.ParkedAt), utcPointer(i.PausedAt)
		d.Schedules = append(d.Schedules, one)
		return nil
	}, s.sql.IdleSchedules, arg("behind", store.DiagnosisBehind.Microseconds()), arg("most", store.DiagnosisListed+1))
}

func (s *Store) diagnoseSequences(ctx context.Context, tx pgx.Tx, d *store.Diagnosis) error {
	var b store.BlockedSequence
	return forEach(ctx, tx, []any{&b.Type, &b.Sequence, (*int64)(&b.Task), &b.Since}, func() error {
		one := b
		one.Since = utcPointer(b.Since)
		d.Sequences = append(d.Sequences, one)
		return nil
	}, s.sql.BlockedSequences, arg("looked", store.DiagnosisSequences), arg("most", store.DiagnosisListed+1))
}

func (s *Store) diagnoseRollbacks(ctx context.Context, tx pgx.Tx, d *store.Diagnosis) error {
	var f store.FailedRollback
	return forEach(ctx, tx, []any{(*int64)(&f.Task), &f.Type, &f.At}, func() error {
		f.At = f.At.UTC()
		d.Rollbacks = append(d.Rollbacks, f)
		return nil
	}, s.sql.FailedRollbacks, arg("most", store.DiagnosisListed+1))
}

func (s *Store) diagnoseStalls(ctx context.Context, tx pgx.Tx, d *store.Diagnosis) error {
	var t store.StalledType
	return forEach(ctx, tx, []any{&t.Type, &t.Stalls, &t.Last}, func() error {
		t.Last = t.Last.UTC()
		d.Stalls = append(d.Stalls, t)
		return nil
	}, s.sql.StalledTypes, arg("looked", store.DiagnosisStalls), arg("within", store.DiagnosisAgents.Microseconds()),
		arg("most", store.DiagnosisListed+1))
}

// utcPointer is a time that may be missing, in UTC, in memory of its own.
func utcPointer(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	at := t.UTC()
	return &at
}
