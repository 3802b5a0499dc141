package web

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// bulkFields are the fields of a filter, as they stand in addresses and forms.
var bulkFields = []string{"verb", "type", "state", "label", "batch", "error-signature", "since"} //nolint:gochecknoglobals // a table

// readBulk reads a change of all tasks that match.
func (r *request) readBulk() (b store.BulkRequest, err error) {
	if b.Verb, err = r.text("verb"); err != nil {
		return b, err
	}
	f := &b.Filter
	if f.Type, err = r.text("type"); err != nil {
		return b, err
	}
	if f.Signature, err = r.text("error-signature"); err != nil {
		return b, err
	}
	if f.States, err = ops.ParseStates(r.list("state")); err != nil {
		return b, err
	}
	if f.Labels, err = labels(strings.Join(r.list("label"), " ")); err != nil {
		return b, err
	}
	batch, err := r.id("batch")
	if err != nil {
		return b, err
	}
	f.Batch = task.BatchID(batch)
	since, err := r.text("since")
	if err != nil {
		return b, err
	}
	if since != "" {
		at, err := ops.ParseSince(since, r.now)
		if err != nil {
			return b, err
		}
		f.Since = &at
	}
	return b, nil
}

// bulkPreview shows how many tasks a change would be for, and asks whether to make it.
func (d *Dashboard) bulkPreview(r *request) (*view, error) {
	b, err := r.readBulk()
	if err != nil {
		return nil, err
	}
	states := store.BulkStates(b.Verb)
	if states == nil {
		return nil, &mistaken{"a change is cancel, retry or rollback"}
	}
	var allowed []task.State // a list may be of states that the verb leaves alone
	for _, s := range b.Filter.States {
		for _, can := range states {
			if s == can {
				allowed = append(allowed, s)
			}
		}
	}
	if len(b.Filter.States) > 0 && len(allowed) == 0 {
		return nil, &store.RefusedError{Text: b.Verb + " changes no task in these states"}
	}
	b.Filter.States = allowed
	p, err := ops.PreviewBulk(r.ctx, d.Bulk, b)
	if err != nil {
		return nil, err
	}
	data := struct {
		Verb    verb
		Preview ops.BulkPreview
		Filter  []field // as hidden fields of the form
		Shown   []field
		Back    string
	}{Verb: bulkVerb(b.Verb), Preview: p, Back: "/tasks"}
	for _, name := range bulkFields {
		for _, value := range r.list(name) {
			if name == "state" {
				continue
			}
			data.Filter = append(data.Filter, field{name, value})
			if name != "verb" {
				data.Shown = append(data.Shown, field{strings.ReplaceAll(name, "-", " "), value})
			}
		}
	}
	for _, s := range b.Filter.States {
		data.Filter = append(data.Filter, field{"state", string(s)})
		data.Shown = append(data.Shown, field{"state", words(s)})
	}
	return &view{Title: data.Verb.Label + " all that match", Place: "tasks", Name: "bulkpreview", Data: data}, nil
}

func bulkVerb(name string) verb {
	for _, s := range []task.State{task.StatePending, task.StateFailed} {
		for _, v := range taskVerbs(s) {
			if v.Name == name {
				return v
			}
		}
	}
	return verb{Name: name, Label: name}
}

// startBulk starts a change, which agents carry on.
func (d *Dashboard) startBulk(_ http.ResponseWriter, r *request) (string, error) {
	b, err := r.readBulk()
	if err != nil {
		return "", err
	}
	if b.Reason, err = r.text("reason"); err != nil {
		return "", err
	}
	b.By = r.by()
	id, err := ops.StartBulk(r.ctx, d.Store, b)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("/changes/%d", id), nil
}

// bulkPage shows how far a change is.
func (d *Dashboard) bulkPage(r *request) (*view, error) {
	id, err := r.number("change")
	if err != nil {
		return nil, err
	}
	b, err := ops.GetBulk(r.ctx, d.Store, id)
	if err != nil {
		return nil, err
	}
	data := struct {
		Now  time.Time
		Bulk *ops.BulkInfo
		Verb verb
		Said string
	}{r.now, b, bulkVerb(b.Verb), r.said()}
	live := events
	if b.EndedAt != nil {
		live = ""
	}
	return &view{Title: fmt.Sprintf("Change %d", id), Place: "tasks", Name: "bulk", Data: data, Live: live}, nil
}

// stopBulk stops a change.
func (d *Dashboard) stopBulk(_ http.ResponseWriter, r *request) (string, error) {
	id, err := r.number("change")
	if err != nil {
		return "", err
	}
	if _, err := ops.StopBulk(r.ctx, d.Store, id, r.by()); err != nil {
		return "", err
	}
	return "/changes/" + url.PathEscape(fmt.Sprint(id)) + "?said=stopped", nil
}
