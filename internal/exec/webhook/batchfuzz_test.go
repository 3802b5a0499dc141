package webhook

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/exec/exectest"
	"github.com/leasehold/leasehold/internal/exec/ping"
	"github.com/leasehold/leasehold/internal/task"
)

// readBatch reads a body as the response to a batch with the tasks 1 to 3, and returns their outcomes.
func readBatch(t *testing.T, body io.Reader, media string, length int64) []task.Outcome {
	t.Helper()
	ls := leases(t, 3, exectest.Attempt{})
	got := make([]task.Outcome, len(ls))
	times := make([]int, len(ls))
	w := batched("http://127.0.0.1:1/")
	b := &batch{
		typ: declared(w), target: w, log: slog.New(slog.DiscardHandler), byID: map[task.ID]*entry{}, sent: true,
		ended: func(i int, o task.Outcome) {
			got[i] = o
			times[i]++
		},
	}
	c := quiet(t)
	require.NotNil(t, b.message(c, ls))
	b.ctx, b.cancel = t.Context(), func() {}
	b.read(&http.Response{
		StatusCode: http.StatusOK, ContentLength: length, Header: http.Header{"Content-Type": {media}}, Body: io.NopCloser(body),
	})
	require.Equal(t, []int{1, 1, 1}, times, "each ends once")
	return got
}

// FuzzBatchLines reads a response of lines or an array: it says the same in one piece and in many, each task ends once, and an array
// says what its elements say as lines.
func FuzzBatchLines(f *testing.F) {
	for _, s := range []string{
		`{"id":1,"result":{"a":[1,"]"]}}` + "\n" + `{"id":2,"error":"x","retryable":false}` + "\n" + `{"id":3,"deferred":true}`,
		`[{"id":1,"result":"\"],[{"},{"id":3,"stale":true} , {"id":2,"progress":0.5},{"id":2,"result":null}]`,
		"[", "[]", "[,]", "[[{\"id\":1,\"result\":1}]]", "[1 2]", "[\"\\\\\",{\"id\":1,\"result\":1}]]", " \n[{\"id\":1,\"result\":1}] trailing",
		"{\"id\":1}\n{\"id\":1,\"result\":1,\"error\":\"both\"}\n", "\n\n{\"id\":2,\"fence\":9,\"result\":[]}\r\n{\"id\":2,\"fence\":8,\"result\":1}",
		"{\"id\":1,\"result\":" + strings.Repeat(" ", 5000) + "7}", "[{\"id\":3,\"error\":null,\"result\":\"\\ud800\"}", "204", `{"ok":true}`,
	} {
		f.Add([]byte(s), []byte{3, 1, 7}, true)
		f.Add([]byte(s), []byte{0}, false)
	}
	f.Fuzz(func(t *testing.T, body, cuts []byte, lines bool) {
		media := "application/json"
		if lines {
			media = ndjsonType
		}
		whole := readBatch(t, bytes.NewReader(body), media, int64(len(body)))
		require.Equal(t, whole, readBatch(t, &piecewise{text: bytes.Clone(body), cuts: cuts, end: io.EOF}, media, int64(len(body))))
		if lines {
			return
		}
		var all []json.RawMessage
		if json.Unmarshal(body, &all) != nil || all == nil {
			return
		}
		var text bytes.Buffer
		for _, one := range all {
			require.NoError(t, json.Compact(&text, one))
			text.WriteByte('\n')
		}
		if len(body) < maxLine { // else white space may have made an element too long
			require.Equal(t, readBatch(t, &text, ndjsonType, 1), whole)
		}
	})
}

// FuzzElements cuts an array into its elements, in pieces: they are what encoding/json finds.
func FuzzElements(f *testing.F) {
	for _, s := range []string{"[]", "[1]", "[1, 2]", `["a,]\"", {"a": [1, "]"]}, [[]], null]`, "[\"\\\\\"]"} {
		f.Add([]byte(s), byte(1))
	}
	f.Fuzz(func(t *testing.T, doc []byte, size byte) {
		var want []json.RawMessage
		trimmed := bytes.TrimSpace(doc)
		if json.Unmarshal(doc, &want) != nil || want == nil {
			return
		}
		e := elements{most: 1 << 20}
		var got []json.RawMessage
		for rest := trimmed[1:]; len(rest) > 0; {
			n := min(int(size)%64+1, len(rest))
			e.Add(rest[:n], func(element []byte) {
				if !blank(element) {
					got = append(got, bytes.Clone(bytes.TrimSpace(element)))
				}
			})
			rest = rest[n:]
		}
		require.True(t, e.Ended(false))
		require.Len(t, got, len(want))
		for i := range want {
			require.Equal(t, string(want[i]), string(got[i]))
		}
	})
}

// A line that is too long is dropped, and so is an element; those around it count.
func TestBatchDropsWhatIsTooLong(t *testing.T) {
	long := `{"id":2,"result":"` + strings.Repeat("x", maxLine) + `"}`
	for _, form := range []struct{ media, open, between, end string }{{ndjsonType, "", "\n", "\n"}, {"application/json", "[", ",", "]"}} {
		body := form.open + strings.Join([]string{`{"id":1,"result":1}`, long, `{"id":3,"result":1}`}, form.between) + form.end
		got := readBatch(t, strings.NewReader(body), form.media, int64(len(body)))
		require.Equal(t, task.Succeeded, got[0].Verdict)
		require.Equal(t, task.Failed, got[1].Verdict)
		require.Equal(t, task.Succeeded, got[2].Verdict)
	}
	require.Greater(t, maxLine, ping.MaxBody)
}

// What is of no use has a limit, however fast it comes: then the response is cut off.
func TestBatchOfTooMuchNoise(t *testing.T) {
	for name, noise := range map[string]string{"no JSON": strings.Repeat(strings.Repeat("x", 1000)+"\n", 17<<10), "blank": strings.Repeat(strings.Repeat(" ", 1000)+"\n", 17<<10)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // its clock stands still while lines are read, so nothing slows them down
				body := strings.NewReader(`{"id":1,"result":1}` + "\n" + noise + `{"id":2,"result":1}` + "\n")
				got := readBatch(t, body, ndjsonType, body.Size())
				require.Equal(t, task.Succeeded, got[0].Verdict)
				for _, o := range got[1:] {
					require.Equal(t, task.Drained, o.Verdict)
					require.True(t, o.Shared)
					require.Contains(t, o.Error, "more than 16777216 bytes")
				}
			})
		})
	}
}
