package ping

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Pings handles requests to ping URLs, of any attempt of the store, whichever session holds it.
type Pings interface {
	Ping(ctx context.Context, id task.ID, f task.Fence, p store.Ping) (store.PingReply, error)
	// Complete ends the task as succeeded, with that result (nil: none): Applied once that is committed, Ended where it
	// was so already, Lost or Busy.
	Complete(ctx context.Context, id task.ID, f task.Fence, result json.RawMessage) (store.Answer, error)
	// Fail ends the attempt as failed, or as rejected where it is not retryable. Its answers are those of Complete. An
	// *Error says that this attempt may not do so.
	Fail(ctx context.Context, id task.ID, f task.Fence, text string, retryable bool) (store.Answer, error)
}

// answerWithin bounds what one request may wait for the store.
const answerWithin = 10 * time.Second

// Handler answers ping URLs: Path and a token, and below that complete and fail. The token is all the authority that a
// request needs, and without a good one it learns nothing.
type Handler struct {
	signer func() *Signer
	pings  Pings
	log    *slog.Logger
}

// NewHandler makes a handler. signer gives nil while the store's secret is not known yet.
func NewHandler(signer func() *Signer, pings Pings, log *slog.Logger) *Handler {
	return &Handler{signer: signer, pings: pings, log: log}
}

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store") // a cache may not answer in the agent's place
	signer := h.signer()
	if signer == nil {
		unavailable(w, "the agent has not reached its store yet")
		return
	}
	token, action, deeper := strings.Cut(strings.TrimPrefix(r.URL.Path, Path), "/")
	id, f, ok := signer.Parse(token)
	known := !deeper || action == "complete" || action == "fail"
	if !ok || !known || r.URL.RawPath != "" { // a token needs no escapes
		problem(w, http.StatusNotFound, "there is no such ping URL")
		return
	}
	if r.Method != http.MethodPost && (deeper || r.Method != http.MethodGet) {
		allow := "GET, POST"
		if deeper {
			allow = "POST"
		}
		w.Header().Set("Allow", allow)
		problem(w, http.StatusMethodNotAllowed, "use "+strings.ReplaceAll(allow, ", ", " or "))
		return
	}
	var body []byte
	if r.Method == http.MethodPost {
		if body, ok = read(w, r); !ok {
			return
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerWithin)
	defer cancel()
	c := call{Handler: h, w: w, ctx: ctx, id: id, fence: f}
	switch action {
	case "complete":
		c.complete(body)
	case "fail":
		c.fail(body)
	default:
		c.ping(body)
	}
}

// read reads the body, or answers that it cannot.
func read(w http.ResponseWriter, r *http.Request) (body []byte, ok bool) {
	if r.ContentLength == 0 {
		return nil, true
	}
	if r.ContentLength > MaxBody {
		w.Header().Set("Connection", "close")
		refuse(w, tooLarge("the body", int(r.ContentLength), MaxBody))
		return nil, false
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if err == nil {
		return body, true
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		refuse(w, &Error{Reason: fmt.Sprintf("the body is longer than the limit of %d bytes", MaxBody), TooLarge: true})
		return nil, false
	}
	refuse(w, malformed("the body ended too early, or did not arrive in time"))
	return nil, false
}

// call is one request with a good token.
type call struct {
	*Handler
	w     http.ResponseWriter
	ctx   context.Context // of the request
	id    task.ID
	fence task.Fence
}

func (c *call) ping(body []byte) {
	p, err := Parse(body)
	if err != nil {
		refuse(c.w, err)
		return
	}
	reply, err := c.pings.Ping(c.ctx, c.id, c.fence, p)
	if c.settled(reply.Answer, err) {
		writeJSON(c.w, AppendReply(make([]byte, 0, 96), reply))
	}
}

func (c *call) complete(body []byte) {
	result, err := ParseResult(body)
	if err != nil {
		refuse(c.w, err)
		return
	}
	a, err := c.pings.Complete(c.ctx, c.id, c.fence, result)
	if c.settled(a, err) {
		writeJSON(c.w, []byte(`{"settled": true}`+"\n"))
	}
}

func (c *call) fail(body []byte) {
	end, err := ParseFailure(body)
	if err != nil {
		refuse(c.w, err)
		return
	}
	if end.Error == "" {
		end.Error = "the task reported a failure without an error"
	}
	a, err := c.pings.Fail(c.ctx, c.id, c.fence, end.Error, !end.Final)
	if c.settled(a, err) {
		writeJSON(c.w, []byte(`{"settled": true}`+"\n"))
	}
}

// settled reports whether it went well, and answers where it did not.
func (c *call) settled(a store.Answer, err error) bool {
	if _, ok := errors.AsType[*Error](err); ok {
		refuse(c.w, err)
		return false
	}
	switch {
	case err != nil:
		c.log.Debug("cannot accept a ping", "task", c.id, "fence", c.fence, "err", err)
		unavailable(c.w, "the store is out of reach: repeat the request")
	case a == store.Applied || a == store.Ended:
		return true
	case a == store.Lost:
		problem(c.w, http.StatusGone, fmt.Sprintf("task %d is not held with fence %d any more: stop, and commit nothing", c.id, c.fence))
	default:
		unavailable(c.w, "the row is busy: repeat the request")
	}
	return false
}

// AppendReply appends the response to a task's ping.
func AppendReply(b []byte, p store.PingReply) []byte {
	b = append(b, `{"counted": `...)
	b = strconv.AppendBool(b, p.Counted)
	b = append(b, `, "cancel": `...)
	b = strconv.AppendBool(b, p.Cancel)
	b = append(b, `, "remaining_s": `...)
	b = strconv.AppendFloat(b, max(p.Remaining, 0).Seconds(), 'f', 3, 64)
	if p.Reason != "" {
		b = append(b, `, "reason": `...)
		reason, err := json.Marshal(p.Reason)
		if err != nil {
			panic("a string always marshals: " + err.Error())
		}
		b = append(b, reason...)
	}
	return append(b, "}\n"...)
}

func writeJSON(w http.ResponseWriter, doc []byte) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(doc) // an error is the client's having gone away
}

// refuse says what was wrong with what was sent.
func refuse(w http.ResponseWriter, err error) {
	status := http.StatusBadRequest
	if e, ok := errors.AsType[*Error](err); ok && e.TooLarge {
		status = http.StatusRequestEntityTooLarge
	}
	problem(w, status, err.Error())
}

func unavailable(w http.ResponseWriter, detail string) {
	w.Header().Set("Retry-After", "1")
	problem(w, http.StatusServiceUnavailable, detail)
}

// problem answers with a problem document (RFC 9457).
func problem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(struct {
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{http.StatusText(status), status, detail})
}
