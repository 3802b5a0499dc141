package worker

import (
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/exec/command"
	"github.com/leasehold/leasehold/internal/task"
)

// TestCheck has a worker checked that is right, and some that are wrong in one way each. A step that is not listed has to be well,
// but where what comes late meets one step or the next.
func TestCheck(t *testing.T) {
	const (
		ready, ends, quiet    = "becomes ready", "ends an attempt", "says nothing after the last line"
		again, fence, large   = "ends the next attempt in the same process", "repeats the fence of a later attempt of a task", "reads an envelope of 256 KiB to its end"
		atEnd, atSignal, lost = "exits at the end of standard input", "stops at the stop signal", "the process was lost before"
	)
	each := func(wrong string) map[string]string {
		return map[string]string{ends: wrong, quiet: lost, again: wrong, fence: wrong, large: wrong}
	}
	attempts := func(wrong string) map[string]string {
		return map[string]string{ends: wrong, again: wrong, fence: wrong, large: wrong}
	}
	for name, c := range map[string]struct {
		part, do string
		wrong    map[string]string
		late     bool
	}{
		"right":                {part: "plays", do: "print"},
		"errors":               {part: "plays", do: "fail"},
		"never ready":          {part: "never", wrong: map[string]string{ready: `write {"ready": true} to descriptor 3, and flush it; it printed: starting up`}},
		"exits at once":        {part: "exits", wrong: map[string]string{ready: "exit code 4; it printed: no module named app"}},
		"ready twice":          {part: "ready twice", do: "echo", wrong: map[string]string{ready: "again that it is ready", atSignal: "again that it is ready"}},
		"another fence":        {part: "plays", do: "other", wrong: each("repeat id and fence of the envelope")},
		"no id":                {part: "plays", do: "unnamed", wrong: each("must repeat the envelope's id and fence")},
		"no last line":         {part: "plays", do: "hang", wrong: each("it wrote no last line within 1s: write one line, as ")},
		"no line feed":         {part: "plays", do: "no line feed", wrong: each("with a line feed, and flush it")},
		"lines that mean none": {part: "plays", do: "garbage", wrong: attempts("is not valid JSON")},
		"another's pings":      {part: "plays", do: "pings", wrong: attempts("a ping is of the attempt that runs"), late: true},
		"pings too late":       {part: "plays", do: "late ping", wrong: map[string]string{quiet: "the worker pinged after the last line"}, late: true},
		"prints too late":      {part: "plays", do: "late output", wrong: map[string]string{quiet: "flush output before the last line: late"}, late: true},
		"does not flush":       {part: "plays", do: "not flushed", wrong: map[string]string{atEnd: "flush output before the last line: said too late"}},
		"exits":                {part: "plays", do: "die", wrong: each("exit code 3: bye; it printed: bye")},
		"closes descriptor 3":  {part: "plays", do: "closes 3", wrong: each("keep it open until you exit")},
		"leaves processes":     {part: "plays", do: "leaves and fails", wrong: each("it left processes behind after an attempt that did not succeed")},
		"leaves what may stay": {part: "plays", do: "leaves"},
		"goes on at the end":   {part: "stays", do: "echo", wrong: map[string]string{atEnd: "it was still there 1s after the end of standard input"}},
		"ignores the signal":   {part: "deaf to signals", do: "echo", wrong: map[string]string{atSignal: "it was still there 1s after the stop signal"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := declared(t, c.part)
			target.StopGrace = time.Second
			if c.part == "never" {
				target.Worker.Ready = 500 * time.Millisecond
			}
			r := command.New(command.Options{Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
			defer r.Close()
			payload, err := json.Marshal(map[string]string{"do": c.do})
			require.NoError(t, err)
			check := Check{
				Runner: r, Payload: payload, Found: func(f Finding) {
					if want := c.wrong[f.Step]; want != "" {
						require.Contains(t, f.Wrong, want, f.Step)
					} else if !c.late {
						require.Empty(t, f.Wrong, f.Step)
					}
				},
				Type: &task.Type{Name: "check", Target: target, Policy: task.Policy{Timeout: time.Second, Stop: task.StopLength(time.Second)}},
			}
			require.Equal(t, len(c.wrong) == 0, check.Run())
		})
	}
}
