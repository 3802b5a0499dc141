//go:build linux

package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/leasehold/leasehold/test/faults/history"
	"github.com/leasehold/leasehold/test/faults/script"
)

// What a request with several attempts may come to.
const (
	mostInOne   = 20                     // attempts in one request
	cutWithin   = 400 * time.Millisecond // until one with a deed that cuts its connection is cut
	arrayOneIn  = 4                      // of those that may: the response is an array, and not lines
	noneOneIn   = 6                      // of those that may: it is a 204
	splitOneIn  = 4                      // lines that come in two pieces
	betweenBits = 20 * time.Millisecond  // from one piece to the next, at most
)

// request is one with several attempts, as the endpoint sees it.
type request struct {
	*endpoint
	w      http.ResponseWriter
	calls  []*call
	cancel context.CancelFunc // of what its attempts do
	downs  int                // how often the endpoint had been taken down when it came

	mu     sync.Mutex
	chance *rand.Rand
	begun  bool     // the response has
	over   bool     // nothing is written any more
	array  bool     // the response is an array
	lines  []string // of it
	ended  map[*call]bool
}

// isMany reports whether a request is one with several attempts.
func isMany(r *http.Request) bool { return strings.HasPrefix(r.Header.Get("Webhook-Id"), "batch_") }

// readMany reads such a request.
func (e *endpoint) readMany(w http.ResponseWriter, r *http.Request, body []byte) (*request, error) {
	var all struct {
		Type string
		Data struct{ Tasks []script.Envelope }
	}
	if err := json.Unmarshal(body, &all); err != nil {
		return nil, err
	}
	if n := len(all.Data.Tasks); n == 0 || n > mostInOne || r.Header.Get("Leasehold-Task") != "" {
		return nil, fmt.Errorf("%d tasks in one request, with the header Leasehold-Task %q", n, r.Header.Get("Leasehold-Task"))
	}
	first := all.Data.Tasks[0].Task
	q := &request{
		endpoint: e, w: w, downs: e.taken(), ended: map[*call]bool{}, chance: rand.New(rand.NewPCG(uint64(first.ID), uint64(first.Fence))),
	}
	ctx, cancel := context.WithCancel(r.Context())
	q.cancel = cancel
	for _, of := range all.Data.Tasks {
		of.Type = all.Type
		c := &call{endpoint: e, envelope: of, who: strings.Trim(r.URL.Path, "/"), does: of.Does(), ctx: ctx, many: q}
		if !strings.HasPrefix(of.Task.WebhookID, fmt.Sprintf("task_%d", of.Task.ID)) || of.Task.Traceparent == "" {
			cancel()
			return nil, fmt.Errorf("task %d has webhook_id %q and traceparent %q", of.Task.ID, of.Task.WebhookID, of.Task.Traceparent)
		}
		if of.Task.Phase != first.Phase || slices.ContainsFunc(q.calls, func(o *call) bool { return o.envelope.Task.ID == of.Task.ID }) {
			cancel()
			return nil, errors.New("a request has a task twice, or several phases")
		}
		q.calls = append(q.calls, c)
	}
	return q, nil
}

// serveMany answers a request with several attempts.
func (e *endpoint) serveMany(w http.ResponseWriter, r *http.Request, body []byte) {
	q, err := e.readMany(w, r, body)
	if err != nil {
		e.wrong(err)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	defer q.cancel()
	for _, c := range q.calls {
		c.report(history.Start, fmt.Sprintf("%d in %.14s", len(q.calls), r.Header.Get("Webhook-Id")))
	}
	over := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-r.Context().Done():
			q.gone()
		case <-over:
		}
	})
	q.run()
	q.finish()
	close(over)
	watching.Wait()
}

// has reports whether an attempt of the request does that.
func (q *request) has(deed script.Deed) bool {
	return slices.ContainsFunc(q.calls, func(c *call) bool { return c.does == deed })
}

// only reports whether all of its attempts do one of these.
func (q *request) only(deeds ...script.Deed) bool {
	return !slices.ContainsFunc(q.calls, func(c *call) bool { return !slices.Contains(deeds, c.does) })
}

// run has the request's attempts do what they do, side by side, or none of them.
func (q *request) run() {
	guarded := q.kinds[q.calls[0].envelope.Type].Guard != ""
	switch {
	case q.has(script.Poison):
		q.refuse(http.StatusInternalServerError)
		return
	case q.has(script.Busy):
		q.refuse([]int{http.StatusServiceUnavailable, http.StatusTooManyRequests}[q.chance.IntN(2)])
		return
	case q.only(script.OK) && !guarded && q.chance.IntN(noneOneIn) == 0:
		q.allDone()
		return
	}
	q.array = q.only(script.OK, script.Fail, script.Reject, script.Later, script.Mute) && q.chance.IntN(arrayOneIn) == 0
	cuts := q.has(script.Cut) || q.has(script.Torn)
	after := upTo(q.chance, cutWithin)
	var all sync.WaitGroup
	for _, c := range q.calls {
		if c.does != script.Cut && c.does != script.Torn {
			all.Go(c.run)
		}
	}
	if cuts && q.calls[0].wait(after) {
		q.cut(q.has(script.Torn))
	}
	all.Wait()
}

// allDone says that all have succeeded, without a line.
func (q *request) allDone() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, c := range q.calls {
		q.ended[c] = true
		c.report(history.End, "succeeded")
	}
	q.begun = true
	q.w.WriteHeader(http.StatusNoContent)
}

// refuse answers the whole request with that status.
func (q *request) refuse(status int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.over, q.begun = true, true
	if status == http.StatusInternalServerError {
		q.spare("failed")
	} else {
		for _, c := range q.calls {
			q.ended[c] = true
			c.report(history.End, "deferred")
		}
	}
	q.w.WriteHeader(status)
}

// spare notes that the request ends without a line of those of its attempts that have not ended: nothing is charged to them, unless
// the request has only one. how is how they end. q.mu is held.
func (q *request) spare(how string) {
	for _, c := range q.calls {
		switch {
		case q.ended[c]:
		case len(q.calls) > 1:
			c.report(history.Spared, how)
		default:
			c.report(history.End, how)
		}
		q.ended[c] = true
	}
}

// cut cuts the connection, half-way through a line if torn.
func (q *request) cut(torn bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.over {
		return
	}
	q.spare(history.CutOff)
	q.over = true
	if torn {
		q.begin()
		_, _ = io.WriteString(q.w, fmt.Sprintf(`{"id": %d, "result": {"id"`, q.calls[0].envelope.Task.ID)) // it may be gone
		_ = http.NewResponseController(q.w).Flush()
	}
	if conn, _, err := http.NewResponseController(q.w).Hijack(); err == nil {
		_ = conn.Close()
	}
	q.cancel()
}

// gone notes that the connection has ended.
func (q *request) gone() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.over {
		return
	}
	q.over = true
	if q.taken() > q.downs { // the endpoint has cut it
		q.spare(history.CutOff)
	}
	for _, c := range q.calls {
		if !q.ended[c] {
			q.ended[c] = true
			c.report(history.Gone, "")
		}
	}
}

// finish ends the response well.
func (q *request) finish() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.over {
		return
	}
	if q.array {
		q.w.Header().Set("Content-Type", "application/json")
		q.begun = true
		q.write("[" + strings.Join(q.lines, ",") + "]")
	}
	for _, c := range q.calls {
		if !q.ended[c] {
			q.ended[c] = true
			c.report(history.End, history.CutOff) // it has no line
		}
	}
	q.begin()
	q.over = true
}

// begin begins a response of lines. q.mu is held.
func (q *request) begin() {
	if !q.begun {
		q.begun = true
		q.w.Header().Set("Content-Type", "application/x-ndjson")
		q.w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(q.w).Flush() // it may be gone
	}
}

// write writes text, now and then in two pieces. q.mu is held.
func (q *request) write(text string) {
	if q.chance.IntN(splitOneIn) == 0 {
		half := q.chance.IntN(len(text))
		_, _ = io.WriteString(q.w, text[:half])
		_ = http.NewResponseController(q.w).Flush()
		timer := time.NewTimer(upTo(q.chance, betweenBits))
		<-timer.C
		text = text[half:]
	}
	_, _ = io.WriteString(q.w, text) // it may be gone
	_ = http.NewResponseController(q.w).Flush()
}

// say writes a line that ends nothing, and reports whether that was possible.
func (q *request) say(line string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.over || q.array {
		return false
	}
	q.begin()
	q.write(line + "\n")
	return true
}

// end writes an attempt's last line.
func (q *request) end(c *call, how, line string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.over {
		return
	}
	q.ended[c] = true
	c.report(history.End, how)
	if q.array {
		q.lines = append(q.lines, line)
		return
	}
	q.begin()
	q.write(line + "\n")
	if c.does == script.Twice {
		q.write(fmt.Sprintf("{\"id\": %d, \"error\": %q}\n", c.envelope.Task.ID, c.envelope.Failure("the second")))
	}
}

// lineOf is the last line of an attempt of a request with several, for what it would have answered in one of its own.
func (c *call) lineOf(how string, status int, body string) string {
	end := `"result": ` + body
	switch status {
	case http.StatusInternalServerError:
		end = fmt.Sprintf(`"error": %q`, c.envelope.Failure(how))
	case http.StatusUnprocessableEntity:
		end = fmt.Sprintf(`"error": %q, "retryable": false`, c.envelope.Failure(how))
	case http.StatusTooManyRequests:
		end = `"deferred": {"retry_after_s": 0.05}`
	case http.StatusConflict:
		end = `"stale": true`
	}
	return fmt.Sprintf(`{"id": %d, %s}`, c.envelope.Task.ID, end)
}

// stray writes lines that are of no attempt of the request.
func (c *call) stray() {
	for _, line := range []string{
		"", "done", `{"id": 9007199254740993, "result": 1}`, `{"result": 1}`, "[]", "\xff\x00",
	} {
		if !c.many.say(line) {
			return
		}
	}
}

// manyScript lists how attempts of requests with several fail, how they end well, and how they never do.
func manyScript() (bad, end, never []script.Deed) {
	bad = []script.Deed{
		script.Fail, script.Later, script.Cut, script.Hang, script.Late, script.PingOn, script.Forge, script.Poison, script.Busy, script.Mute,
		script.Torn,
	}
	end = []script.Deed{script.OK, script.OK, script.OK, script.OK, script.Work, script.Stray, script.Twice}
	return bad, end, []script.Deed{script.Reject, script.Fail, script.Poison}
}
