package suite

import (
	"context"

	"github.com/leasehold/leasehold/bench/work"
)

// Scenario is one thing that is measured.
type Scenario struct {
	Name string
	Is   string // in a few words
	Run  func(ctx context.Context, s *Suite) error
}

// Scenarios lists all.
func Scenarios() []Scenario {
	return []Scenario{
		{"noop", "rows that do nothing: the engine alone", func(ctx context.Context, s *Suite) error {
			return s.compare(ctx, work.Noop, s.rows(200_000))
		}},
		{"http", "one POST to a server on this machine for each row", func(ctx context.Context, s *Suite) error {
			return s.compare(ctx, work.HTTP, s.rows(60_000))
		}},
		{"many", "POSTs of a hundred rows each, beside one POST for each row by peers, and beside no-op", many},
		{"exec", "one /bin/true for each row", func(ctx context.Context, s *Suite) error {
			return s.compare(ctx, work.Exec, s.rows(8_000))
		}},
		{"workers", "a task that does nothing in a worker, one process for each core; /bin/true by the others", workers},
		{"latency", "insert to start, one row every 20 ms", func(ctx context.Context, s *Suite) error {
			return s.compare(ctx, work.Latency, s.rows(500))
		}},
		{"fair", "one type whose target hangs beside nine others, and the nine alone", fair},
		{"limit", "POSTs that take 5 ms, by four agents, with a limit over all of them and without", limits},
		{"flat", "Leasehold beside a million rows due later, a million of an undeclared type, ten million archived", flat},
		{"snapshot", "no-op while a session holds a snapshot", snapshot},
		{"idle", "nothing is due: one engine, and fifty agents on one Postgres", idle},
		{"async", "ten thousand tasks that go on after a 202, each of which pings every five seconds", async},
		{"batch", "a million no-op rows by four agents, in a batch and without one, and its counters watched", batches},
		{"sequences", "as locks, of rows over a thousand sequences", sequences},
		{"locks", "rows over a thousand locks, rows without, both mixed, and rows beside some that wait for their locks", locks},
		{"graph", "rows that wait for one, one that waits for as many, and rows that wait for none", graph},
		{"tenants", "rows of ten thousand tenants, of one, and of none", tenants},
		{"sqlite", "no-op, HTTP and latency on SQLite files", onSQLite},
		{"insert", "ten producers of single rows, with the trigger that notifies and without", inserts},
		{"pgbouncer", "no-op, HTTP and latency through PgBouncer in transaction mode", throughPooler},
	}
}
