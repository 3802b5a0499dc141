package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"strconv"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// Failpoints names the points of Settle at which Options.Fail is called.
func Failpoints() []string {
	return []string{failBefore, failCommit, failAfter, failPartition, failRepeat}
}

// BatchFailpoints names those of a Fold that ends a batch, and of a Step.
func BatchFailpoints() []string { return []string{failBefore, failCommit, failAfter, failSummed} }

// WithStatementsOf has Open use the statements of a store on the same schema: to compile them takes most of its time.
func (o Options) WithStatementsOf(s *Store) Options {
	if s != nil {
		o.sql = s.sql
	}
	return o
}

// Pools are the connections of one store after another.
type Pools struct{ pools *pools }

// NewPools makes pools of the size that stores have.
func NewPools(ctx context.Context, o Options) (Pools, error) {
	o.Connections = cmp.Or(o.Connections, 4)
	p, err := newPools(ctx, &o)
	return Pools{p}, err
}

// Idle reports whether no connection is in use.
func (p Pools) Idle() bool {
	return p.pools.pool.Stat().AcquiredConns()+p.pools.heart.Stat().AcquiredConns() == 0
}

// Close ends all connections.
func (p Pools) Close() { p.pools.close() }

// WithPools has Open use pools, which Close then leaves open.
func (o Options) WithPools(p Pools) Options {
	o.pools = p.pools
	return o
}

// Statements are the hot calls' texts.
func (s *Store) Statements() map[string]string {
	queries, _ := loadQueries(s.schema) // it has been done before
	texts := map[string]string{}
	for _, name := range []string{
		"claim", "claim_both", "claim_region", "claim_region_both", "claimed", "next_due", "settle", "settle_missed", "settle_locked", "settle_done",
		"settle_done_counted", "renew", "renew_more", "renew_missed", "holders", "sweep", "adopt", "adopt_missed", "present", "cancels", "get",
		"completed", "due_schedules", "look_plan", "chunk_obstacles", "spill", "region_orphans",
		"claim_tenants", "claim_limited_tenants", "tenant_types", "find_tenants", "find_tenants_rollback",
		"blocked_sequences", "failed_rollbacks", "stalled_types",
	} {
		texts[name] = queries[name].Text
	}
	for i, where := range waitingClasses() {
		filled, _ := queries["undeclared_types"].Fill("{where}", where) // a condition of constants
		texts[fmt.Sprintf("undeclared_types of class %d", i)] = filled.Text
	}
	return texts
}

// LookBulkText is the text of a look of a bulk change, with its arguments.
func (s *Store) LookBulkText(t testing.TB, l *store.BulkLook) string {
	t.Helper()
	q, args, err := s.lookBulk(l)
	require.NoError(t, err)
	return literal(q, args...)
}

// AllStatements are the texts of all statements that a plan can be made of: on the partition of a day, and with every filter.
func (s *Store) AllStatements(day time.Time) (map[string]string, error) {
	f, err := newFilter(s.schema, store.TaskFilter{
		Type: "a", Key: "b", Batch: 1, Before: 1, Labels: map[string]string{"a": "b"}, States: task.States(),
		Window: store.Window{From: 1},
	})
	if err != nil {
		return nil, err
	}
	few, err := newFilter(s.schema, store.TaskFilter{Type: "a"})
	if err != nil {
		return nil, err
	}
	queries, err := loadQueries(s.schema)
	if err != nil {
		return nil, err
	}
	t := dayTable{name: day.UTC().Format("task_archive_20060102")}
	texts := map[string]string{}
	for name, q := range queries {
		conditions := f.conditions()
		switch name {
		case "lock_removal", "detach", "finalize", "drop", "create_book", "lock_book", "lock_sessions", "record_step":
			continue
		case "counts":
			if q, err = countedIndexes()[0].fill(s.schema, q); err != nil {
				return nil, err
			}
		case "orphans":
			if q, err = fillOrphans(s.schema, q); err != nil {
				return nil, err
			}
		case "batches":
			conditions = "b.id < @before AND b.name = @name AND b.state = ANY (@states::text[])"
		case "bulks":
			conditions = "c.ended_at IS NULL AND c.id > @after"
		case "look_bulk":
			conditions = "a.state <> 'succeeded' AND a.type = @type"
		case "audit", "audit_edge":
			edge, list, _, err := s.auditQueries(store.AuditFilter{Task: 1, Batch: 2, RequestedBy: "a", Verb: "b", Type: "c", Since: &day})
			if err != nil {
				return nil, err
			}
			texts["audit"], texts["audit_edge"] = list.Text, edge.Text
			continue
		}
		filled, err := t.of(q).Fill("{where}", conditions)
		if err != nil {
			return nil, err
		}
		if filled, err = f.fill(filled); err != nil {
			return nil, err
		}
		for placeholder, text := range map[string]string{"{or_finished}": f.finished(), "{order}": "t.id", "{other}": "t.id", "{few}": few.probe(few.liveProbes()) + " AND EXISTS (" + few.gather() + ")"} {
			if filled, err = filled.Fill(placeholder, text); err != nil {
				return nil, err
			}
		}
		texts[name] = filled.Text
	}
	return texts, nil
}

// BatchStatements are the texts of what is looked up about batches.
func (s *Store) BatchStatements() (map[string]string, error) {
	texts := map[string]string{
		"failures": s.sql.BatchFailures.Text, "tasks": s.sql.BatchTasks.Text,
		"forget": s.sql.ForgetBatches.Text, "operations": s.sql.Operations.Text, "running": s.sql.BatchRunning.Text,
		"waiting": s.sql.BatchWaiting.Text, "left": s.sql.BatchLeft.Text, "failed": s.sql.BatchFailed.Text,
		"finished": s.sql.BatchFinished.Text, "task": s.sql.BatchTask.Text,
	}
	for name, states := range map[string][]task.State{"list tasks": nil, "list failed tasks": {task.StateFailed}} {
		q, _, err := s.listQuery(store.TaskFilter{Batch: 1, States: states})
		if err != nil {
			return nil, err
		}
		texts[name] = q.Text
	}
	q, err := s.sql.Batches.Fill("{where}", "b.id = @id")
	texts["get"] = q.Text
	return texts, err
}

// RemovalStatements are the texts of what removes a day of the archive, or rows of it.
func (s *Store) RemovalStatements(day time.Time) map[string]string {
	t := dayTable{name: day.UTC().Format("task_archive_20060102")}
	return map[string]string{
		"batches of a day": t.of(s.sql.DayBatches).Text, "expire rows": t.of(s.sql.ExpireRows).Text,
		"forget history": t.of(s.sql.ForgetHistory).Text, "forget agents": s.sql.ForgetAgents.Text,
	}
}

// ListStatements are the texts that list tasks of no batch in particular, newest first.
func (s *Store) ListStatements() (map[string]string, error) {
	texts := map[string]string{}
	for name, f := range map[string]store.TaskFilter{
		"list all": {}, "list a type": {Type: "type1"}, "list before": {Before: 1000},
		"list failed": {States: []task.State{task.StateFailed}}, "list running": {States: []task.State{task.StateRunning}},
		"list few":              {Type: "type1", Window: store.Window{Few: true}},
		"list labels":           {Labels: map[string]string{"a": "b"}, Window: store.Window{From: 1}},
		"list many":             {Key: "k", Window: store.Window{From: 1, Many: true}},
		"list failed of a type": {Type: "type1", States: []task.State{task.StateFailed}, Window: store.Window{From: 1}},
	} {
		q, _, err := s.listQuery(f)
		if err != nil {
			return nil, err
		}
		texts[name] = q.Text
		n, err := newFilter(s.schema, f)
		if err != nil {
			return nil, err
		}
		if q, err = n.window(s.sql.Window, false, false); err != nil {
			return nil, err
		}
		if q != nil {
			texts["window: "+name] = q.Text
		}
		if probes := n.liveProbes(); len(probes) > 0 {
			if q, err = s.sql.Few.Fill("{few}", n.probe(probes)); err != nil {
				return nil, err
			}
			texts["few: "+name] = q.Text
		}
	}
	for n, i := range countedIndexes() {
		q, err := i.fill(s.schema, s.sql.Counts)
		if err != nil {
			return nil, err
		}
		texts["count "+strconv.Itoa(n)] = q.Text
	}
	texts["count held"] = s.sql.CountsHeld.Text
	return texts, nil
}

// Show reads a setting of the store's connections.
func (s *Store) Show(ctx context.Context, name string) (value string, err error) {
	err = s.pool.QueryRow(ctx, "SELECT current_setting($1)", name).Scan(&value)
	return value, err
}

// Spoil makes all the pool's connections read-only, as a failover does.
func (s *Store) Spoil(ctx context.Context) error {
	for _, c := range append(s.pool.AcquireAllIdle(ctx), s.heart.AcquireAllIdle(ctx)...) {
		_, err := c.Exec(ctx, "SET default_transaction_read_only = on")
		c.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// Occupy takes all the pool's connections until release is called.
func (s *Store) Occupy(ctx context.Context) (release func(), err error) {
	var taken []*pgxpool.Conn
	release = func() {
		for _, c := range taken {
			c.Release()
		}
	}
	for range s.pool.Config().MaxConns {
		c, err := s.pool.Acquire(ctx)
		if err != nil {
			release()
			return nil, err
		}
		taken = append(taken, c)
	}
	return release, nil
}

// Flush closes all connections: a backend reports its statistics before it ends.
func (s *Store) Flush(ctx context.Context) error {
	for _, c := range append(s.pool.AcquireAllIdle(ctx), s.heart.AcquireAllIdle(ctx)...) {
		pid := c.Conn().PgConn().PID()
		err := c.Conn().Close(ctx)
		c.Release()
		if err != nil {
			return err
		}
		for there := true; there; {
			const look = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)"
			if err := s.pool.QueryRow(ctx, look, pid).Scan(&there); err != nil {
				return err
			}
		}
	}
	return nil
}

// FreezeLowWater stops the clock by which low-water marks age: only ForgetLowWater has a claim look from zero then.
func (s *Store) FreezeLowWater() {
	at := time.Now()
	s.lowWater.now = func() time.Time { return at }
}

// LookForTenants has each claim look whether there are rows with a tenant, in lanes of which none are known.
func (s *Store) LookForTenants() { s.turns.every = 0 }

// ForgetLowWater has the next claim look from zero.
func (s *Store) ForgetLowWater() { s.lowWater = newLowWater() }

// BuffersOf makes a claim and returns how many buffers its statement used.
func (s *Store) BuffersOf(ctx context.Context, c store.Claim) (buffers int64, err error) {
	return s.buffers(ctx, s.sql.claiming(c), c, s.lowWater.look(c))
}

// BuffersOfLimited makes a claim of a type as if it had a limit with room for so many, and likewise one in an exchange. It returns how many
// buffers the one of them used that used more.
func (s *Store) BuffersOfLimited(ctx context.Context, c store.Claim, room int) (buffers int64, err error) {
	rooms, err := json.Marshal([]map[string]any{{"kind": c.Wants[0].Type, "name": c.Wants[0].Type, "rooms": room, "rated": false}})
	if err != nil {
		return 0, err
	}
	err = s.do(ctx, "set rooms", func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `SELECT set_config('leasehold.rooms', $1, false)`, pgx.QueryExecModeExec, string(rooms))
		return err
	})
	if err != nil {
		return 0, err
	}
	for _, q := range []*sqltext.Query{s.sql.ClaimLimited, s.sql.exchanging(c)} {
		n, err := s.buffers(ctx, q, c, s.lowWater.look(c)) // an idle pool lends the connection that was used last
		if err != nil {
			return 0, err
		}
		buffers = max(buffers, n)
	}
	return buffers, nil
}

// BuffersOfTurns makes a claim of the tenants whose turn it is in the lane of the only want, without those rows that have none, and returns
// how many buffers its statement used.
func (s *Store) BuffersOfTurns(ctx context.Context, c store.Claim) (buffers int64, err error) {
	w := c.Wants[0]
	var plan []turn
	s.turns.of(laneOf(c, w), func(r *ring, _ time.Time) { plan = r.plan(w.N, func(string) int { return 1 }) })
	c.Wants = nil
	var tenants []string
	for _, p := range plan {
		if p.tenant != "" {
			w.N = p.n
			c.Wants, tenants = append(c.Wants, w), append(tenants, p.tenant)
		}
	}
	return s.buffers(ctx, s.sql.ClaimTenants, c, s.lowWater.lookOf(c, tenants))
}

// buffers makes a claim by a statement and returns how many buffers that used.
func (s *Store) buffers(ctx context.Context, q *sqltext.Query, c store.Claim, l *look) (buffers int64, err error) {
	err = s.do(ctx, "explain", func(ctx context.Context, conn *pgx.Conn) error {
		text := "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + q.Text
		args := s.sql.claimArgs(q, c, l)
		var plan []struct {
			Plan struct {
				Hit  int64 `json:"Shared Hit Blocks"`
				Read int64 `json:"Shared Read Blocks"`
			}
		}
		var body []byte
		if err := conn.QueryRow(ctx, text, append([]any{pgx.QueryExecModeExec}, args...)...).Scan(&body); err != nil {
			return err
		}
		if err := json.Unmarshal(body, &plan); err != nil {
			return err
		}
		buffers = plan[0].Plan.Hit + plan[0].Plan.Read
		return nil
	})
	return buffers, err
}

// ShortenWaits shortens the waits for locks of changes of the schema, and until it is looked up who holds one.
func (s *Store) ShortenWaits(lock, look time.Duration) {
	s.waits = waits{schema: lock, step: lock, look: look}
}

// WithFiles adds files to the schema's, as a later version of the program has them.
func (s *Store) WithFiles(more fstest.MapFS) {
	all := fstest.MapFS{}
	for _, pattern := range []string{"*.sql", "functions/*.sql", "migrations/*.sql"} {
		names, _ := fs.Glob(schemaFiles, pattern) // the patterns are well-formed
		for _, name := range names {
			text, _ := schemaFiles.ReadFile(name) // it is there
			all[name] = &fstest.MapFile{Data: text}
		}
	}
	maps.Copy(all, more)
	s.files = all
}

// File reads one of the schema's files.
func File(name string) string {
	text, _ := schemaFiles.ReadFile(name) // "" where it is not there, which tests notice
	return string(text)
}

// ShortWay reports whether rows are settled the short way now, and whether those of batches and those with a key are.
func (s *Store) ShortWay() (plain, counted bool) {
	return !s.kept.lately(time.Now()), s.counts(time.Now())
}

// ForgetKept has rows settled the short way again.
func (s *Store) ForgetKept() {
	s.kept.until.Store(nil)
	s.followed.until.Store(nil)
}

// BuffersOfLimitedTurns makes a claim of the tenants whose turn it is, of a type with a limit, as BuffersOfTurns, and walks on along the
// tenants. It returns how many rows it claimed, and how many buffers all of its statements used.
func (s *Store) BuffersOfLimitedTurns(ctx context.Context, c store.Claim) (rows int, buffers int64, err error) {
	w := c.Wants[0]
	var plan []turn
	var after string
	s.turns.of(laneOf(c, w), func(r *ring, _ time.Time) {
		plan, after = r.plan(w.N, func(string) int { return 1 }), r.after
	})
	c.Wants = nil
	tenants := []string{}
	for _, p := range plan {
		if p.tenant != "" {
			w.N = p.n
			c.Wants, tenants = append(c.Wants, w), append(tenants, p.tenant)
		}
	}
	err = s.do(ctx, "explain", func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			explained := func(q *sqltext.Query, args []any) (n int, err error) {
				var found []struct {
					Plan struct {
						Hit  int64   `json:"Shared Hit Blocks"`
						Read int64   `json:"Shared Read Blocks"`
						Rows float64 `json:"Actual Rows"`
					}
				}
				var body []byte
				text := "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + q.Text
				if err := tx.QueryRow(ctx, text, append([]any{pgx.QueryExecModeExec}, args...)...).Scan(&body); err != nil {
					return 0, err
				}
				if err := json.Unmarshal(body, &found); err != nil {
					return 0, err
				}
				buffers += found[0].Plan.Hit + found[0].Plan.Read
				return int(found[0].Plan.Rows), nil
			}
			_, err := explained(s.sql.LockLimits, s.sql.LockLimits.Args(arg("types", []string{w.Type})))
			if err == nil {
				_, err = explained(s.sql.LockTenants, s.sql.LockTenants.Args(arg("type", w.Type), arg("tenants", tenants)))
			}
			if err == nil {
				rows, err = explained(s.sql.ClaimLimitedTenants, s.sql.claimArgs(s.sql.ClaimLimitedTenants, c, s.lowWater.lookOf(c, tenants)))
			}
			if err == nil {
				_, err = explained(s.sql.FindTenants, s.sql.FindTenants.Args(arg("type", w.Type), arg("regions", regions(c.Region)),
					arg("after", after), arg("most", int32(walkSteps))))
			}
			return err
		})
	})
	return rows, buffers, err
}

// ReadVersion reads the schema's version in a transaction.
func (s *Store) ReadVersion(ctx context.Context, tx pgx.Tx) (store.Schema, error) {
	return s.version(ctx, tx)
}
