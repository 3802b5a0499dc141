package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

type enqueueCmd struct {
	Type string `arg:"" help:"Type of the task."`

	Payload     *string           `help:"JSON, @FILE, or - for standard input. Default: {}." placeholder:"JSON"`
	RunAt       moment            `help:"When the task is due, such as 2026-11-20T08:00:00Z." placeholder:"TIME"`
	In          span              `help:"Time from now until the task is due, such as 10m or 2d." placeholder:"TIME"`
	Priority    int               `help:"Priority, -10 to 10; higher runs first." placeholder:"N"`
	Key         string            `help:"Key; only one live task of a type may have it." placeholder:"KEY"`
	Region      string            `help:"Only agents of this region claim the task." placeholder:"REGION"`
	MaxAttempts *int              `help:"Maximum number of attempts, instead of the type's." placeholder:"N"`
	Label       map[string]string `help:"A label; may be repeated." placeholder:"NAME=VALUE" mapsep:"none"`
	CreatedBy   string            `help:"Who enqueues it; recorded." placeholder:"WHO"`
	Wait        bool              `help:"Wait until the task has finished: exit 4 if it failed, 5 if it was cancelled."`
	Strict      bool              `help:"Enqueue nothing if no running agent declares the type (exit 1)."`
	Timeout     span              `help:"With --wait: stop waiting after this time (exit 5). Default: never." placeholder:"TIME"`

	Batch           batchID `help:"Id of the open batch to add the task to." placeholder:"N"`
	RollbackPayload *string `help:"Payload of its rollback; format as for --payload." placeholder:"JSON"`
	Lock            string  `help:"Lock; tasks with the same lock never run at the same time." placeholder:"NAME"`
	Sequence        string  `help:"Sequence; tasks of the type with the same sequence run one after another." placeholder:"NAME"`
	Tenant          string  `help:"Tenant; the tenants of a type take turns." placeholder:"NAME"`

	After   []taskID `help:"Id of a task that has to end before; may be repeated." placeholder:"ID"`
	AfterIf string   `help:"How those have to end: succeeded (else the task is cancelled), or any. Default: succeeded." placeholder:"HOW" enum:",succeeded,any" default:""`

	OnLive      string `help:"What becomes of a live task with the key: keep it, replace its values if it has never started, or run again after it. Default: keep." placeholder:"WHAT" enum:",keep,replace,again" default:""`
	Debounce    span   `help:"Due after this time without another with the key, such as 10s; replaces a live task that has never started." placeholder:"TIME"`
	DebounceMax span   `help:"With --debounce: due at most so long after the first." placeholder:"TIME"`
}

// Help gives examples.
func (enqueueCmd) Help() string {
	return `Examples:

    leasehold enqueue hello --wait
    leasehold enqueue invoice.send --payload '{"invoice": 7}' --key invoice-7
    leasehold enqueue report --payload @report.json --in 2h --priority 5
    leasehold enqueue index.update --key page-7 --on-live again
    leasehold enqueue index.update --key page-7 --debounce 10s --debounce-max 1m
    leasehold enqueue account.rebuild --payload '{"id": 7}' --lock account-7
    leasehold enqueue account.book --payload '{"cents": 250}' --sequence a-7
    leasehold enqueue account.report --after 4211 --after 4212
    leasehold enqueue invoice.send --payload '{"invoice": 7}' --tenant acme
    leasehold enqueue service.move --batch 17 --payload '{"to": "b"}' \
        --rollback-payload '{"to": "a"}'
    generate | leasehold enqueue report --payload - --label tenant=acme -o json`
}

// Run enqueues the task.
func (c enqueueCmd) Run(a *app) error {
	if c.Timeout != 0 && !c.Wait {
		return usagef("--timeout requires --wait")
	}
	r, err := c.request(a.in)
	if err != nil {
		return err
	}
	if err := r.Check(); err != nil { // before the store is looked for
		return err
	}
	if err := checkTypes(c.Type); err != nil {
		return err
	}
	return a.withTables(func(ctx context.Context, s dataStore) error {
		call, cancel := context.WithTimeout(ctx, callTimeout+r.Patience())
		defer cancel()
		reason, until, err := ops.Untaken(call, s, c.Type)
		switch {
		case c.Strict && err != nil:
			return err
		case c.Strict && reason != "":
			return fmt.Errorf("%s; nothing was enqueued (--strict)", reason)
		case err != nil:
			a.log().Debug("the store was not asked who takes the task", "type", c.Type, "err", err)
		}
		id, answer, err := ops.Enqueue(call, s, r)
		if err != nil {
			return err
		}
		if reason != "" {
			_, _ = fmt.Fprintf(a.err, "leasehold: warning: %s; the task waits until %s\n", reason, until)
		}
		if !c.Wait || a.cli.Output == "table" { // as JSON, one document: what came of the task
			if err := a.printEnqueued(id, answer); err != nil {
				return err
			}
		}
		if !c.Wait {
			return nil
		}
		return a.wait(ctx, s, []task.ID{id}, time.Duration(c.Timeout))
	})
}

func (a *app) printEnqueued(id task.ID, answer store.Enqueued) error {
	return a.print(ops.ResultOf(id, answer), func(w io.Writer) error {
		_, err := fmt.Fprintf(w, map[store.Enqueued]string{
			store.EnqueuedInserted: "task %d enqueued\n",
			store.EnqueuedKept:     "task %d is live already, with this type and key\n",
			store.EnqueuedReplaced: "task %d is live already, with this type and key: it has the new values\n",
			store.EnqueuedFollows:  "task %d follows the live one with this type and key\n",
		}[answer], id)
		return err
	})
}

// request is what the flags ask for.
func (c enqueueCmd) request(stdin io.Reader) (store.EnqueueRequest, error) {
	r := store.EnqueueRequest{
		Type: c.Type, RunAt: time.Time(c.RunAt), In: time.Duration(c.In), Priority: c.Priority, Key: c.Key, Region: c.Region,
		Labels: c.Label, CreatedBy: c.CreatedBy, Batch: task.BatchID(c.Batch), Lock: c.Lock, Sequence: c.Sequence, Tenant: c.Tenant,
		OnLive:   store.OnLive(c.OnLive),
		Debounce: time.Duration(c.Debounce), DebounceMax: time.Duration(c.DebounceMax), AfterIf: c.AfterIf,
	}
	for _, id := range c.After {
		r.After = append(r.After, task.ID(id))
	}
	if c.MaxAttempts != nil {
		if r.MaxAttempts = *c.MaxAttempts; r.MaxAttempts < 1 {
			return r, usagef("--max-attempts %d: use 1 to %d", r.MaxAttempts, store.MaxAttempts)
		}
	}
	const fromStdin = "-"
	if c.Payload != nil && c.RollbackPayload != nil && *c.Payload == fromStdin && *c.RollbackPayload == fromStdin {
		return r, usagef("--payload - and --rollback-payload -: only one of them can be read from standard input")
	}
	var err error
	if r.Payload, err = readDocument("--payload", c.Payload, stdin); err != nil {
		return r, err
	}
	r.RollbackPayload, err = readDocument("--rollback-payload", c.RollbackPayload, stdin)
	return r, err
}

// maxPayload bounds what is read as a payload; a task's payload is an order, not the goods.
const maxPayload = store.MaxMaxPayload // bytes; the store's own bound may be less

// readDocument reads a flag's JSON as given, @FILE, or - for stdin; nil where nothing was given. It is not checked.
func readDocument(flag string, given *string, stdin io.Reader) (json.RawMessage, error) {
	if given == nil {
		return nil, nil
	}
	text, from := *given, stdin
	switch name, isFile := strings.CutPrefix(text, "@"); {
	case isFile:
		f, err := os.Open(name)
		if err != nil {
			return nil, usagef("%s: %w", flag, err)
		}
		defer f.Close() //nolint:errcheck // nothing was written
		from = f
	case text != "-":
		return json.RawMessage(text), nil
	}
	doc, err := io.ReadAll(io.LimitReader(from, maxPayload+1))
	switch {
	case err != nil:
		return nil, usagef("%s: %w", flag, err)
	case len(doc) > maxPayload:
		return nil, usagef("%s: more than %d MiB: store it elsewhere and enqueue its location", flag, maxPayload>>20)
	}
	return doc, nil
}

// checkTypes returns an error where no agent could ever declare one of these types; "" is none.
func checkTypes(names ...string) error {
	for _, name := range names {
		if err := task.CheckTypeName(name); name != "" && err != nil {
			return &store.InputError{Text: err.Error()}
		}
	}
	return nil
}
