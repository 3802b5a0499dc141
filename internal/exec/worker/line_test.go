package worker

import (
	"bufio"
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/exec/answer"
	"github.com/leasehold/leasehold/internal/exec/envelope"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// row is the task of these tests.
func row() *task.Task {
	return &task.Task{ID: 4211, Fence: 9, State: task.StateRunning, Type: "invoice.send", Attempt: 1, Payload: json.RawMessage(`{"invoice": 7}`)}
}

func TestRequestIsOneLine(t *testing.T) {
	r := row()
	r.Payload = json.RawMessage("{\n\t\"text\":\r\n \"a\u2028b\u2029c\\nd\u0085\"}")
	r.Labels = json.RawMessage("{\n}")
	r.Traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	line, err := Request(&envelope.Envelope{Task: r, Phase: task.Run, Type: "invoice.send", MaxAttempts: 3, Now: time.Unix(0, 0)})
	require.NoError(t, err)
	require.Equal(t, len(line)-1, bytes.IndexAny(line, "\n\r\u2028\u2029"), "%s", line)
	var doc struct {
		Data map[string]string
		Task struct {
			ID, Fence   int64
			Traceparent string
		}
	}
	require.NoError(t, json.Unmarshal(line, &doc))
	require.Equal(t, "a\u2028b\u2029c\nd\u0085", doc.Data["text"])
	require.EqualValues(t, 4211, doc.Task.ID)
	require.EqualValues(t, 9, doc.Task.Fence)
	require.True(t, strings.HasPrefix(doc.Task.Traceparent, "00-0af7651916cd43dd8448eb211c80319c-"), doc.Task.Traceparent)
	require.NotContains(t, doc.Task.Traceparent, "b7ad6b7169203331", "the attempt is a child of the row's span")

	r.Payload = json.RawMessage(`{`)
	_, err = Request(&envelope.Envelope{Task: r, Phase: task.Run})
	require.ErrorContains(t, err, "the payload of task 4211 is not JSON")
}

// of is a line that names the attempt of these tests.
func of(l Line) Line {
	l.ID, l.Fence, l.Named = 4211, 9, true
	return l
}

func over(o task.Outcome) Line { return of(Line{Kind: Last, Outcome: o}) }

func TestParse(t *testing.T) {
	long := strings.Repeat("a", task.MaxResult)
	for line, want := range map[string]Line{
		"":                              {},
		"  \r":                          {},
		`{"ready": true}`:               {Kind: Ready},
		`{"ready": true, "pid": 1}`:     {Kind: Ready},
		`{"ready": false}`:              {Kind: Ping},
		`{}`:                            {Kind: Ping},
		`{"progress": 0.40}`:            {Kind: Ping, Ping: store.Ping{Progress: json.RawMessage("0.4")}},
		`{"message": "page 4"}`:         {Kind: Ping, Ping: store.Ping{Message: "page 4"}},
		`{"next_within_s": 60}`:         {Kind: Ping, Ping: store.Ping{NextWithin: time.Minute}},
		`{"error": null, "progress":1}`: {Kind: Ping, Ping: store.Ping{Progress: json.RawMessage("1")}},
		`{"stale": false}`:              {Kind: Ping},
		`{"id": 4211, "fence": 9, "checkpoint": {"page": 4}}`: of(Line{Kind: Ping, Ping: store.Ping{Checkpoint: json.RawMessage(`{"page":4}`)}}),

		`{"id": 4211, "fence": 9, "result": {"file": "a.png"}}`:                       over(task.Outcome{Verdict: task.Succeeded, Result: json.RawMessage(`{"file": "a.png"}`)}),
		`{"id": 4211, "fence": 9, "result": null}`:                                    over(task.Outcome{Verdict: task.Succeeded}),
		`{"id": 4211, "fence": 9, "result": false}`:                                   over(task.Outcome{Verdict: task.Succeeded, Result: json.RawMessage("false")}),
		`{"id": 4211, "fence": 9, "result": "` + long + `"}`:                          over(task.Outcome{Verdict: task.Succeeded, Note: "result not kept: it has 65538 bytes, and the limit is 65536"}),
		`{"id":4211,"fence":9,"result":1,"error":null,"stale":false,"deferred":null}`: over(task.Outcome{Verdict: task.Succeeded, Result: json.RawMessage("1")}),
		`{"id": 4211, "fence": 9, "error": "no such invoice"}`:                        over(task.Outcome{Verdict: task.Failed, Error: "no such invoice"}),
		`{"id": 4211, "fence": 9, "error": "no such invoice", "result": null, "retryable": false}`: over(task.Outcome{
			Verdict: task.Rejected, Error: "no such invoice",
		}),
		`{"id": 4211, "fence": 9, "error": ""}`:                         over(task.Outcome{Verdict: task.Failed, Error: "the worker ended the attempt with an error that it did not name"}),
		`{"id": 4211, "fence": 9, "error": {"code": 5}}`:                over(task.Outcome{Verdict: task.Failed, Error: `{"code": 5}`}),
		`{"id": 4211, "fence": 9, "deferred": {"retry_after_s": 30}}`:   over(task.Outcome{Verdict: task.Deferred, RetryAfter: 30 * time.Second, Error: "the worker deferred it"}),
		`{"id": 4211, "fence": 9, "deferred": {"retry_after_s": 1e99}}`: over(task.Outcome{Verdict: task.Deferred, RetryAfter: answer.MaxRetryAfter, Error: "the worker deferred it"}),
		`{"id": 4211, "fence": 9, "deferred": {}}`:                      over(task.Outcome{Verdict: task.Deferred, Error: "the worker deferred it"}),
		`{"id": 4211, "fence": 9, "deferred": true}`:                    over(task.Outcome{Verdict: task.Deferred, Error: "the worker deferred it"}),
		`{"id": 4211, "fence": 9, "stale": true}`:                       over(task.Outcome{Verdict: task.Superseded, EndUnknown: true, Error: "the application knows a newer attempt"}),
	} {
		got, err := Parse([]byte(line))
		require.NoError(t, err, "%.100s", line)
		require.Equal(t, want, got, "%.100s", line)
	}
}

func TestParseRefuses(t *testing.T) {
	for line, want := range map[string]Error{
		"starting up":                                             {Reason: `the line is not valid JSON: invalid character 's' looking for beginning of value; a line on descriptor 3 is a JSON object, as {"progress": 0.4} or {"id": 4211, "fence": 9, "result": …}`},
		"0.4":                                                     {Reason: `the line is not a JSON object; a line on descriptor 3 is a JSON object, as {"progress": 0.4} or {"id": 4211, "fence": 9, "result": …}`},
		`{"progress": 7}`:                                         {Reason: `progress is 7, but a number must be from 0 to 1: write {"done": …, "total": …} or a string for anything else`},
		`{"id": 4211, "progress": 0.4}`:                           {Reason: `a line that names id or fence must name both, as {"id": 4211, "fence": 9, "result": …}`},
		`{"result": 5}`:                                           {Reason: `the last line of an attempt must repeat the envelope's id and fence, as {"id": 4211, "fence": 9, "result": …}`, Last: true},
		`{"id": 4211, "error": "x"}`:                              {Reason: `a line that names id or fence must name both, as {"id": 4211, "fence": 9, "result": …}`, Last: true},
		`{"id":"4211","fence":9,"result":1}`:                      {Reason: `id is "4211"; repeat the number of the envelope's task, digit by digit`, Last: true},
		`{"id":4.211e3,"fence":9,"result":1}`:                     {Reason: `id is 4.211e3; repeat the number of the envelope's task, digit by digit`, Last: true},
		`{"id":4211,"fence":9,"result":1,"error":"x"}`:            {Reason: `the last line has both result and error; write one of them`, Last: true},
		`{"id":4211,"fence":9,"error":"x","retryable":"no"}`:      {Reason: `retryable must be true or false`, Last: true},
		`{"id":4211,"fence":9,"stale":"yes"}`:                     {Reason: `stale must be true`, Last: true},
		`{"id":4211,"fence":9,"deferred":30}`:                     {Reason: `deferred must be true, or an object as {"retry_after_s": 30}`, Last: true},
		`{"id":4211,"fence":9,"deferred":{"retry_after_s":"30"}}`: {Reason: `retry_after_s is no number of seconds; deferred must be true, or an object as {"retry_after_s": 30}`, Last: true},
	} {
		_, err := Parse([]byte(line))
		var got *Error
		require.ErrorAs(t, err, &got, line)
		want.Line = line
		require.Equal(t, want, *got, line)
		require.Contains(t, err.Error(), line)
	}
}

func TestLineOf(t *testing.T) {
	unnamed, named := Line{Kind: Ping}, of(Line{Kind: Ping})
	require.True(t, unnamed.Of(5, 5))
	require.True(t, named.Of(4211, 9))
	require.False(t, named.Of(4211, 8))
	require.False(t, named.Of(4212, 9))
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", "{}", "null", "0.4", `{"ready": true}`, `{"progress": {"done": 4, "total": 10}, "id": 1, "fence": 2}`,
		`{"id": 4211, "fence": 9, "result": {"a": "\u0000\ud800", "b": 1e9999}}`, `{"id": 4211, "fence": 9, "error": "\u0000", "retryable": false}`,
		`{"id": 4211, "fence": 9, "deferred": {"retry_after_s": 1e-9}}`, `{"id": 4211, "fence": 9, "stale": true}`,
		`{"id": 9223372036854775808, "fence": -1, "result": ` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		l, err := Parse(line)
		if err != nil {
			var e *Error
			require.ErrorAs(t, err, &e)
			require.NotEmpty(t, e.Reason)
			require.LessOrEqual(t, len(e.Error()), 3*answer.MaxLine)
			require.NotContains(t, e.Error(), "\n")
			require.Equal(t, Line{}, l, "what is refused has no meaning")
			return
		}
		switch l.Kind {
		case Last:
			require.True(t, l.Named, "no attempt is ended by a line that does not name it")
			require.NotEmpty(t, l.Outcome.Verdict)
			require.LessOrEqual(t, len(l.Outcome.Result), task.MaxResult)
			require.True(t, l.Outcome.Result == nil || answer.Storable(l.Outcome.Result))
			require.LessOrEqual(t, len(l.Outcome.Error), task.MaxError)
			require.NotContains(t, l.Outcome.Error, "\x00")
			require.GreaterOrEqual(t, l.Outcome.RetryAfter, time.Duration(0))
			require.LessOrEqual(t, l.Outcome.RetryAfter, answer.MaxRetryAfter)
		default:
			require.Zero(t, l.Outcome, "only a last line ends an attempt")
		}
	})
}

// FuzzRequest writes payloads as they may be in a row, and reads the line as a worker does.
func FuzzRequest(f *testing.F) {
	f.Add([]byte("{\n\"a\": \"\u2028\"}"))
	f.Add([]byte("\"a\xe2\x80\xa8\xff\""))
	f.Fuzz(func(t *testing.T, payload []byte) {
		r := row()
		r.Payload = payload
		line, err := Request(&envelope.Envelope{Task: r, Phase: task.Run, Type: r.Type, Now: time.Unix(0, 0)})
		if err != nil {
			require.False(t, json.Valid(payload))
			return
		}
		lines := bufio.NewScanner(bytes.NewReader(line))
		lines.Buffer(nil, len(line)+1)
		require.True(t, lines.Scan())
		var doc struct{ Data any }
		require.NoError(t, decode(lines.Bytes(), &doc))
		require.False(t, lines.Scan(), "one line")
		require.NotContains(t, string(line), "\u2028")
		var want any
		require.NoError(t, decode(payload, &want))
		require.Equal(t, want, doc.Data)
	})
}

// decode reads JSON with numbers of any size.
func decode(doc []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	return d.Decode(to)
}
