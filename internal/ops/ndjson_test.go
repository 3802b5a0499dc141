package ops

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// readAll reads to the end, or to the first mistake.
// testLine is the longest line here.
const testLine = 1 << 20

func readAll(t *testing.T, text string, base store.EnqueueRequest) ([]store.EnqueueRequest, error) {
	t.Helper()
	var got []store.EnqueueRequest
	for r, err := range readRequests(strings.NewReader(text), "f.ndjson", base, testLine) {
		if err != nil {
			return got, err
		}
		got = append(got, r)
	}
	return got, nil
}

func TestReadRequests(t *testing.T) {
	base := store.EnqueueRequest{Type: "move", CreatedBy: "alice", Labels: map[string]string{"by": "base"}}
	got, err := readAll(t, "\ufeff"+`{}
{"payload": {"service": 1}, "rollback_payload": ["a", null], "run_at": "2026-11-20T16:00:00+08:00", "priority": -3}`+"\r\n"+`

 {"key":"k","region":"sg","labels":{"a":"b"},"max_attempts":2,"traceparent":"00-x","type":"other","payload":7} 
{"payload": null, "key": null}`, base)
	require.NoError(t, err)
	require.Len(t, got, 4)
	require.Equal(t, base, got[0])
	require.JSONEq(t, `{"service": 1}`, string(got[1].Payload))
	require.JSONEq(t, `["a", null]`, string(got[1].RollbackPayload))
	require.True(t, time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC).Equal(got[1].RunAt))
	require.Equal(t, -3, got[1].Priority)
	require.Equal(t, store.EnqueueRequest{
		Type: "other", Key: "k", Region: "sg", Labels: map[string]string{"a": "b"}, MaxAttempts: 2, Traceparent: "00-x",
		Payload: json.RawMessage("7"), CreatedBy: "alice",
	}, got[2])
	require.Equal(t, base, got[3])
	require.Equal(t, map[string]string{"by": "base"}, base.Labels, "it is another's")

	got, err = readAll(t, "", base)
	require.NoError(t, err)
	require.Empty(t, got)
}

func TestLinesNameLines(t *testing.T) {
	got, err := readAll(t, `{"type": "a"}
{"type": "a", "ref": "x"}

{"type": "a", "ref": "y", "after_ref": "x"}
{"type": "a", "after_ref": ["y", "x", "y"], "after": [7], "after_if": "any"}
{"type": "a", "after_ref": [], "ref": null}`, store.EnqueueRequest{})
	require.NoError(t, err)
	require.Equal(t, []store.EnqueueRequest{
		{Type: "a"}, {Type: "a", Ref: true}, {Type: "a", Ref: true, AfterRefs: []int64{0}},
		{Type: "a", AfterRefs: []int64{0, 1}, After: []task.ID{7}, AfterIf: store.AfterIfAny}, {Type: "a"},
	}, got)
	const unknown = `after_ref: no line before this one has the ref %q: a task waits only for tasks of lines before its own`
	for text, want := range map[string]string{
		`{"ref": "x", "after_ref": "x"}`:               ":1:27: " + fmt.Sprintf(unknown, "x"),
		`{"after_ref": ["z"]}` + "\n" + `{"ref": "z"}`: ":1:15: " + fmt.Sprintf(unknown, "z"),
		`{"ref": "z"}` + "\n\n" + `{"ref": "z"}`:       `:3:9: line 1 has the ref "z" too: give each line one of its own`,
		`{"ref": ""}`:                                  `:1:9: ref must be a string of 1 to 1024 bytes, not ""`,
		`{"ref": 7}`:                                   `:1:9: ref must be a string of 1 to 1024 bytes, not 7`,
		`{"after_ref": [7]}`:                           `:1:15: after_ref must be a ref or a list of refs, not [7]`,
		`{"after_if": "any"}`:                          `:1:1: after-if says how the tasks of after have to end: say which they are`,
	} {
		_, err := readAll(t, text, store.EnqueueRequest{Type: "a"})
		require.EqualError(t, err, "f.ndjson"+want, text)
	}
	few := refs{most: 1}
	_, err = few.resolve(place{name: "f", line: 1}, &lineRefs{ref: "x"})
	require.NoError(t, err)
	_, err = few.resolve(place{name: "f", line: 2}, &lineRefs{ref: "y"})
	require.ErrorContains(t, err, "more than 1 lines have a ref")
}

func TestReadRequestsNamesLineAndColumn(t *testing.T) {
	long := `{"payload":"` + strings.Repeat("x", testLine) + `"}`
	for text, want := range map[string]string{
		`{"payload": {}, "service": 7}`:      `f.ndjson:1:17: "service" is not a column: use type, payload, run_at, priority`,
		"{}\n\n  {\"a\":1}":                  `f.ndjson:3:4: "a" is not a column`,
		`{"payload": {"a":}}`:                `f.ndjson:1:18: this is not JSON: invalid character '}'`,
		`{"payload": 1`:                      `f.ndjson:1:14: this is not JSON: unexpected end of JSON input`,
		`{"payload`:                          `f.ndjson:1:10: this is not JSON: unexpected end of JSON input`,
		`{"payload" 1}`:                      `this is not JSON`,
		"{\"k\\u0065y\":\"a\"}":              `f.ndjson:1:2: "k\u0065y" is not a column`,
		`{,}`:                                `this is not JSON`,
		`[1]`:                                `f.ndjson:1:1: a line must be an object`,
		`17`:                                 `f.ndjson:1:1: a line must be an object`,
		`nonsense`:                           `f.ndjson:1:2: this is not JSON`,
		`{} {}`:                              `f.ndjson:1:4: this is not JSON: invalid character`,
		`{"key":"a","key":"b"}`:              `f.ndjson:1:12: "key" occurs twice`,
		`{"run_at": "tomorrow"}`:             `f.ndjson:1:12: run_at must be a time such as "2026-11-20T08:00:00Z", not "tomorrow"`,
		`{"priority": 1.5}`:                  `f.ndjson:1:14: priority must be a whole number, not 1.5`,
		`{"priority": 11}`:                   `f.ndjson:1:1: priority 11: use -10 to 10, higher first`,
		`{"key": 7}`:                         `f.ndjson:1:9: key must be a string, not 7`,
		`{"labels": {"a": 1}}`:               `labels must be an object of strings, not {"a": 1}`,
		`{"max_attempts": "3"}`:              `max_attempts must be a whole number, not "3"`,
		`{"max_attempts": -1}`:               `max attempts -1: use 1 to 1000`,
		`{"payload": {"a": "\u0000"}}`:       `the payload has a NUL character`,
		`{"rollback_payload": {"\u0000":1}}`: `the rollback payload has a NUL character`,
		`{"type": "in voice"}`:               `f.ndjson:1:10: "in voice": the name of a type has at most 128 letters`,
		`{"type": ""}`:                       `f.ndjson:1:1: the task has no type`,
		"{\"key\":\"\xff\"}":                 `f.ndjson:1:1: the line is not UTF-8`,
		long:                                 `f.ndjson:1:1: the line is longer than 1 MiB`,
		"{}\n" + long + "\n{}":               `f.ndjson:2:1: the line is longer than 1 MiB`,
	} {
		_, err := readAll(t, text, store.EnqueueRequest{Type: "move"})
		require.ErrorContains(t, err, want, "%.80s", text)
		require.ErrorAs(t, err, new(*store.InputError), "%.80s", text)
	}
}

func TestLinesMayBeAsLongAsTheBound(t *testing.T) {
	for _, end := range []string{"", "\n", "\r\n"} {
		line := `{"payload":"` + strings.Repeat("x", testLine-14) + `"}`
		require.Len(t, line, testLine)
		got, err := readAll(t, line+end, store.EnqueueRequest{Type: "move"})
		require.NoError(t, err)
		require.Len(t, got, 1)
	}
}

func TestReadRequestsReportsWhatKeepsItFromReading(t *testing.T) {
	cut := errors.New("the disk is gone")
	var n int
	for _, err := range readRequests(io.MultiReader(strings.NewReader("{}\n"), iotest.ErrReader(cut)), "f", store.EnqueueRequest{Type: "a"}, testLine) {
		if n++; n == 2 {
			require.ErrorIs(t, err, cut)
			require.NotErrorAs(t, err, new(*store.InputError))
		}
	}
	require.Equal(t, 2, n)
	for _, err := range readRequests(strings.NewReader("{}\n{}\n"), "f", store.EnqueueRequest{Type: "a"}, testLine) {
		require.NoError(t, err)
		break // the sequence stops when its reader does
	}
}

// TestManyLinesTakeNoMemory reads a file that is made as it is read.
func TestManyLinesTakeNoMemory(t *testing.T) {
	const lines = 200_000
	out, in := io.Pipe()
	go func() {
		var b bytes.Buffer
		for i := range lines {
			fmt.Fprintf(&b, `{"payload":{"service":%d},"rollback_payload":{"zone":"a"},"key":"s-%d"}`+"\n", i, i)
			if b.Len() > 1<<16 {
				in.Write(b.Bytes()) //nolint:errcheck // the reader says
				b.Reset()
			}
		}
		in.Write(b.Bytes()) //nolint:errcheck // the reader says
		in.Close()
	}()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	n, start := 0, time.Now()
	for _, err := range readRequests(out, "f", store.EnqueueRequest{Type: "move"}, testLine) {
		require.NoError(t, err)
		n++
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Equal(t, lines, n)
	require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(8<<20))
	t.Logf("%d lines in %s", n, time.Since(start))
}

func FuzzReadRequests(f *testing.F) {
	f.Add([]byte(`{"payload": {"service": 7}, "run_at": "2026-11-20T08:00:00Z"}` + "\n{}"))
	f.Add([]byte(`{"labels": {"a": "b"}, "priority": 3}` + "\r\n\n[1]"))
	f.Add([]byte(`{"payload": ["}", {"\\"": 1e3}] ,"rollback_payload":true}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		for r, err := range readRequests(bytes.NewReader(text), "f", store.EnqueueRequest{Type: "a"}, testLine) {
			if err != nil {
				require.ErrorAs(t, err, new(*store.InputError))
				require.Regexp(t, `^f:\d+:\d+: `, err.Error())
				continue
			}
			require.NoError(t, r.Check())
		}
		if bytes.ContainsAny(text, "\r\n") {
			return
		}
		for r, err := range readRequests(bytes.NewReader(text), "f", store.EnqueueRequest{Type: "a"}, testLine) {
			if err != nil {
				continue
			}
			var want struct { // as another reads it
				Payload  json.RawMessage   `json:"payload"`
				Rollback json.RawMessage   `json:"rollback_payload"`
				Priority int               `json:"priority"`
				Key      string            `json:"key"`
				Labels   map[string]string `json:"labels"`
			}
			require.NoError(t, json.Unmarshal(bytes.TrimPrefix(text, []byte("\ufeff")), &want))
			got := []string{string(r.Payload), string(r.RollbackPayload), r.Key, fmt.Sprint(r.Priority, r.Labels)}
			null := func(doc json.RawMessage) string { return strings.TrimSuffix(string(doc), "null") }
			if null(want.Payload) == "" || null(want.Rollback) == "" {
				continue
			}
			require.Equal(t, []string{string(want.Payload), string(want.Rollback), want.Key, fmt.Sprint(want.Priority, want.Labels)}, got)
		}
	})
}
