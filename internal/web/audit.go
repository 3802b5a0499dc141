package web

import (
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

const listAudit = 50

// auditFields are the fields of its filter, as they stand in addresses.
var auditFields = []string{"requested_by", "verb", "type", "task", "batch", "since"} //nolint:gochecknoglobals // a table

// auditRow is an entry of the audit in a list.
type auditRow struct {
	store.AuditEntry
	Subject string // what it is about; "": that is not known
	Href    string // of that
}

func auditRowOf(e store.AuditEntry) auditRow {
	row := auditRow{AuditEntry: e, Subject: ops.AuditSubject(&e)}
	switch n := ops.AuditChange(&e); {
	case e.Task != 0:
		row.Href = fmt.Sprintf("/tasks/%d", e.Task)
	case e.Batch != 0:
		row.Href = fmt.Sprintf("/batches/%d", e.Batch)
	case e.Type != "":
		row.Href = "/types/" + url.PathEscape(e.Type)
	case e.Schedule != "":
		row.Href = "/schedules/" + url.PathEscape(e.Schedule)
	case e.Chunks != "":
		row.Href = "/chunks/" + url.PathEscape(e.Chunks)
	case e.Agent != 0:
		row.Href = "/agents?all=true"
	case n != 0:
		row.Href = fmt.Sprintf("/changes/%d", n)
	}
	return row
}

// readAudit reads the filter of the audit, and its fields as they stand in the address.
func (r *request) readAudit() (f store.AuditFilter, values url.Values, err error) {
	values = url.Values{}
	for _, name := range auditFields {
		text, err := r.text(name)
		if err != nil {
			return f, nil, err
		}
		if text != "" {
			values.Set(name, text)
		}
	}
	f.RequestedBy, f.Verb, f.Type, f.Limit = values.Get("requested_by"), values.Get("verb"), values.Get("type"), listAudit
	id, err := r.id("task")
	if err != nil {
		return f, nil, err
	}
	batch, err := r.id("batch")
	if err != nil {
		return f, nil, err
	}
	f.Task, f.Batch = task.ID(id), task.BatchID(batch)
	if f.Before, err = r.id("before"); err != nil {
		return f, nil, err
	}
	if since := values.Get("since"); since != "" {
		at, err := ops.ParseSince(since, r.now)
		if err != nil {
			return f, nil, err
		}
		f.Since = &at
	}
	return f, values, nil
}

// audit shows who changed what.
func (d *Dashboard) audit(r *request) (*view, error) {
	f, values, err := r.readAudit()
	if err != nil {
		return nil, err
	}
	page, err := ops.PageAudit(r.ctx, d.Store, f)
	if err != nil {
		return nil, err
	}
	data := struct {
		Now         time.Time
		Rows        []auditRow
		Filter      url.Values
		LookedBack  *ops.AuditLookedBack
		Next, First string
	}{Now: r.now, Filter: values, LookedBack: page.LookedBack}
	for _, e := range page.Entries {
		data.Rows = append(data.Rows, auditRowOf(e))
	}
	live := events
	if f.Before > 0 {
		data.First, live = auditAddress(values, 0), ""
	}
	if page.Before > 0 {
		data.Next = auditAddress(values, page.Before)
	}
	return &view{Title: "Audit", Place: "audit", Name: "audit", Data: data, Live: live}, nil
}

// auditAddress is the address of the audit with a filter, of the page before an id; 0: of the first one.
func auditAddress(filter url.Values, before int64) string {
	v := url.Values{}
	for name := range filter {
		v.Set(name, filter.Get(name))
	}
	if before > 0 {
		v.Set("before", strconv.FormatInt(before, 10))
	}
	if len(v) == 0 {
		return "/audit"
	}
	return "/audit?" + v.Encode()
}
