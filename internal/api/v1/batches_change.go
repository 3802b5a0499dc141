package v1

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Bounds of a batch that is created.
const (
	maxBatch      = 256 << 20 // bytes of its lines
	createTimeout = 5 * time.Minute
	lineTimeout   = 15 * time.Second // between two parts of the body
)

// createBatch creates a batch and its tasks from NDJSON, all or nothing. The lines are put into a file first: a client that sends slowly
// holds no transaction.
func (a *API) createBatch(c *call) (any, error) {
	q := c.query
	by := q.text("requested_by")
	if by == "" {
		by = defaultBy
	}
	request := store.BatchRequest{
		Name: q.text("name"), OnFailure: store.OnFailure(q.text("on_failure")), FinishType: q.text("finish_type"), Labels: q.labels(),
		CreatedBy: by, Open: q.flag("open"),
	}
	if payload := q.text("finish_payload"); payload != "" {
		request.FinishPayload = []byte(payload)
	}
	base := store.EnqueueRequest{Type: q.text("type"), CreatedBy: by}
	dryRun := q.flag("dry_run")
	err := q.end()
	if err == nil {
		err = c.mediaType("application/x-ndjson")
	}
	if err == nil {
		err = request.Check()
	}
	if err == nil {
		err = c.take(a.bounds.long, 1)
	}
	if err != nil {
		return nil, err
	}
	c.longer(createTimeout)
	lines, err := c.spool()
	if err != nil {
		return nil, err
	}
	defer func() { _ = lines.Close() }() // nothing of it is kept
	rows := ops.ReadRequests(lines, "body", base)
	if dryRun {
		n, err := ops.CountRequests(rows)
		return noneOf(ops.BatchCreated{Tasks: n, DryRun: true}, err)
	}
	id, n, err := ops.CreateBatch(c.ctx, a.Store, request, rows, nil)
	if errors.Is(err, ops.ErrMaybeCreated) {
		return nil, fmt.Errorf("%w: see GET %s/batches before you repeat the request", err, Prefix)
	}
	if err != nil {
		return nil, err
	}
	c.status = http.StatusCreated
	c.w.Header().Set("Location", fmt.Sprintf("%s/batches/%d", Prefix, id))
	return ops.BatchCreated{Batch: id, Tasks: n}, nil
}

// spool reads the body into a file without a name, and returns that from its beginning.
func (c *call) spool() (_ *os.File, err error) {
	f, err := os.CreateTemp("", "leasehold-batch-")
	if err != nil {
		return nil, notKept(err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
		}
	}()
	if err := os.Remove(f.Name()); err != nil {
		return nil, notKept(err)
	}
	if c.r.ContentLength > maxBatch {
		return nil, tooManyLines()
	}
	from := &steady{from: http.MaxBytesReader(c.w, c.r.Body, maxBatch), control: http.NewResponseController(c.w)}
	from.until, _ = c.ctx.Deadline()
	_, err = io.Copy(f, from)
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, tooManyLines()
	}
	if from.err != nil {
		// The deadline stays as it is, past: net/http would wait for the rest.
		return nil, bad(http.StatusBadRequest, "the body ended early, or nothing of it came for %s: nothing was created", lineTimeout)
	}
	if err != nil {
		return nil, notKept(err)
	}
	_ = from.control.SetReadDeadline(from.until.Add(writeMargin)) // else net/http ends the request soon
	_, err = f.Seek(0, io.SeekStart)
	return f, err
}

// notKept says that there is no room for the lines.
func notKept(err error) error {
	return bad(http.StatusServiceUnavailable, "the lines cannot be kept in the agent's temporary directory (TMPDIR): %s", err)
}

func tooManyLines() error {
	return bad(http.StatusRequestEntityTooLarge,
		"the body is larger than %s: use `leasehold batch create`, or an open batch and several requests", store.Size(maxBatch))
}

// steady reads a body as long as parts of it keep coming.
type steady struct {
	from    io.Reader
	control *http.ResponseController
	until   time.Time
	err     error
}

// Read reads on.
func (s *steady) Read(p []byte) (int, error) {
	deadline := time.Now().Add(lineTimeout)
	if s.until.Before(deadline) {
		deadline = s.until
	}
	_ = s.control.SetReadDeadline(deadline) // else the listener's stays
	n, err := s.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// sealBatch closes an open batch.
func (a *API) sealBatch(c *call) (any, error) {
	id, err := c.batchID()
	if err != nil {
		return nil, err
	}
	if _, err := c.change(nil); err != nil {
		return nil, err
	}
	s, err := c.work()
	if err != nil {
		return nil, err
	}
	became, err := ops.SealBatch(c.ctx, s, id)
	return noneOf(ops.BatchChanged{Batch: id, Became: became}, err)
}

// changeBatch requests a change of a batch as a whole.
func (a *API) changeBatch(verb ops.Verb) handler {
	return func(c *call) (any, error) {
		id, err := c.batchID()
		if err != nil {
			return nil, err
		}
		change, dryRun := ops.BatchChange{Verb: verb}, false
		more := members{"dry_run": &dryRun}
		if verb == ops.VerbRollback {
			more["force"] = &change.Force
		}
		if change.By, err = c.change(more); err != nil {
			return nil, err
		}
		s, err := c.work()
		if err != nil {
			return nil, err
		}
		return c.changed(s, id, change, dryRun)
	}
}

// changed makes a change of a batch, or counts what it would change.
func (c *call) changed(s Store, id task.BatchID, change ops.BatchChange, dryRun bool) (any, error) {
	if err := change.Check(); err != nil {
		return nil, err
	}
	if dryRun {
		_, n, err := ops.CountChange(c.ctx, s, id, change)
		return noneOf(ops.BatchChanged{Batch: id, Tasks: &n, DryRun: true}, err)
	}
	became, err := ops.ChangeBatch(c.ctx, s, id, change)
	return noneOf(ops.BatchChanged{Batch: id, Became: became}, err)
}
