package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/exec/answer"
	"github.com/leasehold/leasehold/internal/exec/command"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"
)

// afterLast is how long a check listens to what a worker says after its last line.
const afterLast = 500 * time.Millisecond

// Finding is what a check found in one step.
type Finding struct {
	Step  string
	Wrong string // what is wrong and how to do it; "": nothing
	Took  time.Duration
}

// Check plays the agent to a worker, to see whether it keeps to the protocol.
type Check struct {
	Runner  *command.Runner
	Type    *task.Type // with a command that has a Worker; each attempt has its timeout
	Payload json.RawMessage
	Found   func(Finding) // called with each step's

	worker *worker
	fence  task.Fence
	wrong  bool

	mu      sync.Mutex
	refused error // the first line on descriptor 3 of the step that meant nothing
}

// refuse notes a line that meant nothing.
func (c *Check) refuse(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refused == nil {
		c.refused = err
	}
}

// takeRefused returns the first of them since the last call.
func (c *Check) takeRefused() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.refused
	c.refused = nil
	return err
}

// checkLabels is as large as no pipe, and has what breaks readers of lines: text that looks like an end of line to some.
func checkLabels() json.RawMessage {
	const size = 256 << 10
	doc, err := json.Marshal(map[string]string{"padding": strings.Repeat("a", size), "text": "ä \u2028 \u0085 \" \\ \n 漢字 🙂"})
	if err != nil {
		panic("strings always marshal: " + err.Error())
	}
	return doc
}

// Run makes all steps, and reports whether nothing is wrong. After a step in which the process was lost, the next one starts
// another.
func (c *Check) Run() (well bool) {
	for _, s := range []struct {
		name string
		do   func() error
	}{
		{"becomes ready", c.boot},
		{"ends an attempt", func() error { return c.attempt(task.Task{ID: 1}) }},
		{"says nothing after the last line", c.listen},
		{"ends the next attempt in the same process", func() error { return c.again(task.Task{ID: 2}) }},
		{"repeats the fence of a later attempt of a task", func() error { return c.again(task.Task{ID: 2, Attempt: 2}) }},
		{"reads an envelope of 256 KiB to its end", func() error { return c.again(task.Task{ID: 3, Labels: checkLabels()}) }},
		{"exits at the end of standard input", c.hangUp},
		{"stops at the stop signal", c.stop},
	} {
		began := time.Now()
		err := s.do()
		if refused := c.takeRefused(); err == nil {
			err = refused
		} else if refused != nil {
			err = fmt.Errorf("%w; before that: %w", err, refused)
		}
		f := Finding{Step: s.name, Took: time.Since(began)}
		if err != nil {
			f.Wrong, c.wrong = err.Error(), true
		}
		c.Found(f)
		if c.worker == nil && s.name == "becomes ready" { // nothing else can be seen
			return false
		}
	}
	if c.worker != nil {
		c.worker.close()
	}
	return !c.wrong
}

// boot starts a process.
func (c *Check) boot() error {
	target, ok := c.Type.Target.(*task.Command)
	if !ok {
		return errors.New("the target is no command")
	}
	w, err := start(c.Runner, slog.New(slog.DiscardHandler), c.Type, target, hooks{refusal: c.refuse})
	if err != nil {
		return err
	}
	if err := w.awaitReady(target.Worker.Ready, nil); err != nil {
		return printed(err, w.close().output)
	}
	c.worker = w
	return nil
}

// again runs an attempt in the process of the one before.
func (c *Check) again(row task.Task) error {
	if c.worker == nil {
		if err := c.boot(); err != nil {
			return err
		}
	}
	return c.attempt(row)
}

// attempt runs an attempt to its end, whatever that is: only how it is written is checked.
func (c *Check) attempt(row task.Task) error {
	c.fence++
	now := time.Now().UTC()
	row.Type, row.State, row.Payload, row.Attempt = c.Type.Name, task.StateRunning, c.Payload, max(row.Attempt, 1)
	row.Fence, row.ClaimedAt, row.CreatedAt, row.RunAt = c.fence, now, now, now
	clock := lease.BootClock()
	l := lease.New(context.Background(), &row, &c.Type.Policy, clock, clock.Now(), nil)
	defer l.Close()
	w := c.worker
	end := w.run(l, c.Type)
	if end.fate == reuse {
		return nil
	}
	c.worker = nil
	if end.fate == leave {
		w.retire(nil)
	}
	return printed(wrongEnd(w, l, &end), end.Output)
}

// wrongEnd is what is wrong where an attempt ended in a way that took the process along.
func wrongEnd(w *worker, l *lease.Lease, end *ended) error {
	switch {
	case w.isBroken():
		return errors.New(w.why())
	case end.unread:
		return fmt.Errorf("it read nothing of the envelope, a line of standard input: %s", w.why())
	case l.Cause() != nil:
		return fmt.Errorf("it wrote no last line within %s: write one line, as %s, to descriptor 3, with a line feed, and flush it",
			l.Policy().Timeout, lastExample)
	case end.left:
		return errors.New("it left processes behind after an attempt that did not succeed: end them, or wait for them, before the last line")
	case end.Verdict == task.Succeeded:
		return fmt.Errorf("it ended the attempt, and cannot run another: %s", w.why())
	}
	return errors.New(end.Error)
}

// printed adds to an error what the process has printed.
func printed(err error, output string) error {
	if output == "" {
		return err
	}
	return fmt.Errorf("%w; it printed: %s", err, answer.Line(output))
}

// listen waits for what comes late: output of the attempt, or another last line.
func (c *Check) listen() error {
	w := c.worker
	if w == nil {
		return errors.New("the process was lost before")
	}
	wait := time.NewTimer(afterLast)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-w.broken:
	case <-w.process.Exited():
	}
	late := w.process.Output()
	if !w.usable() {
		c.worker = nil
		why := w.why()
		w.close()
		return errors.New(why)
	}
	if late != "" {
		return fmt.Errorf("it printed after its last line, so that is not kept with the attempt: "+
			"flush output before the last line: %s", answer.Line(late))
	}
	return nil
}

// hangUp ends standard input. What the process prints at that and would not print if it had run nothing was printed by its
// attempts, and came too late.
func (c *Check) hangUp() error {
	const wrong = "it was still there %s after the end of standard input: exit when reading returns nothing"
	ran := c.worker != nil && c.worker.runs > 0
	output, err := c.leave(wrong, (*command.Worker).HangUp)
	if err != nil || !ran || output == "" {
		return err
	}
	usual, err := c.leave(wrong, (*command.Worker).HangUp)
	if err == nil && strings.Count(output, "\n") > strings.Count(usual, "\n") {
		err = fmt.Errorf("it printed at its end what its attempts had to say: flush output before the last line: %s", answer.Line(output))
	}
	return err
}

// stop sends the stop signal.
func (c *Check) stop() error {
	_, err := c.leave("it was still there %s after the stop signal: end at it, or exit in a handler of it", (*command.Worker).Signal)
	return err
}

// leave has the process end, and returns what it prints meanwhile.
func (c *Check) leave(wrong string, how func(*command.Worker)) (output string, err error) {
	if c.worker == nil {
		if err := c.boot(); err != nil {
			return "", err
		}
	}
	w := c.worker
	c.worker = nil
	w.window.close()
	how(w.process)
	gone := w.exits(w.command.StopGrace) // what it has left does not count
	output = w.close().output
	if !gone {
		return "", fmt.Errorf(wrong, w.command.StopGrace)
	}
	return output, nil
}
