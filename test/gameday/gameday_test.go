// Package gameday_test plays docs/game-day.md: it breaks agents, their target and their database as the page says, and sees what the page
// says that one sees.
package gameday_test

import (
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
	"github.com/leasehold/leasehold/test/console"
	"github.com/leasehold/leasehold/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// TestGameDay runs all drills on PostgreSQL, as the reader does who has exported what the page names.
func TestGameDay(t *testing.T) {
	database := harness.EmptyDatabase(t)
	u, err := url.Parse(database)
	require.NoError(t, err)
	env := []string{"DATABASE_URL=" + database, "ADMIN_URL=" + pgtest.URL(t), "AGENT_ROLE=" + u.User.Username()}
	path := os.Getenv("PATH")
	if bin := os.Getenv("LEASEHOLD_POSTGRES_BIN"); bin != "" { // psql may be there only
		path += string(os.PathListSeparator) + bin
	}
	if runtime.GOOS == "linux" { // Debian's python3 starts faster than a wrapper of it
		path = "/usr/bin:/bin:" + path
	}
	console.Play(t, filepath.Join(harness.Root(), "docs/game-day.md"), console.Setting{Binary: harness.Binary(t), Env: append(env, "PATH="+path)})
}
