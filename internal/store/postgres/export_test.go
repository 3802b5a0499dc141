package postgres

import (
	"context"
	"encoding/json"
	"io/fs"
	"maps"
	"strings"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold/leasehold/internal/poll"
)

// Statements are the hot calls' texts.
func (s *Store) Statements() map[string]string {
	return map[string]string{
		"claim": s.sql.claim, "claim in a region": s.sql.claimRegion, "claimed": s.sql.claimed, "next due": s.sql.nextDue,
		"settle": s.sql.settle, "settle: told": s.sql.told, "settle: kept": s.sql.kept, "renew": s.sql.renew,
		"renew: told": s.sql.renewTold, "sweep": s.sql.sweep, "present": s.sql.present, "cancels": s.sql.cancels, "get": s.sql.get,
		"done": s.sql.done, "done, of batches": s.sql.doneCounted, "renew, and more": s.sql.renewMore, "adopt": s.sql.adopt, "adopt: judged": s.sql.judged,
		"completed": s.sql.completed,
	}
}

// BatchStatements are the texts of what is looked up about batches.
func (s *Store) BatchStatements() map[string]string {
	list := func(where string) string {
		return strings.NewReplacer("{where}", where, "{columns}", listColumns).Replace(s.sql.listOfBatch)
	}
	return map[string]string{
		"get": strings.Replace(s.sql.batches, "{where}", "b.id = $2", 1), "failures": s.sql.batchFailures,
		"tasks": s.sql.batchTasks + " WHERE $1::bigint IS NOT NULL", "forget": s.schema.fill(forgetBatchesSQL),
		"list tasks": list("batch_id = $2"), "list failed tasks": list("batch_id = $2 AND " + failedOnly),
	}
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

// Flush closes all connections: a backend that ends has told the server what it counted.
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

// FreezeFloors stops the clock by which floors age: only ForgetFloors has a claim look from zero then.
func (s *Store) FreezeFloors() {
	at := time.Now()
	s.floors.now = func() time.Time { return at }
}

// ForgetFloors has the next claim look from zero.
func (s *Store) ForgetFloors() { s.floors = newFloors() }

// Touched makes a claim and tells how many buffers its statement touched.
func (s *Store) Touched(ctx context.Context, c poll.Claim) (buffers int64, err error) {
	err = s.do(ctx, "explain", func(ctx context.Context, conn *pgx.Conn) error {
		text := "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + s.sql.claim
		args := claimArgs(c, s.floors.look(c))
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
