package worker

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/internal/exec/command"
	"github.com/leasehold/leasehold/internal/exec/command/guardian"
	"github.com/leasehold/leasehold/internal/exec/exectest"
	"github.com/leasehold/leasehold/internal/task"
)

// partVariable makes the test binary play a worker; its value says how it begins.
const partVariable = "WORKER_PART"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == guardian.Argument {
		syscall.Exit(guardian.Main())
	}
	if part := os.Getenv(partVariable); part != "" {
		(&player{reports: os.NewFile(3, "|3")}).play(part)
		syscall.Exit(0) // os.Exit would have the race detector wait for a second
	}
	goleak.VerifyTestMain(m)
}

// player is a worker, good or bad.
type player struct {
	reports   *os.File
	id, fence int64
	runs      int
	unsaid    string // is printed at the end
}

func (p *player) say(format string, args ...any) { fmt.Fprintf(p.reports, format+"\n", args...) }

// end writes the last line of the attempt; rest is its end, as `"result": 1`.
func (p *player) end(rest string) { p.say(`{"id": %d, "fence": %d, %s}`, p.id, p.fence, rest) }

// forever waits. A timer is pending meanwhile: else a process without cgo takes itself for dead.
func forever() {
	hours := time.NewTicker(time.Hour)
	defer hours.Stop()
	for range hours.C {
		continue
	}
}

func (p *player) play(part string) {
	switch part {
	case "never":
		fmt.Println("starting up")
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	case "exits":
		fmt.Println("no module named app")
		syscall.Exit(4)
	case "closes":
		_ = p.reports.Close()
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	case "deaf":
		p.say(`{"ready": true}`)
		forever()
	case "shuts":
		_ = os.Stdin.Close()
		p.say(`{"ready": true}`)
		time.AfterFunc(time.Minute, func() { syscall.Exit(1) })
		forever()
	case "ends":
		p.say(`{"ready": true}`)
		syscall.Exit(0)
	case "deaf to signals":
		signal.Ignore(syscall.SIGTERM)
	case "slow":
		<-time.After(1500 * time.Millisecond)
	case "hasty": // it ends an attempt that it has not read to the end
		p.say(`{"ready": true}`)
		b := make([]byte, 1)
		_, _ = os.Stdin.Read(b)
		p.id, p.fence = 4211, 9
		p.end(`"result": 1`)
		forever()
	case "helped": // it starts a process before it is ready, which stays
		_ = exec.Command("sleep", "1000").Start()
	}
	ready := `{"ready": true}`
	if part == "ready twice" { // in one write, so that both are read before anything else happens
		ready += "\n" + ready
	}
	p.say("%s", ready)
	if part == "stays" { // beyond the end of standard input
		defer forever()
	}
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			fmt.Print(p.unsaid)
			return
		}
		var e struct {
			Data struct{ Do string }
			Task struct{ ID, Fence int64 }
		}
		if err := json.Unmarshal(line, &e); err != nil {
			panic(err)
		}
		p.id, p.fence = e.Task.ID, e.Task.Fence
		p.runs++
		p.do(e.Data.Do)
	}
}

func (p *player) do(what string) {
	switch what {
	case "echo":
		p.end(fmt.Sprintf(`"result": {"pid": %d, "runs": %d}`, os.Getpid(), p.runs))
	case "fail":
		p.end(`"error": "no such invoice"`)
	case "reject":
		p.end(`"error": "no such invoice", "retryable": false`)
	case "defer":
		p.end(`"deferred": {"retry_after_s": 30}`)
	case "stale":
		p.end(`"stale": true`)
	case "print":
		fmt.Println("out")
		fmt.Fprintln(os.Stderr, "err")
		p.end(`"result": null`)
	case "die":
		fmt.Println("bye")
		syscall.Exit(3)
	case "leaves a flood and dies":
		flood := exec.Command("sh", "-c", `for i in 1 2 3 4; do yes '{"progress": 1}' >&3 & done; wait`)
		flood.ExtraFiles = []*os.File{p.reports}
		_ = flood.Start()
		<-time.After(200 * time.Millisecond) // it is under way
		syscall.Exit(3)
	case "leaves one that tidies up and fails", "leaves one that tidies up and dies":
		left := exec.Command("sh", "-c", `trap "echo tidied up >&2; exit" TERM; echo here; while :; do sleep 0.01; done`)
		out, _ := left.StdoutPipe()
		left.Stderr = os.Stderr
		_ = left.Start()
		here := bufio.NewReader(out)
		_, _ = here.ReadString('\n')
		if what == "leaves one that tidies up and dies" {
			syscall.Exit(3)
		}
		p.end(`"error": "no"`)
	case "late output":
		p.end(`"result": 1`)
		<-time.After(100 * time.Millisecond)
		fmt.Println("late")
	case "late ping":
		p.end(`"result": 1`)
		<-time.After(100 * time.Millisecond)
		p.say(`{"progress": 1}`)
	case "no line feed":
		fmt.Fprintf(p.reports, `{"id": %d, "fence": %d, "result": 1}`, p.id, p.fence)
	case "not flushed":
		p.unsaid += "said too late\n"
		p.end(`"result": 1`)
	case "exit 0":
		syscall.Exit(0)
	case "term":
		_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
		forever()
	case "result and die":
		fmt.Fprintf(p.reports, `{"id": %d, "fence": %d, "result": 1}`, p.id, p.fence) // no line feed
		syscall.Exit(3)
	case "garbage":
		p.say("done")
		p.say(`[1, 2]`)
		p.say(`{"progress": 7}`)
		p.say("\xff\x00")
		p.end(`"result": 1`)
	case "pings":
		p.say(`{"progress": 0.1}`)
		p.say(`{"id": %d, "fence": %d, "progress": 0.2}`, p.id, p.fence-1)
		p.say(`{"id": %d, "fence": %d, "progress": 0.3}`, p.id, p.fence)
		p.end(`"result": 1`)
		p.say(`{"progress": 0.9}`)
	case "other":
		p.fence--
		p.end(`"result": 1`)
		forever()
	case "twice":
		fmt.Fprintf(p.reports, "%[1]s\n%[1]s\n", fmt.Sprintf(`{"id": %d, "fence": %d, "result": 1}`, p.id, p.fence))
	case "unnamed":
		p.say(`{"result": 1}`)
		forever()
	case "long":
		p.end(`"result": "` + strings.Repeat("a", MaxLine) + `"`)
		forever()
	case "endless line":
		for chunk := []byte(strings.Repeat("a", 64<<10)); ; {
			_, _ = p.reports.Write(chunk)
		}
	case "long result":
		p.end(`"result": "` + strings.Repeat("a", task.MaxResult) + `"`)
	case "closes 3":
		_ = p.reports.Close()
		forever()
	case "closes 1":
		_ = os.Stdout.Close()
		_ = os.Stderr.Close()
		p.end(`"result": 1`)
	case "hang":
		forever()
	case "late result":
		terms := make(chan os.Signal, 1)
		signal.Notify(terms, syscall.SIGTERM)
		p.say(`{"progress": 0.5}`)
		<-terms
		p.end(`"result": "in time"`)
	case "late error":
		terms := make(chan os.Signal, 1)
		signal.Notify(terms, syscall.SIGTERM)
		<-terms
		p.end(`"error": "interrupted"`)
	case "leaves and fails", "leaves":
		left := exec.Command("sleep", "1000")
		_ = left.Start()
		fmt.Println(left.Process.Pid)
		if what == "leaves" {
			p.end(`"result": 1`)
			return
		}
		p.end(`"error": "no"`)
	default:
		panic("unknown: " + what)
	}
}

// declared is a command that plays that part.
func declared(t *testing.T, part string) *task.Command {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	return &task.Command{
		Argv: []task.Argument{{Template: exectest.Text(self)}}, Dir: "/",
		Env:        map[string]task.Template{partVariable: exectest.Text(part), "GOTRACEBACK": exectest.Text("none")},
		StopSignal: syscall.SIGTERM, StopGrace: 5 * time.Second,
		Worker: &task.Worker{Processes: 2, Idle: time.Minute, Ready: 20 * time.Second},
	}
}

// play makes a pool of workers that play that part. Nothing of it is left after the test.
func play(t *testing.T, c *task.Command) *Pool {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	r := command.New(command.Options{Log: log})
	p := NewPool(r, log, &task.Type{Name: "invoice.send", Target: c, Source: "tasks.hcl:3"}, c)
	t.Cleanup(func() {
		p.Close()
		r.Close()
		require.Zero(t, p.total)
		require.Zero(t, p.waiting)
	})
	return p
}

// do is an attempt whose worker does that.
func do(what string) exectest.Attempt {
	payload, err := json.Marshal(map[string]string{"do": what})
	if err != nil {
		panic(err)
	}
	return exectest.Attempt{Task: task.Task{Payload: payload}}
}

// run runs an attempt to its end.
func run(t *testing.T, p *Pool, a exectest.Attempt) task.Outcome {
	t.Helper()
	l := a.Lease()
	defer l.Close()
	return p.Run(l, p.typ, func() {})
}
