package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/leasehold/leasehold/internal/exec/tryout"
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// runFrom runs one attempt with the envelope of a task of the store. The store is closed before it runs.
func (c tryCmd) runFrom(a *app) error {
	cfg, err := a.loadConfig(nil)
	if err != nil {
		return err
	}
	info, after, masks, err := a.readForTry(task.ID(c.From))
	if err != nil {
		return err
	}
	typ := cfg.Type(info.Type)
	if c.Type != "" {
		if typ, err = declared(cfg, c.Type); err == nil && !slices.Contains(typ.Names(), info.Type) {
			err = usagef("task %d is of type %q, which %q is not, nor an alias of it: leave the type out, or declare the alias",
				info.ID, info.Type, c.Type)
		}
	} else if typ == nil {
		_, err = declared(cfg, info.Type)
	}
	if err != nil {
		return err
	}
	phase := tryout.PhaseOf(info)
	if c.Rollback {
		phase = task.Rollback
	}
	if typ.TargetOf(phase) == nil {
		return usagef("task %q has no rollback", typ.Name)
	}
	payload, err := c.payload(a, info.Type)
	if err != nil {
		return err
	}
	mask := masks.Mask(info, typesOf(after)...).And(ops.NewMask(typ.Redact...))
	if c.Unredacted {
		mask = ops.Mask{}
	}
	t := tryout.From(info, after, payload, typ, phase)
	if err := a.sayFrom(info, t.Lease().Task(), payload != nil); err != nil {
		t.Close()
		return err
	}
	if !c.Curl {
		return a.try(t, typ, mask, info.ID)
	}
	t.Close()
	shown, shownAfter, shownPayload := maskFrom(mask, info, after, payload)
	masked := !reflect.DeepEqual(shown, info) || !reflect.DeepEqual(shownAfter, after) || !bytes.Equal(shownPayload, payload)
	return a.tryCurl(tryout.From(shown, shownAfter, shownPayload, typ, phase), typ, masked)
}

// typesOf lists the types of the tasks that one has waited for.
func typesOf(after *task.After) (types []string) {
	if after == nil {
		return nil
	}
	for i := range after.Tasks {
		types = append(types, after.Tasks[i].Type)
	}
	return types
}

// maskFrom returns what an attempt is made of with its documents masked.
func maskFrom(mask ops.Mask, i *store.TaskInfo, after *task.After, payload json.RawMessage) (*store.TaskInfo, *task.After, json.RawMessage) {
	shown := *i
	for _, doc := range []*json.RawMessage{&shown.Payload, &shown.RollbackPayload, &shown.Result, &shown.Checkpoint, &shown.Labels} {
		*doc = mask.Document(*doc)
	}
	if after == nil {
		return &shown, nil, mask.Document(payload)
	}
	others := *after
	others.Tasks = slices.Clone(after.Tasks)
	for n := range others.Tasks {
		others.Tasks[n].Result = mask.Document(others.Tasks[n].Result)
	}
	return &shown, &others, mask.Document(payload)
}

// readForTry reads a task as its target gets it, what is known of the tasks that it has waited for (nil: it has waited for none), and what is to be
// masked.
func (a *app) readForTry(id task.ID) (info *store.TaskInfo, after *task.After, masks ops.Redactions, err error) {
	err = a.withTables(func(ctx context.Context, s dataStore) error {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		if info, masks, err = ops.ReadForTarget(call, s, id); err != nil {
			return err
		}
		a.trace(call, s, (*ops.Task)(info))
		if info.Related == nil || info.Related.AfterTotal == 0 {
			return nil
		}
		known, err := s.Predecessors(call, id)
		after = &known
		return err
	})
	return info, after, masks, err
}

// sayFrom says on stderr which attempt it is, and what cannot come of it.
func (a *app) sayFrom(info *store.TaskInfo, row *task.Task, other bool) error {
	what := fmt.Sprintf("the envelope of task %d (%s, %s), %s attempt %d", info.ID, ops.OneLine(info.Type, 80), info.State, row.Phase(), row.Attempt)
	if other {
		what += ", with another payload"
	}
	_, err := fmt.Fprintf(a.err, "%s\nnothing in the store is changed: fence 0, and a ping URL of this command's own\n", what)
	if err == nil && (info.State == task.StateRunning || info.State == task.StateRollbackRunning) {
		_, err = fmt.Fprintf(a.err, "warning: the task is running%s: its target may get it twice\n", onAgent(info.Agent))
	}
	return err
}

// onAgent names an agent, if it is known.
func onAgent(name string) string {
	if name == "" {
		return ""
	}
	return " on agent " + ops.OneLine(name, 80)
}
