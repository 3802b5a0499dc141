package task_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/internal/task"
)

func TestMarksAdvance(t *testing.T) {
	t.Parallel()
	m := task.Marks{Fence: 3}
	for _, c := range []struct {
		progress, checkpoint string
		advances             bool
	}{
		{"", "", false},
		{`0`, "", true}, {`0`, "", false}, {`0.4`, "", true}, {`0.40`, "", false}, {`4e-1`, "", false}, {`0.3`, "", false},
		{`0.4000000000000000000001`, "", true},
		{`{"done":3,"total":9}`, "", true}, {`{"total":90,"done":3.0}`, "", false}, {`{"done":2,"total":9}`, "", false},
		{`{"done":9007199254740993,"total":9}`, "", true}, {`{"done":9007199254740992,"total":9}`, "", false},
		{`"0.4"`, "", true}, {`"0.4"`, "", false}, {`"0.40"`, "", true},
		{"", `"0.4"`, true}, {"", `0.4`, true}, {"", `0.40`, false}, {"", `null`, true}, {"", `null`, false},
		{"", `{"a":1,"b":[1,2]}`, true}, {"", `{ "b" : [1.0, 2e0], "a": 1 }`, false}, {"", `{"a":1,"b":[2,1]}`, true},
		{"", `[]`, true}, {"", `{}`, true}, {"", `[[]]`, true}, {"", `""`, true},
		{`0.1`, `[1]`, true}, {`0.5`, `[1]`, true}, {`0.1`, `[1]`, false},
		{`"0.4"`, "", true}, // more than 8 came in between
	} {
		var progress, checkpoint json.RawMessage
		if c.progress != "" {
			progress = json.RawMessage(c.progress)
		}
		if c.checkpoint != "" {
			checkpoint = json.RawMessage(c.checkpoint)
		}
		require.Equal(t, c.advances, m.Advance(progress, checkpoint), "%s and %s", c.progress, c.checkpoint)
	}
	stored := m.JSON()
	require.Less(t, len(stored), 512)
	require.Equal(t, m, task.MarksOf(stored, 3))
	require.Equal(t, task.Marks{Fence: 4}, task.MarksOf(stored, 4), "another attempt's")
	require.Equal(t, task.Marks{Fence: 3}, task.MarksOf([]byte(`{`), 3))
	require.Equal(t, task.Marks{Fence: 3}, task.MarksOf(nil, 3))
}

// A task that cycles through up to eight positions advances by each once and no more, also where it reports over two ways
// whose marks are merged now and then.
func TestCirclesDoNotAdvance(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "positions")
		ways := []task.Marks{{Fence: 1}, {Fence: 1}}
		advanced := 0
		for range rapid.IntRange(1, 100).Draw(t, "reports") {
			m := &ways[rapid.IntRange(0, 1).Draw(t, "way")]
			if m.Advance(json.RawMessage(fmt.Sprintf("%q", fmt.Sprint("at ", rapid.IntRange(1, n).Draw(t, "position")))), nil) {
				advanced++
			}
			switch rapid.IntRange(0, 5).Draw(t, "merge") {
			case 0:
				ways[0].Merge(ways[1])
			case 1:
				ways[1].Merge(ways[0])
			}
		}
		require.LessOrEqual(t, advanced, 2*n)
		other := task.Marks{Fence: 2, Number: "1"}
		ways[0].Merge(other)
		require.Empty(t, ways[0].Number, "another attempt's")
	})
}

func FuzzMarks(f *testing.F) {
	for _, seed := range []string{`{"a":[1e3,-0.5,"x"]}`, `1e999999999`, `-`, `[[[]]]`, `"\ud800"`, `{"a":1,"a":2}`} {
		f.Add([]byte(seed), []byte(seed))
	}
	f.Fuzz(func(t *testing.T, progress, checkpoint []byte) {
		m := task.Marks{Fence: 1}
		m.Advance(progress, checkpoint)
		require.False(t, m.Advance(progress, checkpoint), "the same again")
	})
}
