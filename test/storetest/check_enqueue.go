package storetest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func enqueueChecks() []Check {
	return []Check{
		{"every column", enqueueColumns},
		{"defaults", enqueueDefaults},
		{"when it is due", enqueueDue},
		{"a key is live once", enqueueKey},
		{"a key is free again when its task is finished", enqueueKeyFree},
		{"a key stays while its task waits again", enqueueKeyHeld},
		{"plain INSERT of a key that is live", insertKey},
		{"bad values are refused", enqueueBad},
		{"plain INSERT of bad values is refused", insertBad},
		{"the limits themselves are allowed", enqueueLimits},
		{"payloads come back as they were", enqueuePayloads},
		{"ids rise", enqueueIDs},
	}
}

// ways are the three ways to enqueue a row.
func (r *rig) ways() map[string]func(store.EnqueueRequest) task.ID {
	return map[string]func(store.EnqueueRequest) task.ID{
		"INSERT": func(q store.EnqueueRequest) task.ID { r.t.Helper(); return r.Insert(r.t, q)[0] },
		"SQL":    func(q store.EnqueueRequest) task.ID { r.t.Helper(); return r.EnqueueSQL(r.t, q) },
		"Go":     func(q store.EnqueueRequest) task.ID { r.t.Helper(); return r.enqueue(q, true) },
	}
}

// enqueue enqueues by Go and asserts whether the row is new.
func (r *rig) enqueue(q store.EnqueueRequest, isNew bool) task.ID {
	r.t.Helper()
	id, answer, err := r.Enqueue(r.ctx, q)
	require.NoError(r.t, err)
	require.Equal(r.t, map[bool]store.Enqueued{true: store.EnqueuedInserted, false: store.EnqueuedKept}[isNew], answer)
	require.Positive(r.t, id)
	return id
}

func enqueueColumns(t testing.TB, h Harness) {
	r := newRig(t, h)
	for name, add := range r.ways() {
		q := full(r.now())
		q.Key = "by " + name
		q.Labels["way"] = name
		got := r.get(add(q))
		require.Equal(t, kind, got.Type, name)
		require.Equal(t, task.StatePending, got.State, name)
		require.Equal(t, 3, got.Priority, name)
		require.Equal(t, "sg", got.Region, name)
		require.Equal(t, "by "+name, got.Key, name)
		require.JSONEq(t, `{"tenant":"acme","way":"`+name+`"}`, string(got.Labels), name)
		require.JSONEq(t, `{"invoice":7}`, string(got.Payload), name)
		require.Equal(t, 4, got.MaxAttempts, name)
		require.Equal(t, q.Traceparent, got.Traceparent, name)
		require.Equal(t, "suite", got.CreatedBy, name)
		require.WithinDuration(t, q.RunAt, got.RunAt, time.Millisecond, name)
		near(t, r.now(), got.CreatedAt)
	}
}

func enqueueDefaults(t testing.TB, h Harness) {
	r := newRig(t, h)
	for name, add := range r.ways() {
		got := r.get(add(store.EnqueueRequest{Type: kind}))
		require.Equal(t, kind, got.Type, name)
		require.Equal(t, task.StatePending, got.State, name)
		require.Zero(t, got.Priority, name)
		require.Empty(t, got.Region, name)
		require.Empty(t, got.Key, name)
		require.Nil(t, got.Labels, name)
		require.JSONEq(t, `{}`, string(got.Payload), name)
		require.Zero(t, got.MaxAttempts, name)
		require.Empty(t, got.Traceparent, name)
		require.Empty(t, got.Outcome, name)
		require.Empty(t, got.Error, name)
		require.Nil(t, got.Result, name)
		require.Nil(t, got.Deadline, name)
		require.Zero(t, got.Attempt, name)
		require.Zero(t, got.Deferrals, name)
		require.False(t, got.EverStarted, name)
		require.Zero(t, got.Fence, name)
		near(t, r.now(), got.CreatedAt)
		near(t, r.now(), got.RunAt)
	}
	require.Len(t, r.claim(want(kind, 10)), 3, "all are due at once")
}

func enqueueDue(t testing.TB, h Harness) {
	r := newRig(t, h)
	at := r.now().Add(time.Hour)
	for name, add := range r.ways() {
		near(t, r.now().Add(30*time.Minute), r.get(add(store.EnqueueRequest{Type: kind, In: 30 * time.Minute})).RunAt)
		got := r.get(add(store.EnqueueRequest{Type: kind, RunAt: at})).RunAt
		require.WithinDuration(t, at, got, time.Millisecond, name)
		elsewhere := at.In(time.FixedZone("", 8*60*60))
		got = r.get(add(store.EnqueueRequest{Type: kind, RunAt: elsewhere})).RunAt
		require.WithinDuration(t, at, got, time.Millisecond, "%s, in another zone", name)
	}
}

func enqueueKey(t testing.TB, h Harness) {
	r := newRig(t, h)
	q := store.EnqueueRequest{Type: kind, Key: "k", Payload: json.RawMessage(`{"n":1}`)}
	id := r.enqueue(q, true)
	q.Payload, q.Priority = json.RawMessage(`{"n":2}`), 5
	r.unchanged(id, func() {
		require.Equal(t, id, r.enqueue(q, false))
		require.Equal(t, id, r.EnqueueSQL(t, q))
	})
	other := r.enqueue(store.EnqueueRequest{Type: "b", Key: "k"}, true)
	require.NotEqual(t, id, other, "a key is its type's")
	require.NotEqual(t, id, r.enqueue(store.EnqueueRequest{Type: kind, Key: "K"}, true))
	first, second := r.enqueue(store.EnqueueRequest{Type: kind}, true), r.enqueue(store.EnqueueRequest{Type: kind}, true)
	require.NotEqual(t, first, second, "no key")
	require.Equal(t, []task.ID{id}, ids(r.claim(want(kind, 1))))
	require.Equal(t, id, r.enqueue(q, false), "while it runs")
	require.Equal(t, id, r.EnqueueSQL(t, q))
}

func enqueueKeyFree(t testing.TB, h Harness) {
	r := newRig(t, h)
	q := store.EnqueueRequest{Type: kind, Key: "k"}
	seen := map[task.ID]bool{}
	for name, add := range r.ways() {
		id := add(q)
		require.False(t, seen[id], name)
		seen[id] = true
		r.settled(finish(r.claim(want(kind, 1))[0]))
	}
	require.False(t, seen[r.enqueue(q, true)])
}

func enqueueKeyHeld(t testing.TB, h Harness) {
	r := newRig(t, h)
	q := store.EnqueueRequest{Type: kind, Key: "k"}
	id := r.enqueue(q, true)
	r.settled(retry(r.claim(want(kind, 1))[0], time.Hour))
	require.Equal(t, id, r.enqueue(q, false))
	require.Equal(t, id, r.EnqueueSQL(t, q))
}

func insertKey(t testing.TB, h Harness) {
	r := newRig(t, h)
	id := r.Insert(t, store.EnqueueRequest{Type: kind, Key: "k"})[0]
	require.NotEmpty(t, expect(t, func(t testing.TB) { r.Insert(t, store.EnqueueRequest{Type: kind, Key: "k"}) }))
	require.Equal(t, id, r.enqueue(store.EnqueueRequest{Type: kind, Key: "k"}, false))
	listed, err := r.List(r.ctx, store.TaskFilter{})
	require.NoError(t, err)
	require.Len(t, listed, 1)
}

// badRequests are refused, each for one reason.
func badRequests() map[string]store.EnqueueRequest {
	return map[string]store.EnqueueRequest{
		"no type":                {},
		"priority too high":      {Type: kind, Priority: 11},
		"priority too low":       {Type: kind, Priority: -11},
		"negative attempts":      {Type: kind, MaxAttempts: -1},
		"too many attempts":      {Type: kind, MaxAttempts: 1001},
		"payload not JSON":       {Type: kind, Payload: json.RawMessage(`{"open":`)},
		"two JSON values":        {Type: kind, Payload: json.RawMessage(`{} {}`)},
		"lock of over 1 KiB":     {Type: kind, Lock: strings.Repeat("x", 1025)},
		"sequence of over 1 KiB": {Type: kind, Sequence: strings.Repeat("x", 1025)},
		"tenant of over 1 KiB":   {Type: kind, Tenant: strings.Repeat("x", 1025)},
		"payload of over 1 MiB":  {Type: kind, Payload: document(1<<20 + 1)},
		"rollback payload too":   {Type: kind, RollbackPayload: document(1<<20 + 1)},
		"labels of over 4 KB":    {Type: kind, Labels: map[string]string{"long": strings.Repeat("x", 5<<10)}},
	}
}

// document is JSON of so many bytes that no store can make much shorter.
func document(size int) json.RawMessage {
	text := make([]byte, 0, size+32)
	for i := 0; len(text) < size-2; i++ {
		sum := sha256.Sum256([]byte(strconv.Itoa(i)))
		text = hex.AppendEncode(text, sum[:])
	}
	return json.RawMessage(`"` + string(text[:size-2]) + `"`)
}

func enqueueBad(t testing.TB, h Harness) {
	r := newRig(t, h)
	for name, q := range badRequests() {
		id, answer, err := r.Enqueue(r.ctx, q)
		var input *store.InputError
		require.ErrorAs(t, err, &input, name)
		require.NotEmpty(t, input.Text, name)
		require.Zero(t, id, name)
		require.Empty(t, answer, name)
	}
	r.nothing()
}

// nothing asserts that the store has no task.
func (r *rig) nothing() {
	r.t.Helper()
	listed, err := r.List(r.ctx, store.TaskFilter{})
	require.NoError(r.t, err)
	require.Empty(r.t, listed)
}

func insertBad(t testing.TB, h Harness) {
	r := newRig(t, h)
	for name, q := range badRequests() {
		refused := expect(t, func(t testing.TB) { r.Insert(t, q) })
		require.NotEmpty(t, refused, "INSERT: %s", name)
		refused = expect(t, func(t testing.TB) { r.EnqueueSQL(t, q) })
		require.NotEmpty(t, refused, "SQL enqueue: %s", name)
	}
	r.nothing()
}

func enqueueLimits(t testing.TB, h Harness) {
	r := newRig(t, h)
	for _, add := range r.ways() {
		for _, q := range []store.EnqueueRequest{
			{Type: kind, Priority: 10}, {Type: kind, Priority: -10},
			{Type: kind, MaxAttempts: 1}, {Type: kind, MaxAttempts: 1000}, {Type: kind, Lock: strings.Repeat("x", 1024)},
			{Type: kind, Sequence: strings.Repeat("x", 1024)},
			{Type: kind, Tenant: strings.Repeat("x", 1024)},
			{Type: kind, Labels: map[string]string{"long": strings.Repeat("x", 4000)}},
			{Type: kind, Labels: map[string]string{"": "", "ключ": "значение \"'\\"}},
		} {
			got := r.get(add(q))
			require.Equal(t, q.Priority, got.Priority)
			require.Equal(t, q.MaxAttempts, got.MaxAttempts)
			if q.Labels != nil {
				var labels map[string]string
				require.NoError(t, json.Unmarshal(got.Labels, &labels))
				require.Equal(t, q.Labels, labels)
			}
		}
	}
}

func enqueuePayloads(t testing.TB, h Harness) {
	r := newRig(t, h)
	big := `"` + strings.Repeat("0123456789abcdef", 60<<10) + `"` // nearly 1 MiB
	for _, payload := range []string{
		`{}`, `[]`, `"text"`, `0`, `true`, `{"a":null}`, `[1,[2,[3,{"four":[]}]]]`,
		`{"name":"Ærøskøbing 東京 🚲","quote":"\"'\\/\b\f\n\r\t","sql":"'; DROP TABLE task; --","html":"<b>&amp;"}`,
		`{"big":9007199254740993,"bigger":123456789012345678901234567890,"small":-0.1,"long":3.141592653589793238}`,
		`{"":{"":""}}`, `{"k":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`,
		`{"big":` + big + `}`,
	} {
		name := payload[:min(len(payload), 60)]
		for way, add := range r.ways() {
			id := add(store.EnqueueRequest{Type: kind, Payload: json.RawMessage(payload)})
			sameJSON(t, payload, r.get(id).Payload, "%s: %s", way, name)
			row := r.claim(want(kind, 1))[0]
			sameJSON(t, payload, row.Payload, "%s, claimed: %s", way, name)
			done := finish(row)
			done.Outcome.Result = json.RawMessage(payload)
			if len(payload) > task.MaxResult {
				done.Outcome.Result = nil
			}
			r.settled(done)
			got := r.get(id)
			sameJSON(t, payload, got.Payload, "%s, archived: %s", way, name)
			if done.Outcome.Result != nil {
				sameJSON(t, payload, got.Result, "%s, the result: %s", way, name)
			}
		}
	}
}

func enqueueIDs(t testing.TB, h Harness) {
	r := newRig(t, h)
	var last task.ID
	for range 3 {
		for name, add := range r.ways() {
			id := add(store.EnqueueRequest{Type: kind})
			require.Greater(t, id, last, name)
			last = id
		}
		r.settled(finish(r.claim(want(kind, 1))[0]))
	}
	rows := r.claim(want(kind, 10))
	for _, row := range rows {
		r.settled(finish(row))
	}
	r.Advance(t, 30*24*time.Hour)
	r.maintain(24 * time.Hour)
	require.Greater(t, r.enqueue(store.EnqueueRequest{Type: kind}, true), last, "an id is never used again")
}
