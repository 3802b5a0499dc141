package harness

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// clusterWithin bounds how long a server of one's own may take to start, or to stop.
const clusterWithin = 2 * time.Minute

// Cluster is a PostgreSQL server of a test's own, which can be restarted.
type Cluster struct {
	URL     string // of its database, for its superuser
	process *Process
}

// NewCluster starts a server that lasts as long as the test.
func NewCluster(t testing.TB) *Cluster {
	t.Helper()
	const say = `echo "cluster $LEASEHOLD_TEST_POSTGRES ready"; exec sleep infinity`
	cmd := exec.Command(filepath.Join(Root(), "test", "with-postgres"), "sh", "-c", say) //nolint:noctx // StartProcess ends it
	cmd.Env = append(without(os.Environ(), "LEASEHOLD_TEST_POSTGRES="), "LEASEHOLD_TEST_POSTGRES=")
	c := &Cluster{process: StartProcess(t, "cluster", cmd, " ready")}
	t.Cleanup(func() { // before the process is killed, which would leave the server behind
		c.process.Signal(t, syscall.SIGTERM)
		c.process.Wait(t)
	})
	c.process.await(t, " ready", clusterWithin)
	found := regexp.MustCompile(`cluster (\S+) ready`).FindStringSubmatch(c.process.Tail())
	require.Len(t, found, 2, c.process.Tail())
	c.URL = found[1]
	return c
}

func without(env []string, prefix string) (kept []string) {
	for _, e := range env {
		if !strings.HasPrefix(e, prefix) {
			kept = append(kept, e)
		}
	}
	return kept
}

// Stop stops the server as an administrator does: it cuts all connections off.
func (c *Cluster) Stop(t testing.TB) {
	t.Helper()
	c.process.Signal(t, syscall.SIGUSR1)
	Until(t, clusterWithin, "the server is down", func() bool { return !c.answers(t) })
}

// Start starts it again.
func (c *Cluster) Start(t testing.TB) {
	t.Helper()
	c.process.Signal(t, syscall.SIGUSR2)
	Until(t, clusterWithin, "the server is up", func() bool { return c.answers(t) })
}

func (c *Cluster) answers(t testing.TB) bool {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.URL)
	if err != nil {
		return false
	}
	return conn.Close(ctx) == nil
}
