package v1

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/leasehold/leasehold/internal/api"
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
)

// errBusy says that there was no place in time.
var errBusy = errors.New("the agent is busy")

// errPartly says that a change of many rows was made in part.
var errPartly = errors.New("not all was done: repeat the request")

// partly is the error of a change of many rows of which so many were made. A refusal says all.
func partly(err error, done int) error {
	if err == nil || done == 0 || errors.As(err, new(*store.RefusedError)) {
		return err
	}
	return fmt.Errorf("%w: %s changed before: %w", errPartly, ops.Tasks(int64(done)), err)
}

// write answers with JSON. Text of rows may hold anything: what is not UTF-8 is replaced, and what a page would run is escaped.
func (a *API) write(w http.ResponseWriter, r *http.Request, status int, body any) {
	doc, err := json.Marshal(body)
	if err != nil {
		a.Log.Warn("an answer of the API cannot be written", "path", r.URL.Path, "err", err)
		api.Problem(w, http.StatusInternalServerError, "the answer cannot be written as JSON: the agent's log has the reason")
		return
	}
	doc = bytes.ToValidUTF8(doc, []byte("\ufffd"))
	w.Header().Set("Content-Type", "application/json")
	if status != 0 {
		w.WriteHeader(status)
	}
	// An error here is the client's having gone away.
	_, _ = w.Write(append(doc, '\n'))
}

// fail answers with what went wrong.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	status, text := statusOf(err)
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
		if r.Context().Err() == nil {
			a.Log.Debug("a request to the API failed", "method", r.Method, "path", r.URL.Path, "err", err)
		}
	}
	api.Problem(w, status, text)
}

// statusOf is the status of an error, and what the client is told.
func statusOf(err error) (int, string) {
	if mistake, ok := errors.AsType[*badRequest](err); ok {
		return mistake.status, mistake.text
	}
	if errors.Is(err, ops.ErrPartlyInserted) { // whatever the reason
		return http.StatusServiceUnavailable, err.Error()
	}
	if input, ok := errors.AsType[*store.InputError](err); ok {
		return http.StatusBadRequest, input.Text
	}
	if refused, ok := errors.AsType[*store.RefusedError](err); ok {
		return http.StatusConflict, refused.Text
	}
	missing := []error{
		store.ErrNoTask, store.ErrNoBatch, store.ErrNoAgent, store.ErrNoSchedule, store.ErrNoSequence, store.ErrNoChunkPlan, ops.ErrNoDeclaration,
		store.ErrNoBulk,
	}
	switch {
	case slices.ContainsFunc(missing, func(m error) bool { return errors.Is(err, m) }):
		return http.StatusNotFound, err.Error()
	case errors.Is(err, ops.ErrNotCreated), errors.Is(err, ops.ErrMaybeCreated), errors.Is(err, errPartly):
		return http.StatusServiceUnavailable, err.Error()
	case errors.Is(err, errBusy):
		return http.StatusServiceUnavailable, errBusy.Error() + ": try again"
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable, "not done within " + requestTimeout.String() + ": what was changed is not known"
	}
	return http.StatusServiceUnavailable, "the store cannot be used: " + err.Error()
}
