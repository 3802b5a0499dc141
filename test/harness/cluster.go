package harness

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// clusterWithin bounds how long a server of one's own may take to start, or to stop.
const clusterWithin = 2 * time.Minute

// Cluster is a PostgreSQL server of a test's own, which can be stopped and started.
type Cluster struct {
	URL     string // of its database, for its superuser
	Pooled  string // the same by way of a PgBouncer in transaction mode; "": there is none
	process *Process
	bin     string // where its programs are
	data    string // where its files are
	port    string
}

// NewCluster starts a server that lasts as long as the test.
func NewCluster(t testing.TB) *Cluster {
	t.Helper()
	return newCluster(t)
}

// NewPooledCluster starts a server with a PgBouncer before it, where one can be had.
func NewPooledCluster(t testing.TB) *Cluster {
	t.Helper()
	return newCluster(t, filepath.Join(Root(), "test", "with-pgbouncer"), "--optional")
}

// newCluster runs a command under with, which starts a server; the command prints how to reach it.
func newCluster(t testing.TB, with ...string) *Cluster {
	t.Helper()
	const say = `echo "cluster $LEASEHOLD_TEST_POSTGRES $LEASEHOLD_POSTGRES_BIN $LEASEHOLD_POSTGRES_DATA ${LEASEHOLD_TEST_POOLER:-none} ready"
exec sleep infinity`
	argv := append(with, "sh", "-c", say)
	cmd := exec.Command(filepath.Join(Root(), "test", "with-postgres"), argv...) //nolint:noctx // StartProcess ends it
	// It is there to be crashed, so it keeps what it has committed, whatever the settings of the tests' own server. It compiles no
	// statements: that takes most of the time where tables have a few rows.
	cmd.Env = append(without(os.Environ(), "LEASEHOLD_TEST_POSTGRES=", "LEASEHOLD_POSTGRES_CONF=", poolerVariable+"="),
		"LEASEHOLD_TEST_POSTGRES=", "LEASEHOLD_POSTGRES_CONF=jit = off")
	c := &Cluster{process: StartProcess(t, "cluster", cmd, " ready")}
	t.Cleanup(func() { // before the process is killed, which would leave the server behind
		c.process.Signal(t, syscall.SIGTERM)
		c.process.Wait(t)
	})
	c.process.Await(t, " ready", clusterWithin)
	found := regexp.MustCompile(`cluster (\S+) (\S+) (\S+) (\S+) ready`).FindStringSubmatch(c.process.Tail())
	require.Len(t, found, 5, c.process.Tail())
	c.URL, c.bin, c.data = found[1], found[2], found[3]
	if found[4] != "none" {
		c.Pooled = found[4]
	}
	u, err := url.Parse(c.URL)
	require.NoError(t, err)
	c.port = u.Port()
	return c
}

func without(env []string, prefixes ...string) (kept []string) {
	for _, e := range env {
		if !slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(e, prefix) }) {
			kept = append(kept, e)
		}
	}
	return kept
}

// Stop stops the server as an administrator does: it cuts all connections off.
func (c *Cluster) Stop(t testing.TB) {
	t.Helper()
	require.NoError(t, c.down("fast"))
}

// Start starts it again.
func (c *Cluster) Start(t testing.TB) {
	t.Helper()
	require.NoError(t, c.up())
}

// TryRestart stops the server in one of pg_ctl's modes ("fast", or "immediate", which is a crash) and starts it again
// with more in its environment.
func (c *Cluster) TryRestart(mode string, env ...string) error {
	if err := c.down(mode); err != nil {
		return err
	}
	return c.up(env...)
}

// TryAwait waits until the server answers, and starts it if it has ended.
func (c *Cluster) TryAwait(env ...string) error {
	deadline := time.Now().Add(clusterWithin)
	for {
		if c.answers() {
			return nil
		}
		if c.control("status") != nil {
			if err := c.up(env...); err != nil {
				return err
			}
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the server does not answer within %s", clusterWithin)
		}
		pause := time.NewTimer(100 * time.Millisecond)
		<-pause.C
	}
}

func (c *Cluster) down(mode string) error { return c.control("stop", "-m", mode, "-w", "-t", "60") }

func (c *Cluster) up(env ...string) error {
	return c.controlWith(env, "start", "-o", "-p "+c.port, "-l", filepath.Join(filepath.Dir(c.data), "server.log"), "-w", "-t", "60")
}

func (c *Cluster) control(args ...string) error { return c.controlWith(nil, args...) }

// controlWith runs pg_ctl as the owner of the server's files.
func (c *Cluster) controlWith(env []string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), clusterWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, "pg_ctl"), append([]string{"-D", c.data}, args...)...)
	cmd.Dir, cmd.Env = filepath.Dir(c.data), append(os.Environ(), env...)
	info, err := os.Stat(c.data)
	if err != nil {
		return err
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}}
	}
	// The server keeps its standard streams: with pipes one would wait for its end.
	out, err := os.CreateTemp("", "pg_ctl")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name()) //nolint:errcheck // in the system's directory for such things
	defer out.Close()           //nolint:errcheck // it was read
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		text, _ := os.ReadFile(out.Name())
		return fmt.Errorf("pg_ctl %s: %w\n%s", strings.Join(args, " "), err, text)
	}
	return nil
}

func (c *Cluster) answers() bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.URL)
	if err != nil {
		return false
	}
	return conn.Close(ctx) == nil
}
