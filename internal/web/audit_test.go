package web

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// TestAudit shows who changed what, as text whatever it is, with a link to what each line is about.
func TestAudit(t *testing.T) {
	const evil = `"><script>alert(1)</script> ` + "\x1b[2J\u202e"
	r := newRig(t)
	r.get(200, "/audit", "Nothing was changed yet.")
	r.web.shared.forget()
	id := r.enqueue(store.EnqueueRequest{Type: "invoice"})
	_, err := r.store.Cancel(t.Context(), id, "alice & bob")
	require.NoError(t, err)
	_, err = r.store.PauseType(t.Context(), "a/b?c", evil, evil)
	require.NoError(t, err)
	_, err = r.store.PauseType(t.Context(), evil, "", "")
	require.NoError(t, err)
	_, err = r.store.StartBulk(t.Context(), store.BulkRequest{Verb: "retry", Filter: store.BulkFilter{Type: "none"}, By: "alice & bob"})
	require.NoError(t, err)

	page := r.get(200, "/audit", `href="/tasks/1"`, `href="/types/a%2Fb%3Fc"`, `href="/changes/1"`, `href="/audit?requested_by=alice%20%26%20bob"`,
		"&lt;script&gt;", "not said", "alice &amp; bob")
	require.NotContains(t, page, "<script>alert")
	require.NotContains(t, page, "\x1b")
	require.NotContains(t, page, "\u202e")

	page = r.get(200, "/audit?requested_by="+url.QueryEscape(evil), "a/b?c")
	require.NotContains(t, page, "<script>alert")
	require.NotContains(t, page, "/tasks/1")
	r.get(200, "/audit?task=1&verb=cancel&since=1h", `href="/tasks/1"`)
	r.get(200, "/audit?task=2", "Nothing that matches was changed.")
	r.get(400, "/audit?task=x", "whole number")
	r.get(400, "/audit?since=soon", "an age such as 2h")
	r.get(200, "/tasks/1", `href="/audit?task=1"`)
}

// TestAuditPages leads from page to page, with the filter.
func TestAuditPages(t *testing.T) {
	r := newRig(t)
	for i := range listAudit + 10 {
		id := r.enqueue(store.EnqueueRequest{Type: "invoice"})
		_, err := r.store.Cancel(t.Context(), id, "alice")
		require.NoError(t, err)
		require.Equal(t, task.ID(i+1), id)
	}
	page := r.get(200, "/audit?requested_by=alice", `href="/tasks/60"`, `href="/tasks/11"`, `href="/audit?before=11&amp;requested_by=alice"`, "Older")
	require.NotContains(t, page, `href="/tasks/10"`)
	page = r.get(200, "/audit?before=11&requested_by=alice", `href="/tasks/10"`, `href="/tasks/1"`, `href="/audit?requested_by=alice">Newest`)
	require.NotContains(t, page, "Older")
}
