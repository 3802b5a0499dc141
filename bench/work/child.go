package work

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
	"time"
)

// Contender is an engine under test, in a process of its own.
type Contender interface {
	// Setup makes the schema in an empty database and inserts the rows.
	Setup(ctx context.Context, j Job) error
	// Open prepares an engine, connected and idle.
	Open(ctx context.Context, j Job) (Engine, error)
}

// Engine is one engine, ready to start.
type Engine interface {
	// Start lets it work. It does not block.
	Start(ctx context.Context) error
	// Doer is who does and counts the work.
	Doer() *Doer
	// Left reports whether rows are there that are not finished.
	Left(ctx context.Context) (bool, error)
	// Stop ends it and waits until nothing of it is left.
	Stop(ctx context.Context) error
	// Version is that of what is measured.
	Version() string
}

const (
	leftEvery  = 2 * time.Millisecond // the least between looks whether rows are left, once all were worked on
	stopWithin = 20 * time.Second
)

// Serve is a measured process: it reads a job, does it and says how it went.
func Serve(ctx context.Context, in io.Reader, out io.Writer, c Contender) error {
	lines := bufio.NewReader(in)
	say := json.NewEncoder(out)
	var j Job
	text, err := lines.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read the job: %w", err)
	}
	if err := json.Unmarshal(text, &j); err != nil {
		return fmt.Errorf("read the job: %w", err)
	}
	result := &Result{}
	if j.Step == Setup {
		err = c.Setup(ctx, j)
	} else {
		result, err = measure(ctx, j, c, &talk{lines, say})
	}
	if err != nil {
		return err
	}
	return say.Encode(Line{Result: result})
}

// talk is what a measured process hears and says.
type talk struct {
	lines *bufio.Reader
	say   *json.Encoder
}

// begin says that all is ready, and waits for the word to start.
func (t *talk) begin() error {
	if err := t.say.Encode(Line{Ready: true}); err != nil {
		return err
	}
	_, err := t.lines.ReadBytes('\n')
	return err
}

// over waits until the process is asked to end: no more requests come then.
func (t *talk) over() error {
	_, err := io.Copy(io.Discard, t.lines)
	return err
}

// measure runs an engine from the word to start until no row is left.
func measure(ctx context.Context, j Job, c Contender, t *talk) (*Result, error) {
	e, err := c.Open(ctx, j)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	if err := t.begin(); err != nil {
		return nil, fmt.Errorf("wait for the start: %w", err)
	}
	stopProfile, err := profile(j.Profile)
	if err != nil {
		return nil, err
	}
	before, start := Usage(), time.Now()
	if err := e.Start(ctx); err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	end, err := await(ctx, j, e, t)
	if err != nil {
		return nil, err
	}
	r := &Result{Seconds: end.Sub(start).Seconds(), Version: e.Version(), Latencies: e.Doer().Latencies()}
	after := Usage()
	stopProfile()
	r.SelfCPU, r.ChildCPU, r.RSS = after.Self-before.Self, after.Children-before.Children, after.RSS
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	if err := e.Stop(stopping); err != nil {
		return nil, fmt.Errorf("stop: %w", err)
	}
	return r, nil
}

// await waits until the work is done and no row is left, and returns since when: a look sees what was so when it began,
// and may itself take long where dead rows lie about.
func await(ctx context.Context, j Job, e Engine, t *talk) (end time.Time, err error) {
	if j.Kind.Lasts() {
		err := t.over()
		return time.Now(), err
	}
	select {
	case <-ctx.Done():
		return end, ctx.Err()
	case <-e.Doer().Enough():
	}
	for {
		began := time.Now()
		left, err := e.Left(ctx)
		if err != nil {
			return end, fmt.Errorf("look for rows that are left: %w", err)
		}
		if !left {
			return began, nil
		}
		rest := time.NewTimer(max(leftEvery, time.Since(began))) // looking takes half of one core at most
		select {
		case <-ctx.Done():
			rest.Stop()
			return end, ctx.Err()
		case <-rest.C:
		}
	}
}

// profile begins a CPU profile; the function that it returns ends it.
func profile(path string) (stop func(), err error) {
	if path == "" {
		return func() {}, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile()
		if err := f.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "write the profile:", err)
		}
	}, nil
}
