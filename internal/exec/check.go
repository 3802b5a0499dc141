package exec

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/leasehold/leasehold/internal/exec/answer"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// check asks a type's check whether the task is done already. over reports that the attempt ends with it, as o says: the
// task is done, or the check has not ended well. Then nothing of the task was started.
func (r *Runner) check(l *lease.Lease, t *task.Type) (o task.Outcome, over bool) {
	row := l.Task()
	c := l.Check()
	defer c.Close()
	if !r.breakers.Begin(t.Name, task.Check, row.ID) {
		return task.Outcome{
			Verdict: task.Drained, NeverStarted: true, InCheck: true,
			Error: "check: the target is out of reach, and another task is probing it",
		}, true
	}
	defer r.breakers.Release(t.Name, task.Check, row.ID) // should it panic
	r.checks.begin(row.ID)
	defer r.checks.end(row.ID)
	o = r.ask(c, t)
	r.breakers.Done(t.Name, task.Check, row.ID, o)
	if o.Verdict == task.Succeeded {
		if o, over = verdictOf(o), true; o.Verdict == "" {
			o, over = beforeRun(l, c, o)
		}
	} else {
		over = true
	}
	if o.Verdict != task.Succeeded {
		o.Error = "check: " + o.Error
	}
	o.NeverStarted, o.InCheck = true, true
	return o, over
}

// verdictOf returns what the answer of a check that ended well means: the task has succeeded, with the check's result as
// its own; or the check has failed, because its answer is malformed; or the task is to be run (no verdict).
func verdictOf(o task.Outcome) task.Outcome {
	done, result, err := doneIn(&o)
	switch {
	case err != nil:
		return task.Outcome{Verdict: task.Failed, Error: err.Error(), Output: o.Output, EndUnknown: o.EndUnknown, Stuck: o.Stuck}
	case done:
		o.Result, o.Note = result, ""
		return o
	}
	return task.Outcome{Output: o.Output, Stuck: o.Stuck}
}

// doneIn reads {"done": true} or {"done": false}; nothing at all is as good as the latter. Beside done there may be the
// task's result.
func doneIn(o *task.Outcome) (done bool, result json.RawMessage, err error) {
	if o.Result == nil {
		if o.Note != "" {
			return false, nil, errors.New(o.Note)
		}
		return false, nil, nil
	}
	var members map[string]json.RawMessage // names are exact, as in JSON everywhere else
	if json.Unmarshal(o.Result, &members) == nil {
		switch string(members["done"]) {
		case "true":
			result, _ = answer.Result(members["result"], int64(len(members["result"])))
			if string(result) == "null" {
				result = nil
			}
			return true, result, nil
		case "false":
			return false, nil, nil
		}
	}
	return false, nil, errors.New(`the response is neither {"done": true} nor {"done": false}: ` + answer.Line(string(o.Result)))
}

// beforeRun has the last look at an attempt whose check says that it is to run: over reports that it must not.
func beforeRun(l, c *lease.Lease, o task.Outcome) (_ task.Outcome, over bool) {
	took, _ := c.Started()
	switch longest, _, _ := l.Policy().Lengths(task.Check); {
	case o.Stuck != nil:
		o.Verdict, o.EndUnknown = task.Failed, true
		o.Error = "processes of it are still there after SIGKILL"
	case l.Completed():
		o.Verdict, o.Error = task.Drained, "the task was completed meanwhile"
	case !l.Late():
		return o, false
	case took > longest:
		o.Verdict, o.Error = task.TimedOut, "what it left behind was there for longer than its timeout of "+longest.String()
	default:
		o.Verdict, o.Error = task.Drained, "the agent stood still before it"
	}
	return o, true
}

// checks are the tasks whose check is being asked.
type checks struct {
	mu  sync.Mutex
	ids map[task.ID]struct{}
}

func (c *checks) begin(id task.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ids == nil {
		c.ids = map[task.ID]struct{}{}
	}
	c.ids[id] = struct{}{}
}

func (c *checks) end(id task.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.ids, id)
}

// list returns the first of them, as many as a heartbeat takes.
func (c *checks) list() []task.ID {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := slices.Sorted(maps.Keys(c.ids))
	return all[:min(len(all), store.MostConditions)]
}
