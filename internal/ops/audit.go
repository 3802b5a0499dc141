package ops

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/leasehold/leasehold/internal/store"
)

// Audits is what those read who want to know who changed what.
type Audits interface {
	// ListAudit returns the entries of a part of the audit that match, newest first.
	ListAudit(ctx context.Context, f store.AuditFilter) (store.AuditLook, error)
}

// AuditPage is a page of the audit.
type AuditPage struct {
	Entries []store.AuditEntry // newest first; not nil
	// Before is where the next page begins: its entries have lower ids. 0: there is none.
	Before int64
	// LookedBack says how far a search went that was ended before the page was full; nil: it was not.
	LookedBack *AuditLookedBack
}

// AuditLookedBack is the oldest entry that a search has looked at.
type AuditLookedBack struct {
	ID int64     `json:"id"`
	At time.Time `json:"at"`
}

// PageAudit returns entries of the audit that match, newest first. The page ends where it has looked through as many entries as a list of
// tasks looks through tasks, or for as long.
func PageAudit(ctx context.Context, s Audits, f store.AuditFilter) (AuditPage, error) {
	p := AuditPage{Entries: []store.AuditEntry{}}
	look := looking{began: time.Now(), next: lookFirst}
	limit := store.PageSize(f.Limit)
	for {
		f.Limit, f.Look = limit-len(p.Entries), look.next
		found, err := s.ListAudit(ctx, f)
		if err != nil {
			return p, err
		}
		p.Entries = append(p.Entries, found.Entries...)
		look.looked += f.Looks()
		look.next = min(2*look.next, lookStep)
		switch {
		case len(p.Entries) == limit:
			p.Before = p.Entries[limit-1].ID
			return p, nil
		case found.From == 0, f.Since != nil && found.Newest.Before(*f.Since): // ids rise as time does
			return p, nil
		case look.over():
			p.Before, p.LookedBack = found.From, &AuditLookedBack{found.From, found.Oldest}
			return p, nil
		}
		f.Before = found.From
	}
}

// AuditChange returns the number of the change of all tasks that match which an entry is about; 0 for another.
func AuditChange(e *store.AuditEntry) (n int64) {
	if e.Task != 0 || e.Batch != 0 || e.Type != "" || e.Schedule != "" || e.Chunks != "" || e.Agent != 0 {
		return 0
	}
	if _, err := fmt.Sscanf(e.Answer, "bulk change %d", &n); err != nil || n < 1 {
		return 0
	}
	return n
}

// AuditSubject names what an entry is about: "task 7", "type invoice.send"; "" where that is not known.
func AuditSubject(e *store.AuditEntry) string {
	switch {
	case e.Task != 0:
		return "task " + strconv.FormatInt(int64(e.Task), 10)
	case e.Batch != 0:
		return "batch " + strconv.FormatInt(int64(e.Batch), 10)
	case e.Type != "":
		return "type " + e.Type
	case e.Schedule != "":
		return "schedule " + e.Schedule
	case e.Chunks != "":
		return "chunks " + e.Chunks
	case e.Agent != 0:
		return "agent session " + strconv.FormatInt(int64(e.Agent), 10)
	}
	if n := AuditChange(e); n != 0 {
		return "change " + strconv.FormatInt(n, 10)
	}
	return ""
}
