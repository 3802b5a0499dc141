package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

type batchCreateCmd struct {
	Type          string            `help:"Task type for lines without a type." placeholder:"TYPE"`
	From          string            `required:"" help:"NDJSON, one task per line: a file, or - for standard input." placeholder:"FILE"`
	Name          string            `help:"Name of the batch, for display." placeholder:"NAME"`
	OnFailure     string            `help:"What to do when a task fails for good: ${enum}." enum:"continue,cancel,rollback" default:"continue"`
	FinishType    string            `help:"Enqueue a task of this type when the batch ends, with the counts." placeholder:"TYPE"`
	FinishPayload *string           `help:"Additional payload of that task: a JSON object, or @FILE." placeholder:"JSON"`
	Label         map[string]string `help:"A label of the batch; may be repeated." placeholder:"NAME=VALUE" mapsep:"none"`
	By            string            `help:"Who creates it; recorded." placeholder:"WHO"`
	Open          bool              `help:"Accept further tasks until the batch is sealed."`
	DryRun        bool              `help:"Create nothing; check the file, and print the number of its tasks."`
	Watch         bool              `help:"Follow the batch until it ends: exit 0 only if all tasks succeeded; see batch watch."`
	Timeout       span              `help:"With --watch: stop waiting after this time (exit 5). Default: never." placeholder:"TIME"`
}

// Help gives examples.
func (batchCreateCmd) Help() string {
	return `Each line is a JSON object. Its members are columns of a task, all optional: type, payload, run_at, priority, key, region,
labels, rollback_payload, max_attempts, traceparent, lock, sequence, after, after_if, tenant. Put the task's own data into payload. A line with
a ref can be named by lines after it: their tasks wait for its task ("after_ref": "a", or a list). The
batch and all of its tasks are created in one transaction; if a line is invalid, nothing is created.

Examples:

    leasehold batch create --type service.move --from services.ndjson \
        --name 'move to az2' --on-failure rollback --watch
    psql -Atc "select json_build_object('payload', to_json(id)) from account" |
        leasehold batch create --type account.check --from -`
}

// Run creates the batch.
func (c batchCreateCmd) Run(a *app) error {
	if c.Timeout != 0 && !c.Watch {
		return usagef("--timeout requires --watch")
	}
	if c.Watch && c.Open {
		return usagef("--watch and --open: an open batch ends only after it is sealed: run batch watch in another terminal")
	}
	request, err := c.request(a.in)
	if err != nil {
		return err
	}
	if err := request.Check(); err != nil { // before the store is looked for
		return err
	}
	source, err := a.openSource(c.From)
	if err != nil {
		return err
	}
	defer source.close()
	base := store.EnqueueRequest{Type: c.Type, CreatedBy: c.By}
	if err := base.Check(); c.Type != "" && err != nil {
		return err
	}
	if err := checkTypes(c.Type, c.FinishType); err != nil {
		return err
	}
	rows := ops.ReadRequests(source, source.name, base)
	if c.DryRun {
		return a.countRows(rows)
	}
	return a.withTables(func(ctx context.Context, s dataStore) error {
		id, n, err := a.createBatch(ctx, s, request, rows, source)
		if err != nil {
			return err
		}
		if !c.Watch || a.cli.Output == "table" { // as JSON, one document: what came of the batch
			err := a.print(ops.BatchCreated{Batch: id, Tasks: n}, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "batch %d created: %s\n", id, ops.Tasks(n))
				return err
			})
			if err != nil {
				return err
			}
		}
		if !c.Watch {
			return nil
		}
		return a.watchBatch(ctx, s, id, time.Duration(c.Timeout))
	})
}

// request is the batch that the flags ask for.
func (c batchCreateCmd) request(stdin io.Reader) (store.BatchRequest, error) {
	b := store.BatchRequest{
		Name: c.Name, OnFailure: store.OnFailure(c.OnFailure), FinishType: c.FinishType, Labels: c.Label, CreatedBy: c.By, Open: c.Open,
	}
	if c.FinishPayload != nil && *c.FinishPayload == "-" && c.From == "-" {
		return b, usagef("--finish-payload - and --from -: only one of them can be read from standard input")
	}
	var err error
	b.FinishPayload, err = readDocument("--finish-payload", c.FinishPayload, stdin)
	return b, err
}

// countRows checks all lines.
func (a *app) countRows(rows iter.Seq2[store.EnqueueRequest, error]) error {
	n, err := ops.CountRequests(rows)
	if err != nil {
		return err
	}
	return a.print(ops.BatchCreated{Tasks: n, DryRun: true}, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "this creates a batch of %s\n", ops.Tasks(n))
		return err
	})
}

// createBatch sends the batch to the store, and reports progress on standard error. An interrupt ends it, and nothing
// is created then; also while it waits for standard input, which nothing else would end.
func (a *app) createBatch(
	ctx context.Context, s ops.Batches, request store.BatchRequest, rows iter.Seq2[store.EnqueueRequest, error], from *source,
) (id task.BatchID, n int64, err error) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	defer from.until(ctx)()
	bar := a.newSending(from)
	defer bar.end()
	id, n, err = ops.CreateBatch(ctx, s, request, rows, bar.show)
	if errors.Is(err, ops.ErrMaybeCreated) {
		err = errors.New("interrupted during the commit: `leasehold batch list` shows whether the batch was created")
	}
	return id, n, err
}

// source is where lines come from. Its size is known where it is a file.
type source struct {
	name string
	file io.Reader
	size int64 // 0: not known
	read atomic.Int64
}

// openSource opens a file, or standard input.
func (a *app) openSource(path string) (*source, error) {
	if path == "-" {
		return &source{name: "standard input", file: a.in}, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, usagef("--from: %w", err)
	}
	s := &source{name: path, file: f}
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		s.size = info.Size()
	}
	return s, nil
}

// Read reads on, and counts.
func (s *source) Read(p []byte) (int, error) {
	n, err := s.file.Read(p)
	s.read.Add(int64(n))
	return n, err
}

// until has reading end with ctx where nothing else would end it: a file does, a pipe or a terminal may not.
func (s *source) until(ctx context.Context) (release func()) {
	if s.size > 0 {
		return func() {}
	}
	in := s.file
	r, w := io.Pipe()
	s.file = r
	go func() { // ends with what it reads, or with the process
		_, err := io.Copy(w, in)
		_ = w.CloseWithError(err) // which never fails; nil is the end of the file
	}()
	stop := context.AfterFunc(ctx, func() { _ = w.CloseWithError(ctx.Err()) })
	return func() { stop() }
}

// share is how much of it has been read; 0 where its size is not known.
func (s *source) share() float64 {
	if s.size == 0 {
		return 0
	}
	return min(float64(s.read.Load())/float64(s.size), 1)
}

// close closes a file; nothing was written to it.
func (s *source) close() {
	if f, ok := s.file.(*os.File); ok && f != os.Stdin {
		_ = f.Close()
	}
}

// sending shows how many tasks have been sent: on a terminal as a line that is drawn over, elsewhere now and then.
type sending struct {
	out   *screen
	from  *source
	began time.Time
	shown time.Time
	every time.Duration
}

// How often it is shown that a long work goes on.
const (
	drawEvery  = 200 * time.Millisecond // on a terminal
	printEvery = 10 * time.Second       // elsewhere
)

func (a *app) newSending(from *source) *sending {
	s := &sending{out: a.newScreen(a.err, a.watched), from: from, began: time.Now(), every: printEvery}
	if s.out.width > 0 {
		s.every = drawEvery
	}
	s.shown = s.began
	return s
}

// show shows how many tasks have been sent.
func (s *sending) show(n int64) {
	now := time.Now()
	if now.Sub(s.shown) < s.every {
		return
	}
	s.shown = now
	rate := float64(n) / now.Sub(s.began).Seconds()
	line := fmt.Sprintf("%s sent, %s/s", ops.Tasks(n), ops.Thousands(int64(rate)))
	switch {
	case s.out.width == 0:
		line = "leasehold: " + line
	case s.from.size > 0:
		line = fmt.Sprintf("%s %3.0f%%  %s", bar(s.from.share(), s.out.barWidth()), 100*s.from.share(), line)
	}
	_ = s.out.draw([]string{line}) // its reader has gone; the work goes on
}

// end takes the line away.
func (s *sending) end() { _ = s.out.draw(nil) }
