package command

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/internal/exec/exectest"
	"github.com/leasehold/leasehold/internal/task"
)

func TestOutputKeepsHeadAndTail(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var o output
		var all strings.Builder
		for range rapid.IntRange(0, 12).Draw(t, "writes") {
			n := rapid.IntRange(0, 40_000).Draw(t, "length")
			for start := all.Len(); all.Len() < start+n; {
				fmt.Fprintf(&all, "%07d\n", all.Len())
			}
			o.add([]byte(all.String()[o.total:]))
		}
		const part = task.MaxOutputPart
		got, want := o.String(), all.String()
		if len(want) > 2*part {
			want = fmt.Sprintf("%s\n… %d bytes left out …\n%s", want[:part], len(want)-2*part, want[len(want)-part:])
		}
		if got != want {
			t.Fatalf("got %d bytes, want %d", len(got), len(want))
		}
	})
}

func TestOutputIsText(t *testing.T) {
	var o output
	o.add([]byte("a\x00b\xff\n"))
	require.Equal(t, "a\ufffdb\ufffd\n", o.String())

	o = output{}
	o.add([]byte("x" + strings.Repeat("é", 40_000))) // the cuts fall into runes
	got := o.String()
	require.True(t, utf8.ValidString(got))
	require.LessOrEqual(t, len(got), 2*task.MaxOutputPart+64)
	require.Contains(t, got, " bytes left out …")

	o = output{}
	o.add([]byte(strings.Repeat("a\xff", 40_000)))
	require.LessOrEqual(t, len(o.String()), 2*task.MaxOutputPart+64, "what replaces bad bytes is longer than they were")
}

// A gigabyte of output neither blocks the task nor is held.
func TestGigabyteOfOutput(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	o := run(t, exectest.Attempt{Policy: task.Policy{Timeout: 10 * time.Minute}},
		shell("echo head; head -c 1073741824 /dev/zero; echo tail"))
	runtime.ReadMemStats(&after)
	require.Equal(t, task.Succeeded, o.Verdict, o.Error)
	require.True(t, strings.HasPrefix(o.Output, "head\n"))
	require.True(t, strings.HasSuffix(o.Output, "tail\n"))
	require.Contains(t, o.Output, fmt.Sprintf("%d bytes left out", 1<<30+10-2*task.MaxOutputPart))
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4<<20), "allocated in all, not only held")
}

func TestInputThatIsNotRead(t *testing.T) {
	payload := []byte(`"` + strings.Repeat("a", 1<<20) + `"`)
	attempt := exectest.Attempt{Task: task.Task{Payload: payload}}
	require.Equal(t, task.Outcome{Verdict: task.Succeeded}, run(t, attempt, shell("exec 0<&-; exit 0")))
	require.Equal(t, task.Outcome{Verdict: task.Succeeded}, run(t, attempt, shell("exit 0")))
	o := run(t, attempt, shell("wc -c"))
	require.Equal(t, task.Succeeded, o.Verdict)
	var n int
	_, err := fmt.Sscan(o.Output, &n)
	require.NoError(t, err)
	require.Greater(t, n, 1<<20, "all of it arrives where it is read")

	s := newScene(t, attempt)
	o = s.run("echo > ready; exec sleep 1000", nil, s.stop(task.TimedOut))
	require.Equal(t, task.Outcome{Verdict: task.TimedOut, Error: "why"}, o)
}

func FuzzRetryAfter(f *testing.F) {
	f.Add([]byte(`{"retry_after_s": 30}`))
	f.Add([]byte(`{"retry_after_s": 1e308}`))
	f.Add([]byte(`{"retry_after_s": -1}`))
	f.Add([]byte(`{"retry_after_s": null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		d := retryAfter(body)
		require.GreaterOrEqual(t, d, time.Duration(0))
		require.LessOrEqual(t, d, 24*time.Hour)
	})
}
