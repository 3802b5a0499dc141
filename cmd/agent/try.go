package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/internal/exec"
	"github.com/leasehold/leasehold/internal/exec/envelope"
	"github.com/leasehold/leasehold/internal/exec/tryout"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

type tryCmd struct {
	Type    string  `arg:"" optional:"" help:"A declared type, or an alias. Default with --from: the task's."`
	Payload *string `help:"JSON, @FILE, or - for standard input. Default: {}, with --from the task's." placeholder:"JSON"`
	From    taskID  `help:"Take the envelope of this task of the store, which is only read." placeholder:"ID"`

	Rollback bool `help:"Run the rollback, as if a run had failed; the payload is then the rollback's data."`
	Curl     bool `help:"Do not send the webhook; print it as a curl command, signature included."`

	Unredacted bool `help:"Show the members, too, that the type redacts."`
}

// Help gives examples.
func (tryCmd) Help() string {
	return `Prints the envelope that the task receives, its output, the outcome, and what would happen next. If the type has a check, it
runs first. Nothing is stored or retried. The attempt has the fence 0 and a ping URL of its own: it holds no task of the store, so
hold, complete and ping in SQL refuse it. Exit 4 if the task does not succeed.

With --from the envelope is that of a task of the store, finished, waiting or running: payload, attempt, checkpoint, how the attempt before
ended, labels, key, batch, and what it has waited for. Nothing in the store is changed. Its target is the one that your configuration
declares.

Examples:

    leasehold try hello
    leasehold try invoice.send --payload '{"invoice": 7}'
    leasehold try invoice.send --payload @invoice.json --curl | sh
    leasehold try invoice.send --payload '{"invoice": 7}' --rollback
    leasehold try invoice.pay --payload '{"card": 41}' --curl --unredacted | sh
    leasehold try --from 4211
    leasehold try --from 4211 --store postgres://me@db/app --curl`
}

// tried is what the command prints as JSON.
type tried struct {
	From     task.ID         `json:"from,omitempty"` // the task of the store whose envelope it is
	Envelope json.RawMessage `json:"envelope"`
	Outcome  task.Verdict    `json:"outcome"`
	InCheck  bool            `json:"in_check,omitempty"` // it is the check's, and the task was not run
	Error    string          `json:"error,omitempty"`
	Note     string          `json:"note,omitempty"`
	Result   json.RawMessage `json:"result,omitempty"`
	Output   string          `json:"output,omitempty"`
	TookS    float64         `json:"took_s"`
	Next     next            `json:"next"`
}

// next is what would become of the row.
type next struct {
	State      task.State `json:"state"`
	DelayS     float64    `json:"delay_s"`
	AfterLease bool       `json:"after_lease,omitempty"` // due no earlier than the lease's end
	Counts     bool       `json:"counts"`                // the attempt
	Reason     string     `json:"reason,omitempty"`
}

// Run runs one attempt.
func (c tryCmd) Run(a *app) error {
	switch {
	case c.From == 0 && c.Type == "":
		return usagef("name a declared type, or a task with --from ID")
	case c.From != 0:
		return c.runFrom(a)
	}
	cfg, err := a.loadConfig(nil)
	if err != nil {
		return err
	}
	typ, err := declared(cfg, c.Type)
	if err != nil {
		return err
	}
	payload, err := c.payload(a, c.Type)
	if err != nil {
		return err
	}
	phase := task.Run
	if c.Rollback {
		phase = task.Rollback
	}
	if typ.TargetOf(phase) == nil {
		return usagef("task %q has no rollback", typ.Name)
	}
	mask := ops.NewMask(typ.Redact...)
	if c.Unredacted {
		mask = ops.Mask{}
	}
	if c.Curl {
		shown := mask.Document(payload)
		return a.tryCurl(tryout.New(c.Type, shown, typ, phase), typ, !bytes.Equal(shown, payload))
	}
	return a.try(tryout.New(c.Type, payload, typ, phase), typ, mask, 0)
}

// payload reads the payload that was given; nil: none was.
func (c tryCmd) payload(a *app, typ string) (json.RawMessage, error) {
	payload, err := readDocument("--payload", c.Payload, a.in)
	if err != nil {
		return nil, err
	}
	return payload, (&store.EnqueueRequest{Type: typ, Payload: payload}).Check()
}

// try runs the attempt, prints it, and closes it. from is the task whose envelope it has; 0: of none.
func (a *app) try(t *tryout.Tryout, typ *task.Type, mask ops.Mask, from task.ID) error {
	defer t.Close()
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for pings: %w", err)
	}
	seen := func(p store.Ping, reply store.PingReply) { a.showPing(p, reply, mask) }
	if err := t.Listen(listener, seen, a.log()); err != nil {
		return err
	}
	doc, err := shownEnvelope(t.Lease(), typ, mask)
	if err != nil {
		return err
	}
	if from != 0 { // results and checkpoints are in it, too
		doc = mask.Document(doc)
	}
	if a.cli.Output == "table" { // before it runs: it may take its time
		if err := section(a.out, "envelope", indented(doc)); err != nil {
			return err
		}
	}
	start := time.Now()
	outcome := a.attempt(t, typ)
	result := report(t, outcome, doc, time.Since(start))
	result.Result, result.From = mask.Document(result.Result), from
	if err := a.print(result, result.show); err != nil {
		return err
	}
	switch outcome.Verdict {
	case task.Succeeded:
		return nil
	case task.Cancelled:
		return &failure{code: exitCancelled}
	}
	return &failure{code: exitTask}
}

// shownEnvelope is what the target gets, masked.
func shownEnvelope(l *lease.Lease, typ *task.Type, mask ops.Mask) ([]byte, error) {
	e := envelope.Of(l, typ)
	row := *e.Task
	row.Payload, row.RollbackPayload, row.Result = mask.Document(row.Payload), mask.Document(row.RollbackPayload), mask.Document(row.Result)
	e.Task = &row
	write := e.JSON
	if w, ok := typ.TargetOf(e.Phase).(*task.Webhook); ok && w.Batch != nil {
		write = e.OneOfMany
	}
	doc, err := write()
	if err != nil {
		return nil, fmt.Errorf("write the envelope: %w", err)
	}
	return doc, nil
}

// declared finds the type of that name, or says which there are.
func declared(cfg *config.Config, name string) (*task.Type, error) {
	if t := cfg.Type(name); t != nil {
		return t, nil
	}
	var names []string
	for _, t := range cfg.Tasks {
		names = append(names, t.Names()...)
	}
	return nil, usagef("no task %q is declared; declared tasks: %s", name, strings.Join(names, ", "))
}

// attempt runs it; an interrupt cancels it, as an operator would.
func (a *app) attempt(t *tryout.Tryout, typ *task.Type) task.Outcome {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // its terminal is closed, and nohup has not asked to outlast that
		signal.Notify(caught, syscall.SIGHUP)
	}
	ended := make(chan struct{})
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		select {
		case <-caught:
			signal.Stop(caught) // a second one ends this process
			t.Lease().Stop(&lease.Cause{Verdict: task.Cancelled, Reason: "interrupted"})
		case <-ended:
		}
	}()
	runner := exec.New(exec.Options{Log: a.log(), Version: readBuild().Version, Workers: 1, Guardian: a.guardianFor(typ), Patient: true})
	outcome := t.Run(runner)
	runner.Close()
	close(ended)
	<-watching
	signal.Stop(caught)
	return outcome
}

func report(t *tryout.Tryout, o task.Outcome, doc []byte, took time.Duration) tried {
	n := t.Next(o)
	return tried{
		Envelope: doc, Outcome: o.Verdict, InCheck: o.InCheck, Error: o.Error, Note: o.Note, Result: o.Result, Output: o.Output,
		TookS: took.Seconds(),
		Next: next{
			State: n.State, DelayS: n.Delay.Seconds(), AfterLease: n.AfterLease,
			Counts: n.Counts(t.Lease().Task()), Reason: n.Reason,
		},
	}
}

// showPing prints a ping of the attempt.
func (a *app) showPing(p store.Ping, reply store.PingReply, mask ops.Mask) {
	p.Progress, p.Checkpoint = mask.Document(p.Progress), mask.Document(p.Checkpoint)
	var b strings.Builder
	b.WriteString("ping")
	for _, part := range []string{string(p.Progress), p.Message} {
		if part != "" {
			b.WriteString(" " + ops.OneLine(part, 200))
		}
	}
	if p.Checkpoint != nil {
		b.WriteString(", checkpoint " + ops.OneLine(string(p.Checkpoint), 200))
	}
	if reply.Reason != "" {
		b.WriteString(" (" + reply.Reason + ")")
	}
	_, _ = fmt.Fprintln(a.err, b.String())
}

// show writes it for people; the envelope has been shown.
func (r tried) show(w io.Writer) error {
	if err := section(w, "output", r.Output); err != nil {
		return err
	}
	t := newTable(nil)
	line := func(name, value string) {
		if value != "" {
			t.AppendRow([]any{name, value})
		}
	}
	where := ""
	if r.InCheck {
		where = " in its check"
	}
	line("outcome", string(r.Outcome)+where+" after "+ops.Duration(seconds(r.TookS)))
	line("error", ops.OneLine(r.Error, 1000))
	line("note", ops.OneLine(r.Note, 1000))
	if r.Result != nil {
		line("result", compactJSON(r.Result))
	}
	line("next", r.Next.String())
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return writeTable(w, t)
}

func (n next) String() string {
	s := string(n.State)
	if n.State.Waiting() {
		switch due := ", due in " + ops.Duration(seconds(n.DelayS)); {
		case n.AfterLease:
			s += due + " or when the lease has ended, whichever is later"
		case n.DelayS == 0:
			s += ", due at once"
		default:
			s += due
		}
		if !n.Counts {
			s += "; the attempt does not count"
		}
	}
	if n.Reason != "" {
		s += " (" + ops.OneLine(n.Reason, 400) + ")"
	}
	return s
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// indented shows a document for people.
func indented(doc json.RawMessage) string {
	b, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return string(doc)
	}
	return string(b)
}
