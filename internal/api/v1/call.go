package v1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/semaphore"

	"github.com/leasehold/leasehold/internal/api"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// answered is what a handler returns that has answered by itself.
var answered = new(struct{ int }) //nolint:gochecknoglobals // a constant, by its address

// call is one request.
type call struct {
	api    *API
	w      http.ResponseWriter
	r      *http.Request
	ctx    context.Context
	query  *query
	status int // of the answer; 0: 200

	leave    func()   // gives back the request's place
	releases []func() // of what the request holds
	working  bool     // it has a turn in the store
}

// Headers that would mean something elsewhere, and are refused rather than ignored.
const idempotencyKey = "Idempotency-Key"

// check refuses what no route takes.
func (c *call) check() error {
	if c.r.Header.Get(idempotencyKey) != "" && (c.r.Method != http.MethodPost || c.r.URL.Path != Prefix+"/tasks") {
		return bad(http.StatusBadRequest, "%s is taken only with POST %s/tasks: see docs/api.md for what can be repeated", idempotencyKey, Prefix)
	}
	if c.r.Method == http.MethodGet || c.r.Method == http.MethodHead {
		if c.r.ContentLength != 0 {
			return bad(http.StatusBadRequest, "%s takes no body: use the query", c.r.Method)
		}
	}
	return nil
}

// work waits for a turn in the store, which ends with the request.
func (c *call) work() (Store, error) {
	if c.working {
		return c.api.Store, nil
	}
	done, err := c.api.bounds.turn(c.ctx)
	if err != nil {
		return nil, err
	}
	c.working, c.releases = true, append(c.releases, done)
	return c.api.Store, nil
}

// take takes a place that the request holds to its end; errBusy where there is none now.
func (c *call) take(places *semaphore.Weighted, n int64) error {
	if !places.TryAcquire(n) {
		return errBusy
	}
	c.releases = append(c.releases, func() { places.Release(n) })
	return nil
}

// release gives back what the request holds.
func (c *call) release() {
	for _, release := range c.releases {
		release()
	}
}

// writeMargin is how long the answer may take to be written, beyond what is done for it.
const writeMargin = 10 * time.Second

// longer gives the request another bound than requestTimeout, from now on.
func (c *call) longer(within time.Duration) {
	var cancel context.CancelFunc
	c.ctx, cancel = context.WithTimeout(c.r.Context(), within)
	c.releases = append(c.releases, cancel)
	control := http.NewResponseController(c.w)
	// Where deadlines cannot be moved, the listener's stay. That for reading bounds what is left of a body, too.
	_ = control.SetReadDeadline(time.Now().Add(within + writeMargin))
	_ = control.SetWriteDeadline(time.Now().Add(within + writeMargin))
}

// lasting gives the request another bound than requestTimeout, and returns what also ends when the request is admitted no more.
func (c *call) lasting(within time.Duration) (context.Context, context.CancelFunc) {
	c.longer(within)
	ctx, cancel := context.WithCancel(c.ctx)
	stop := context.AfterFunc(api.Admission(c.r.Context()), cancel)
	return ctx, func() { stop(); cancel() }
}

// named reads what a change of a named thing has, with those members of the body, and waits for a turn in the store.
func (c *call) named(param string, more members) (s Store, name, by string, err error) {
	if name, err = c.text(param); err != nil {
		return nil, "", "", err
	}
	if by, err = c.change(more); err != nil {
		return nil, "", "", err
	}
	s, err = c.work()
	return s, name, by, err
}

// Bounds of bodies.
const (
	maxTask = 8 << 20  // bytes: of a task to enqueue
	maxVerb = 16 << 10 // of all else
)

// body reads a JSON body of at most so many bytes; nil where there is none.
func (c *call) body(most int64) ([]byte, error) {
	if c.r.ContentLength == 0 {
		return nil, nil
	}
	if err := c.mediaType("application/json"); err != nil {
		return nil, err
	}
	tooLarge := bad(http.StatusRequestEntityTooLarge, "the body is larger than %s: put what is large elsewhere and enqueue its location",
		store.Size(most))
	if c.r.ContentLength > most {
		return nil, tooLarge
	}
	doc, err := io.ReadAll(&counted{call: c, from: http.MaxBytesReader(c.w, c.r.Body, most), room: bodyStep})
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, tooLarge
	}
	if errors.Is(err, errBusy) {
		return nil, err
	}
	if err != nil {
		return nil, bad(http.StatusBadRequest, "the body could not be read within the time for it")
	}
	if !utf8.Valid(doc) {
		return nil, bad(http.StatusBadRequest, "the body is not UTF-8")
	}
	return doc, nil
}

// bodyStep is how much of a body is counted at once, in bytes. What has not come is not counted, so that clients that send nothing keep no
// others out; nor is the first step, so that small bodies need no room beside large ones.
const bodyStep = 64 << 10

// counted is a body of which what was read counts for mostBodies.
type counted struct {
	call *call
	from io.Reader
	room int // that is counted, and not read yet
}

// Read reads on; errBusy where all bodies together are as large as they may be.
func (b *counted) Read(p []byte) (int, error) {
	if b.room == 0 {
		if err := b.call.take(b.call.api.bounds.bodies, bodyStep); err != nil {
			return 0, err
		}
		b.room = bodyStep
	}
	n, err := b.from.Read(p[:min(len(p), b.room)])
	b.room -= n
	return n, err
}

// mediaType refuses bodies of other types: a page in a browser can send some without a preflight.
func (c *call) mediaType(want string) error {
	if t, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type")); err != nil || t != want {
		return bad(http.StatusUnsupportedMediaType, "the body must be %s: set Content-Type", want)
	}
	return nil
}

// id reads the id in the path.
func (c *call) id(what string) (int64, error) {
	text := c.r.PathValue("id")
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || text[0] == '+' || text[0] == '0' {
		return 0, bad(http.StatusBadRequest, "invalid %s %s", what, api.Quote(text))
	}
	return n, nil
}

func (c *call) taskID() (task.ID, error) {
	n, err := c.id("task id")
	return task.ID(n), err
}

func (c *call) batchID() (task.BatchID, error) {
	n, err := c.id("batch id")
	return task.BatchID(n), err
}

// text reads a name of a path, which both stores can be asked for.
func (c *call) text(name string) (string, error) {
	text := c.r.PathValue(name)
	if !store.Storable(text) {
		return "", bad(http.StatusBadRequest, "the %s in the path is not UTF-8, or has a NUL", name)
	}
	return text, nil
}

// badRequest is a mistake in a request.
type badRequest struct {
	status int
	text   string
}

func (e *badRequest) Error() string { return e.text }

func bad(status int, format string, args ...any) error {
	return &badRequest{status, fmt.Sprintf(format, args...)}
}
