package postgres_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// tries is how often a statement is run until it touches as few pages as it may. Pages of the server's catalogs count, too, and it reads those
// again whenever tests beside this one have changed them.
const tries = 5

// pages returns how many pages a statement touches: the fewest of several times, each taken back, and the first that are at most as many as that.
func pages(t *testing.T, conn *pgx.Conn, text string, most int, args ...any) int {
	t.Helper()
	least := math.MaxInt
	for n := 0; n < tries && least > most; n++ {
		tx, err := conn.Begin(t.Context())
		require.NoError(t, err)
		least = min(least, touched(t, tx, text, args...))
		require.NoError(t, tx.Rollback(t.Context()))
	}
	return least
}

// stepPages does as pages, of a statement that changes tables, and keeps what it has done. It reads none of the tables whole whose names match.
func stepPages(t *testing.T, conn *pgx.Conn, text string, most int, tables string) int {
	t.Helper()
	least := math.MaxInt
	for n := 1; ; n++ {
		tx, err := conn.Begin(t.Context())
		require.NoError(t, err)
		least = min(least, touched(t, tx, text))
		var whole []string
		require.NoError(t, tx.QueryRow(t.Context(), `SELECT coalesce(array_agg(relname::text), '{}') FROM pg_stat_xact_user_tables
			WHERE seq_scan > 0 AND relname ~ $1`, tables).Scan(&whole))
		require.Empty(t, whole, "%s reads whole tables", text)
		if n == tries || least <= most {
			require.NoError(t, tx.Commit(t.Context()))
			return least
		}
		require.NoError(t, tx.Rollback(t.Context()))
	}
}

// touched runs a statement, and returns how many pages it has touched.
func touched(t *testing.T, tx pgx.Tx, text string, args ...any) int {
	t.Helper()
	var plan []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	var out []byte
	require.NoError(t, tx.QueryRow(t.Context(), `EXPLAIN (ANALYZE, BUFFERS, FORMAT json) `+text, args...).Scan(&out))
	require.NoError(t, json.Unmarshal(out, &plan))
	return plan[0].Plan.Hit + plan[0].Plan.Read
}
