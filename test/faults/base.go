//go:build linux

package faults

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/faults/effect"
	"github.com/leasehold/leasehold/test/harness"
)

// base is the database of a run: the store, with tables of the application and of the suite beside it. Statements are written
// for PostgreSQL; lite translates them.
type base interface {
	Begin(ctx context.Context) (pgx.Tx, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Close()
}

// openBase creates the database, with Leasehold's schema, and the tables of the suite in it.
func (w *world) openBase(t testing.TB) {
	t.Helper()
	tables := effect.Table + ";" + journalSQL
	switch {
	case w.o.SQLite:
		path := filepath.Join(w.dir, "leasehold.db")
		w.direct, tables = "sqlite:"+path, liteTables
		require.NoError(t, os.WriteFile(path, nil, 0o600)) // only agents create the file
		harness.MustRun(t, nil, "migrate", "up", "--store", w.direct)
		w.app = openLite(t, path)
	case w.cluster == nil:
		w.direct = harness.Database(t)
		w.app = openPool(t, w.direct)
	default:
		require.NoError(t, w.cluster.TryRestart("fast", w.preload()...))
		w.direct = database(t, w.cluster)
		w.app = openPool(t, w.direct)
	}
	_, err := w.app.Exec(t.Context(), tables)
	require.NoError(t, err)
	w.openItems(t)
	if w.o.SQL != "" {
		_, err = w.app.Exec(t.Context(), w.o.SQL)
		require.NoError(t, err)
	}
	w.addSchedules(t)
}

func openPool(t testing.TB, store string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), store)
	require.NoError(t, err)
	return pool
}

// database makes a database of the run's own, with Leasehold's schema.
func database(t testing.TB, cluster *harness.Cluster) string {
	t.Helper()
	name := fmt.Sprintf("faults_%d", time.Now().UnixNano())
	pool, err := pgxpool.New(t.Context(), cluster.URL)
	require.NoError(t, err)
	defer pool.Close()
	_, err = pool.Exec(t.Context(), "CREATE DATABASE "+name)
	require.NoError(t, err)
	u, err := url.Parse(cluster.URL)
	require.NoError(t, err)
	u.Path = "/" + name
	harness.MustRun(t, nil, "migrate", "up", "--store", u.String())
	return u.String()
}
