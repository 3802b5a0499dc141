package storetest

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func auditChecks() []Check {
	return []Check{
		{"as it was noted, newest first", auditNoted},
		{"as long as what it was about", auditGoes},
		{"what matches", auditFiltered},
		{"a part at a time", auditInParts},
	}
}

// auditors is a rig on a store whose audit can be listed. That of the model cannot.
func auditors(t testing.TB, h Harness) (*opsRig, ops.Audits) {
	t.Helper()
	a, ok := h.(ops.Audits)
	require.True(t, ok)
	return newOpsRig(t, h), a
}

// listsAudit returns the entries that match, without their ids, times and roles.
func (r *opsRig) listsAudit(a ops.Audits, f store.AuditFilter) (list []store.AuditEntry) {
	r.t.Helper()
	look, err := a.ListAudit(r.ctx, f)
	require.NoError(r.t, err)
	for _, e := range look.Entries {
		require.Positive(r.t, e.ID)
		near(r.t, r.Now(), e.At)
		agents, _ := r.h.Roles(r.t)
		require.Equal(r.t, agents, e.Role)
		e.ID, e.At, e.Role = 0, time.Time{}, ""
		list = append(list, e)
	}
	return list
}

// changes makes some changes, and returns what the audit has of them, newest first.
func (r *opsRig) changes() (id task.ID, batch task.BatchID, want []store.AuditEntry) {
	r.t.Helper()
	created, err := r.CreateBatch(r.ctx, store.BatchRequest{Name: "b", Open: true}, rowsThen(nil), nil)
	require.NoError(r.t, err)
	id = r.Insert(r.t, store.EnqueueRequest{Type: kind, Batch: created})[0]
	hostile := "alice \x1b[2J<b>\u202e"
	_, err = r.PauseType(r.ctx, kind, "the bank <i>is</i> down", hostile)
	require.NoError(r.t, err)
	_, err = r.Cancel(r.ctx, id, "bob")
	require.NoError(r.t, err)
	_, err = r.ResumeType(r.ctx, kind, "")
	require.NoError(r.t, err)
	_, err = r.Retry(r.ctx, id, hostile)
	require.NoError(r.t, err)
	_, err = r.CancelBatch(r.ctx, created, "bob")
	require.NoError(r.t, err)
	return id, created, []store.AuditEntry{
		{RequestedBy: "bob", Verb: "cancel", Batch: created, Answer: "cancelling"},
		{RequestedBy: hostile, Verb: "retry", Task: id, Answer: "pending"},
		{Verb: "resume", Type: kind, Answer: "resumed"},
		{RequestedBy: "bob", Verb: "cancel", Task: id, Answer: "cancelled"},
		{RequestedBy: hostile, Verb: "pause", Type: kind, Reason: "the bank <i>is</i> down", Answer: "paused"},
	}
}

func auditNoted(t testing.TB, h Harness) {
	r, a := auditors(t, h)
	look, err := a.ListAudit(r.ctx, store.AuditFilter{})
	require.NoError(t, err)
	require.Equal(t, store.AuditLook{}, look)
	_, _, want := r.changes()
	require.Equal(t, want, r.listsAudit(a, store.AuditFilter{}))
}

// auditGoes: what was requested of a task or a batch is known as long as that.
func auditGoes(t testing.TB, h Harness) {
	r, a := auditors(t, h)
	_, _, want := r.changes()
	r.over()
	r.Advance(t, 6*day)
	r.maintain(7 * day)
	look, err := a.ListAudit(r.ctx, store.AuditFilter{})
	require.NoError(t, err)
	require.Len(t, look.Entries, len(want))
	r.Advance(t, 6*day)
	r.maintain(7 * day)
	look, err = a.ListAudit(r.ctx, store.AuditFilter{})
	require.NoError(t, err)
	for _, e := range look.Entries {
		require.Contains(t, []string{"pause", "resume"}, e.Verb)
	}
	require.Len(t, look.Entries, 2)
}

func auditFiltered(t testing.TB, h Harness) {
	r, a := auditors(t, h)
	id, batch, all := r.changes()
	later := r.Now().Add(time.Hour)
	begun := r.Now().Add(-time.Hour)
	for _, c := range []struct {
		f    store.AuditFilter
		want []store.AuditEntry
	}{
		{store.AuditFilter{Task: id}, []store.AuditEntry{all[1], all[3]}},
		{store.AuditFilter{Task: id + 1}, nil},
		{store.AuditFilter{Task: id, Verb: "cancel"}, all[3:4]},
		{store.AuditFilter{Batch: batch}, all[:1]},
		{store.AuditFilter{Batch: batch, Task: id}, nil},
		{store.AuditFilter{RequestedBy: "bob"}, []store.AuditEntry{all[0], all[3]}},
		{store.AuditFilter{RequestedBy: all[1].RequestedBy, Verb: "pause"}, all[4:]},
		{store.AuditFilter{RequestedBy: "' OR true --"}, nil},
		{store.AuditFilter{Type: kind}, []store.AuditEntry{all[2], all[4]}},
		{store.AuditFilter{Type: strings.ToUpper(kind)}, nil},
		{store.AuditFilter{Since: &begun}, all},
		{store.AuditFilter{Since: &later}, nil},
		{store.AuditFilter{Limit: 2}, all[:2]},
		{store.AuditFilter{Task: id, Limit: 1}, all[1:2]},
	} {
		require.Equal(t, c.want, r.listsAudit(a, c.f), "%+v", c.f)
	}
}

func auditInParts(t testing.TB, h Harness) {
	r, a := auditors(t, h)
	_, _, all := r.changes()
	f := store.AuditFilter{Verb: "pause", Limit: 1, Look: 2}
	var found []store.AuditEntry
	for n := range 3 {
		look, err := a.ListAudit(r.ctx, f)
		require.NoError(t, err)
		require.False(t, look.Oldest.After(look.Newest))
		found = append(found, look.Entries...)
		f.Before = look.From
		require.Equal(t, n == 2, look.From == 0, "five entries are three parts")
	}
	require.Len(t, found, 1)
	require.Equal(t, all[4].Reason, found[0].Reason)

	f = store.AuditFilter{Limit: 2}
	for _, want := range [][]store.AuditEntry{all[:2], all[2:4], all[4:], nil} {
		require.Equal(t, want, r.listsAudit(a, f))
		look, err := a.ListAudit(r.ctx, f)
		require.NoError(t, err)
		f.Before = 1
		if len(look.Entries) > 0 {
			f.Before = look.Entries[len(look.Entries)-1].ID
		}
	}
	page, err := ops.PageAudit(r.ctx, a, store.AuditFilter{Verb: "pause"})
	require.NoError(t, err)
	require.Len(t, page.Entries, 1)
	require.Zero(t, page.Before)
	page, err = ops.PageAudit(r.ctx, a, store.AuditFilter{Limit: 3})
	require.NoError(t, err)
	require.Equal(t, page.Entries[2].ID, page.Before)
}
