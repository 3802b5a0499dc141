package v1

import (
	"strconv"
	"time"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// auditPage is a page of the audit.
type auditPage struct {
	Audit []store.AuditEntry `json:"audit"`
	Next  string             `json:"next,omitempty"`
	// LookedBack is set where the page ends because enough was looked through.
	LookedBack *ops.AuditLookedBack `json:"looked_back_to,omitempty"`
}

func (a *API) listAudit(c *call) (any, error) {
	q := c.query
	f := store.AuditFilter{
		RequestedBy: q.text("requested_by"), Verb: q.text("verb"), Type: q.text("type"), Task: task.ID(q.number("task", maxID)),
		Batch: task.BatchID(q.number("batch", maxID)), Before: q.number("before", maxID), Limit: q.limit(),
	}
	since := q.text("since")
	if err := q.end(); err != nil {
		return nil, err
	}
	if since != "" {
		at, err := ops.ParseSince(since, time.Now())
		if err != nil {
			return nil, err
		}
		f.Since = &at
	}
	s, err := c.work()
	if err != nil {
		return nil, err
	}
	page, err := ops.PageAudit(c.ctx, s, f)
	if err != nil {
		return nil, err
	}
	p := auditPage{Audit: page.Entries, LookedBack: page.LookedBack}
	if page.Before > 0 {
		p.Next = c.next("before", strconv.FormatInt(page.Before, 10))
	}
	return p, nil
}
