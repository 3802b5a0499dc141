package command

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/leasehold/leasehold/internal/exec/exectest"
	"github.com/leasehold/leasehold/internal/exec/ping"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// notify is the test binary as a command that pings: with the library for systemd's services, or by hand.
func notify(args []string) {
	switch args[0] {
	case "sd":
		if sent, err := daemon.SdNotify(false, args[1]); !sent || err != nil {
			panic(fmt.Sprint("not sent: ", err))
		}
	case "barrier": // sd_notify_barrier(3): wait until all that was sent before has been taken in
		r, w, err := os.Pipe()
		if err != nil {
			panic(err)
		}
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
		if err != nil {
			panic(err)
		}
		to := &unix.SockaddrUnix{Name: os.Getenv("NOTIFY_SOCKET")}
		if err := unix.Sendmsg(fd, []byte("BARRIER=1"), unix.UnixRights(int(w.Fd())), to, 0); err != nil {
			panic(err)
		}
		_ = w.Close()
		_, _ = io.Copy(io.Discard, r) // ends when the other end is closed everywhere
	case "many": // more than a socket holds
		for range 100 {
			notify([]string{"sd", "WATCHDOG=1"})
		}
	case "stale":
		stale()
	}
}

// stale outlives its attempt, keeps every means to ping, and pings when the test asks for it.
func stale() {
	conn, err := net.Dial("unixgram", os.Getenv("NOTIFY_SOCKET"))
	if err != nil {
		panic(err)
	}
	third := os.NewFile(3, "3")
	if _, err := third.WriteString("# I am here\n"); err != nil {
		panic(err)
	}
	if err := os.WriteFile("pid", []byte(fmt.Sprint(os.Getpid())), 0o600); err != nil {
		panic(err)
	}
	got, err := os.ReadFile("go") // a FIFO
	if err != nil {
		panic(err)
	}
	const text = "WATCHDOG=1\nX_LEASEHOLD_PROGRESS=stale"
	_, err1 := conn.Write([]byte(text))
	_, err2 := daemon.SdNotify(false, text)
	_, err3 := third.WriteString("stale\n")
	report := fmt.Sprintf("%t %t %t %s", err1 != nil, err2 != nil, err3 != nil, got)
	if err := os.WriteFile("report", []byte(report), 0o600); err != nil { // also a FIFO
		panic(err)
	}
}

// self is how a script calls the test binary as notify.
func self(args ...string) string {
	text := helperVariable + "=notify '" + os.Args[0] + "'"
	for _, a := range args {
		text += " '" + a + "'"
	}
	return text
}

// listener is an attempt whose pings count only if they report progress. Each that counts sends on moves.
type listener struct {
	*lease.Lease
	moves chan struct{}
}

func listening(t *testing.T, heartbeat time.Duration) *listener {
	t.Helper()
	l := &listener{moves: make(chan struct{}, 1000)}
	l.Lease = exectest.Attempt{
		Policy: task.Policy{Timeout: time.Minute, Heartbeat: heartbeat, RequireProgress: true, MaxHeartbeat: time.Minute},
		Age:    time.Second, // so that each ping that counts moves the lease's end
	}.Lease()
	l.OnMove(func() { l.moves <- struct{}{} })
	t.Cleanup(l.Close)
	return l
}

// received requires that the lease knows this progress: the same once more is no change.
func (l *listener) received(t *testing.T, progress string) {
	t.Helper()
	require.Equal(t, "progress did not change", l.Ping(store.Ping{Progress: json.RawMessage(progress)}).Reason, progress)
}

// receivedNothing requires that no ping has reached the lease.
func (l *listener) receivedNothing(t *testing.T) {
	t.Helper()
	require.Empty(t, l.moves)
	require.Empty(t, l.Ping(store.Ping{Progress: json.RawMessage(`"first"`)}).Reason)
}

func TestWhatCountsAsAPing(t *testing.T) {
	const datagram = `WATCHDOG=1\nSTATUS=page 40\nX_LEASEHOLD_PROGRESS=0.4`
	for name, c := range map[string]struct{ script, progress string }{
		"a number":                   {"echo 0.40 >&3", "0.4"},
		"no line feed":               {"printf 0.4 >&3", "0.4"},
		"a word":                     {"echo page 40 >&3", `"page 40"`},
		"JSON":                       {`echo '{"progress": {"done": 40, "total": 100}, "message": "x"}' >&3`, `{"done":40,"total":100}`},
		"the last line":              {"echo 0.1 >&3; echo '{' >&3; echo >&3; echo 0.2 >&3; echo '# 0.3' >&3", "0.2"},
		"by number":                  {`eval "echo 0.4 >&$LEASEHOLD_PING_FD"`, "0.4"},
		"from a child":               {"(sh -c 'echo 0.4 >&3')", "0.4"},
		"the library for systemd":    {self("sd", strings.ReplaceAll(datagram, `\n`, "\n")), "0.4"},
		"more than the socket holds": {self("many") + " && echo 1 >&3", "1"},
		"a barrier":                  {self("sd", "X_LEASEHOLD_PROGRESS=0.4") + " && " + self("barrier"), "0.4"},
		"a socket":                   {`perl -MSocket -e 'socket(S, AF_UNIX, SOCK_DGRAM, 0); send(S, "` + datagram + `", 0, sockaddr_un($ENV{NOTIFY_SOCKET})) or die $!'`, "0.4"},
	} {
		for _, when := range []string{"at once", "later"} {
			t.Run(name+", "+when, func(t *testing.T) {
				l := listening(t, 30*time.Second)
				script := c.script
				if when == "later" { // read as it comes: the lease moves, and then the command may end
					fifo := filepath.Join(t.TempDir(), "go")
					require.NoError(t, unix.Mkfifo(fifo, 0o600))
					script = "sleep 0.1; " + script + "; cat " + fifo
					if strings.Contains(script, "printf") {
						script = strings.Replace(script, "; cat", "; echo >&3; cat", 1)
					}
					go func() {
						<-l.moves
						_ = os.WriteFile(fifo, nil, 0o600)
					}()
				}
				o := runLease(t, l.Lease, shell(script))
				require.Equal(t, task.Succeeded, o.Verdict, "%s %s", o.Error, o.Output)
				l.received(t, c.progress)
			})
		}
	}
}

func TestWhatIsNoPing(t *testing.T) {
	long := strings.Repeat("x", ping.MaxBody)
	for name, script := range map[string]string{
		"nothing":          "true",
		"blank lines":      `printf '\n \n\t\n' >&3`,
		"comments":         `printf '# 0.4\n#\n' >&3`,
		"output":           "echo 0.4; echo 0.4 >&2",
		"malformed":        `printf '{"progress": 2}\n{\n' >&3`,
		"too large":        `head -c 2000 /dev/zero | tr '\0' x >&3`,
		"an endless line":  `head -c 3000000 /dev/zero >&3`,
		"a message":        self("sd", "STATUS=page 40"),
		"a manager's":      self("sd", "READY=1\nMAINPID=7"),
		"a trigger":        self("sd", "WATCHDOG=trigger"),
		"a bad datagram":   self("sd", "WATCHDOG=1\nX_LEASEHOLD_CHECKPOINT={"),
		"a large datagram": `perl -MSocket -e 'socket(S, AF_UNIX, SOCK_DGRAM, 0); send(S, "WATCHDOG=1\n` + long[:100] + `" x 1400, 0, sockaddr_un($ENV{NOTIFY_SOCKET})) or die $!'`,
	} {
		t.Run(name, func(t *testing.T) {
			l := listening(t, 30*time.Second)
			o := runLease(t, l.Lease, shell(script))
			require.Equal(t, task.Succeeded, o.Verdict, "%s %s", o.Error, o.Output)
			l.receivedNothing(t)
		})
	}
}

// A command that hangs is caught, whatever it goes on saying that is no progress, and the error says what was wrong.
func TestHangs(t *testing.T) {
	for name, say := range map[string]string{
		"silent": ":", "blank lines": "echo >&3", "the same": "echo 0.4 >&3", "malformed": "echo '{' >&3", "output": "echo working",
	} {
		t.Run(name, func(t *testing.T) {
			l := listening(t, 300*time.Millisecond)
			o := runLease(t, l.Lease, shell("echo 0.4 >&3; while :; do "+say+"; sleep 0.02; done"))
			require.Equal(t, task.Stalled, o.Verdict, o.Error)
			require.Equal(t, name == "malformed", strings.Contains(o.Error, "malformed"), o.Error)
			require.Len(t, l.moves, 1)
		})
	}
}

// A task that floods its pipe and its socket is slowed down, blocks no other and is stopped in time.
func TestFloods(t *testing.T) {
	l := listening(t, 30*time.Second)
	s := &scene{t: t, dir: t.TempDir(), lease: l.Lease}
	require.NoError(t, unix.Mkfifo(filepath.Join(s.dir, "ready"), 0o600))
	began := time.Now()
	o := s.run("yes >&3 & cat /dev/zero >&3 & (while :; do "+self("many")+"; done) & sleep 0.5; echo > ready; wait",
		func(c *task.Command) { c.StopGrace = 100 * time.Millisecond }, s.stop(task.Cancelled))
	require.Equal(t, task.Cancelled, o.Verdict)
	require.Less(t, time.Since(began), 20*time.Second)
}

// What is left of an earlier attempt pings no later one, by whatever it kept.
func TestPingsOfStaleProcessesAreDropped(t *testing.T) {
	r := New(Options{Log: slog.New(slog.DiscardHandler)})
	defer r.Close()
	dir := t.TempDir()
	for _, name := range []string{"go", "report"} {
		require.NoError(t, unix.Mkfifo(filepath.Join(dir, name), 0o600))
	}
	run := func(l *listener, script string) {
		c := shell(script)
		c.Dir = dir
		o := r.Run(l.Lease, declared(c), c, func() {})
		require.Equal(t, task.Succeeded, o.Verdict, "%s %s", o.Error, o.Output)
	}
	first := listening(t, 30*time.Second)
	run(first, "setsid env "+self("stale")+" 2>stale.err & while [ ! -e pid ]; do sleep 0.01; done")
	first.Close()
	second := listening(t, 30*time.Second)
	run(second, "echo > go; cat report")
	second.receivedNothing(t)
	third := listening(t, 30*time.Second)
	run(third, "echo 0.4 >&3")
	third.received(t, "0.4")
}

func TestNotifySocketOfAnotherUser(t *testing.T) {
	const send = `perl -MSocket -e 'socket(S, AF_UNIX, SOCK_DGRAM, 0); send(S, "X_LEASEHOLD_PROGRESS=0.4", 0, sockaddr_un($ENV{NOTIFY_SOCKET})) or die $!'`
	l := listening(t, 30*time.Second)
	c := shell(`echo "$NOTIFY_SOCKET"; stat -c %a:%U "$NOTIFY_SOCKET"; ls "$(dirname "$NOTIFY_SOCKET")" >/dev/null 2>&1 && echo listed; ` + send)
	c.User = "nobody"
	o := runLease(t, l.Lease, c)
	if os.Geteuid() != 0 {
		require.Equal(t, task.Undelivered, o.Verdict)
		return
	}
	require.Equal(t, task.Succeeded, o.Verdict, "%s %s", o.Error, o.Output)
	l.received(t, "0.4")
	require.Contains(t, o.Output, "600:nobody")
	require.NotContains(t, o.Output, "listed")
}

func TestSockets(t *testing.T) {
	t.Run("the directory is removed", func(t *testing.T) {
		s := sockets{parent: socketParent()}
		defer func() { require.NoError(t, s.close()) }()
		for range 3 {
			fd, path, err := s.open(nil)
			require.NoError(t, err)
			require.NoError(t, unix.Close(fd))
			require.NoError(t, os.RemoveAll(s.parent))
			require.NoFileExists(t, path)
		}
	})
	t.Run("the path would be too long", func(t *testing.T) {
		r := New(Options{Log: slog.New(slog.DiscardHandler)})
		defer r.Close()
		r.sockets.parent = filepath.Join(t.TempDir(), strings.Repeat("d", maxSocketPath))
		c := shell(`echo "socket: $NOTIFY_SOCKET"; echo 0.4 >&3`)
		l := listening(t, 30*time.Second)
		o := r.Run(l.Lease, declared(c), c, func() {})
		require.Equal(t, "socket: \n", o.Output, o.Error)
		l.received(t, "0.4")
	})
	t.Run("no other user gets in", func(t *testing.T) {
		old := syscall.Umask(0)
		defer syscall.Umask(old)
		s := sockets{parent: socketParent()}
		defer func() { require.NoError(t, s.close()) }()
		fd, path, err := s.open(nil)
		require.NoError(t, err)
		defer unix.Close(fd)
		info, err := os.Stat(filepath.Dir(path))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	})
}

// BenchmarkSpawn measures the cost of an attempt that does nothing, the child's part included.
func BenchmarkSpawn(b *testing.B) {
	program, err := exec.LookPath("true")
	require.NoError(b, err)
	r := New(Options{Log: slog.New(slog.DiscardHandler)})
	defer r.Close()
	c := &task.Command{Argv: argv(program), Dir: "/", StopSignal: syscall.SIGTERM, StopGrace: time.Second}
	typ := declared(c)
	cpu := func() (d time.Duration) {
		for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
			var u unix.Rusage
			require.NoError(b, unix.Getrusage(who, &u))
			d += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
		return d
	}
	before := cpu()
	for b.Loop() {
		l := exectest.Attempt{}.Lease()
		if o := r.Run(l, typ, c, func() {}); o.Verdict != task.Succeeded {
			b.Fatal(o)
		}
		l.Close()
	}
	b.ReportMetric(float64((cpu()-before).Microseconds())/float64(b.N), "cpu-µs/op")
}
