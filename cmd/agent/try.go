package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/internal/exec"
	"github.com/leasehold/leasehold/internal/exec/envelope"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

type tryCmd struct {
	Type    string  `arg:"" help:"A declared type, or an alias."`
	Payload *string `help:"JSON, @FILE, or - for standard input. Default: {}." placeholder:"JSON"`

	Rollback bool `help:"Run the rollback, as if a run had failed; the payload is then the rollback's data."`
	Curl     bool `help:"Do not send the webhook; print it as a curl command, signature included."`
}

// Help gives examples.
func (tryCmd) Help() string {
	return `Prints the envelope that the task receives, its output, the outcome, and what would happen next. If the type has a check, it
runs first. Nothing is stored or retried. Exit 4 if the task does not succeed.

Examples:

    leasehold try hello
    leasehold try invoice.send --payload '{"invoice": 7}'
    leasehold try invoice.send --payload @invoice.json --curl | sh
    leasehold try invoice.send --payload '{"invoice": 7}' --rollback`
}

// tried is what the command prints as JSON.
type tried struct {
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
	cfg, err := a.loadConfig(nil)
	if err != nil {
		return err
	}
	typ, err := declared(cfg, c.Type)
	if err != nil {
		return err
	}
	payload, err := readPayload(c.Payload, a.in)
	if err != nil {
		return err
	}
	if err := (&store.EnqueueRequest{Type: c.Type, Payload: payload}).Check(); err != nil {
		return err
	}
	phase := task.Run
	if c.Rollback {
		phase = task.Rollback
	}
	if typ.TargetOf(phase) == nil {
		return usagef("task %q has no rollback", typ.Name)
	}
	l := claimed(c.Type, payload, typ, phase)
	defer l.Close()
	if c.Curl {
		return a.printCurl(l, typ)
	}
	pings, err := listenFor(l, a.err, a.log())
	if err != nil {
		return err
	}
	defer pings.close()
	e := envelope.Of(l, typ)
	doc, err := e.JSON()
	if err != nil {
		return fmt.Errorf("write the envelope: %w", err)
	}
	if a.cli.Output == "table" { // before it runs: it may take its time
		if err := section(a.out, "envelope", indented(doc)); err != nil {
			return err
		}
	}
	start := time.Now()
	outcome := a.attempt(l, typ, pings)
	result := report(l, typ, outcome, doc, time.Since(start))
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

// claimed is a lease as a claim of a fresh row would give it, or of one that is to be undone.
func claimed(name string, payload json.RawMessage, t *task.Type, phase task.Phase) *lease.Lease {
	if payload == nil {
		payload = json.RawMessage("{}")
	}
	now := time.Now().UTC()
	row := &task.Task{
		ID: 1, Type: name, State: task.StateRunning, Fence: 1, Attempt: 1, Payload: payload, Policy: t.Policy.Hash(name),
		CreatedAt: now, RunAt: now, ClaimedAt: now, LeaseEnd: now.Add(t.Policy.Window(phase)),
	}
	if phase == task.Rollback {
		row.State, row.EverStarted, row.Cause, row.RollbackPayload = task.StateRollbackRunning, true, task.Failed, payload
	} else if t.Policy.Deadline > 0 {
		row.Deadline = now.Add(t.Policy.Deadline)
	}
	clock := lease.BootClock()
	return lease.New(context.Background(), row, &t.Policy, clock, clock.Now(), nil)
}

// attempt runs it; an interrupt cancels it, as an operator would.
func (a *app) attempt(l *lease.Lease, t *task.Type, p *tryout) task.Outcome {
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
			l.Stop(&lease.Cause{Verdict: task.Cancelled, Reason: "interrupted"})
		case <-ended:
		}
	}()
	runner := exec.New(exec.Options{Log: a.log(), Version: readBuild().Version, Workers: 1, Guardian: a.guardianFor(t)})
	outcome := p.outcome(runner.Run(l, t))
	runner.Close()
	close(ended)
	<-watching
	signal.Stop(caught)
	return outcome
}

func report(l *lease.Lease, t *task.Type, o task.Outcome, doc []byte, took time.Duration) tried {
	left, _ := l.Left()
	const jitter = 0.5 // in the middle
	n := task.Decide(l.Task(), &t.Policy, o, left, jitter)
	return tried{
		Envelope: doc, Outcome: o.Verdict, InCheck: o.InCheck, Error: o.Error, Note: o.Note, Result: o.Result, Output: o.Output,
		TookS: took.Seconds(),
		Next: next{
			State: n.State, DelayS: n.Delay.Seconds(), AfterLease: n.AfterLease,
			Counts: n.Attempt >= l.Task().Attempt, Reason: n.Reason,
		},
	}
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
