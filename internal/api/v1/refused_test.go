package v1

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// requests lists a request for each operation of the document, as method and path. The things that they name need not exist.
func (c *contract) requests() (all [][2]string) {
	for _, op := range c.operations() {
		method, template, _ := strings.Cut(op, " ")
		path := strings.ReplaceAll(template, "{kind}", "task")
		all = append(all, [2]string{method, regexp.MustCompile(`\{\w+\}`).ReplaceAllString(path, "1")})
	}
	return all
}

// TestNoOperationIsOpen sends each operation without the token, as a page of another site does, and by a name that was rebound.
func TestNoOperationIsOpen(t *testing.T) {
	far, near := serve(t, "geheim", true), serve(t, "", false)
	const token = "Authorization: Bearer geheim\r\n"
	for _, r := range far.contract.requests() {
		send := func(s *served, status int, host, header string) {
			t.Helper()
			resp, body := s.send(r[0] + " " + Prefix + r[1] + "?unheard-of=1 HTTP/1.1\r\nHost: " + host + "\r\nContent-Length: 0\r\n" + header + "\r\n")
			require.Equal(t, status, resp.StatusCode, "%v with %q: %s", r, header, body)
		}
		send(far, 400, "agent.example", token) // it is let in, and then the parameter is wrong
		send(far, 401, "agent.example", "")
		send(far, 401, "agent.example", "Authorization: Bearer geheim2\r\n")
		send(far, 403, "agent.example", token+"Sec-Fetch-Site: cross-site\r\n")
		send(near, 400, "localhost", "")
		send(near, 403, "localhost", "Sec-Fetch-Site: same-site\r\n")
		send(near, 403, "localhost", "Origin: http://evil.example\r\n")
		send(near, 403, "evil.example", "")
		send(near, 403, "localhost", "X-Forwarded-For: 1.2.3.4\r\n")
	}
}

// TestBodiesOfAllOperations sends each operation bodies that it must not take. A body of no known length is one, too.
func TestBodiesOfAllOperations(t *testing.T) {
	r := onSQLite(t)
	large := `{"requested_by": "` + strings.Repeat("x", maxVerb) + `"}`
	for _, op := range r.contract.requests() {
		method, path := op[0], op[1]
		ask := func(body string, header ...string) int {
			sized := r.ask(method, path, body, header...)
			req := httptest.NewRequestWithContext(t.Context(), method, "http://localhost"+Prefix+path, io.MultiReader(strings.NewReader(body)))
			req.Header.Set("Content-Type", "application/json")
			for i := 0; i < len(header); i += 2 {
				req.Header.Set(header[i], header[i+1])
			}
			require.EqualValues(t, -1, req.ContentLength)
			require.Equal(t, sized.status, r.raw(req).status, "%v: %s", op, sized.body)
			return sized.status
		}
		if method != http.MethodPost {
			if method != http.MethodDelete { // what it has is not read
				require.Equal(t, 400, ask(`{}`), op)
			}
			require.Equal(t, 400, ask("", idempotencyKey, "x"), op)
			continue
		}
		require.Equal(t, 415, ask(`{}`, "Content-Type", "text/plain"), op)
		if path == "/batches" { // its lines are in a file
			continue
		}
		require.Equal(t, 400, ask(`{"unheard-of": 1}`), op)
		require.Equal(t, 400, ask(`{`), op)
		if path != "/tasks" {
			require.Equal(t, 400, ask(`{}`, idempotencyKey, "x"), op)
			if path != "/tasks/1/retry" { // it may have a payload
				require.Equal(t, 413, ask(large), op)
			}
		}
	}
}

// TestNamesOfAllOperations asks for what no store can be asked for.
func TestNamesOfAllOperations(t *testing.T) {
	r := onSQLite(t)
	for _, op := range r.contract.operations() {
		method, template, _ := strings.Cut(op, " ")
		for _, name := range []string{"%00", "%ff", "a%00b"} {
			if path := regexp.MustCompile(`\{\w+\}`).ReplaceAllString(template, name); path != template {
				require.Equal(t, 400, r.ask(method, path, "").status, "%s %s", method, path)
			}
		}
	}
}

// TestAllOperationsWaitTheirTurn has others take all there is. What takes long has a place of its own instead of a turn.
func TestAllOperationsWaitTheirTurn(t *testing.T) {
	r := onSQLite(t)
	bodies := map[string]string{
		"/schedules/1/backfill": `{"from": "2026-11-01T00:00:00Z", "to": "2026-11-03T00:00:00Z"}`,
		"/orphans/1/move":       `{"into": "x"}`, "/tasks": `{"type": "x"}`, "/tasks/cancel": `{"type": "x"}`, "/tasks/retry": `{"type": "x"}`,
		"/tasks/rollback": `{"type": "x"}`, "/sequences/1/1/skip": `{"task_id": 1}`, "/batches": `{"type": "x"}`,
	}
	ask := func(op [2]string) answer {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		req := httptest.NewRequestWithContext(ctx, op[0], "http://localhost"+Prefix+op[1], http.NoBody)
		if body := bodies[op[1]]; body != "" && op[0] == http.MethodPost {
			req = httptest.NewRequestWithContext(ctx, op[0], "http://localhost"+Prefix+op[1], strings.NewReader(body))
			req.Header.Set("Content-Type", "application/json")
			if op[1] == "/batches" {
				req.Header.Set("Content-Type", "application/x-ndjson")
			}
		}
		return r.raw(req)
	}
	free := []string{"GET /openapi.json", "GET /events", "GET /doctor"} // the stream begins, and waits; the store is examined once for all
	require.NoError(t, r.api.bounds.calls.Acquire(t.Context(), mostCalls))
	require.NoError(t, r.api.bounds.long.Acquire(t.Context(), mostLong))
	for _, op := range r.contract.requests() {
		a := ask(op)
		if slices.Contains(free, op[0]+" "+op[1]) {
			require.Equal(t, 200, a.status, op)
			continue
		}
		require.Equal(t, 503, a.status, "%v: %s", op, a.body)
		require.Contains(t, a.body, "busy", op)
		require.Equal(t, "1", a.header.Get("Retry-After"), op)
	}
	r.api.bounds.calls.Release(mostCalls)
	r.api.bounds.long.Release(mostLong)
	require.NoError(t, r.api.bounds.requests.Acquire(t.Context(), mostRequests))
	for _, op := range r.contract.requests() {
		require.Equal(t, 503, ask(op).status, op)
	}
	r.api.bounds.requests.Release(mostRequests)
	for _, op := range r.contract.requests() { // nothing was kept
		ask(op)
	}
	b := &r.api.bounds
	require.True(t, b.requests.TryAcquire(mostRequests) && b.calls.TryAcquire(mostCalls) && b.waits.TryAcquire(mostWaits) &&
		b.streams.TryAcquire(mostStreams) && b.long.TryAcquire(mostLong) && b.counts.TryAcquire(mostCounts) && b.bodies.TryAcquire(mostBodies))
}
