package dashboard_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPages looks at every page: what it says, in light and dark, at a desk and on a phone, without a word on the console.
func TestPages(t *testing.T) {
	onBoth(t, func(t *testing.T, store string) {
		s := play(t, store, "")
		b := browse(t, s.base)
		for _, p := range []struct {
			path, name string
			texts      []string
		}{
			{"/", "overview", []string{"Something is wrong", "waiting", "running of 6 workers", "orphans", "Attempts", "ended, at most", "Running now", "page", "invoice", "exit code"}},
			{"/tasks", "tasks", []string{"Filter", "nobody", "retry pending", "exit code 3"}},
			{"/tasks?type=invoice&state=failed", "tasks-filtered", []string{"All that match", "Retry all", "exit code 3"}},
			{s.task("long"), "task", []string{"What it does", "page", "long", "fence", "Cancel", "Roll back"}},
			{"/tasks/5", "task-failed", []string{"What happened", "no route to host", "Attempts", "(redacted)", "customer", "Retry"}},
			{s.task("orphan"), "task-orphan", []string{"Why it does not run", "no", "nobody", "<script>alert(1)</script>"}},
			{s.task("later"), "task-later", []string{"Why it does not run", "in 1h"}},
			{"/batches?name=November+%3Cb%3Einvoices%3C%2Fb%3E", "batches", []string{"November <b>invoices</b>", "partially failed", "100%"}},
			{"/batches/1", "batch", []string{"What went wrong", "Retry 2 tasks", "succeeded", "November <b>invoices</b>"}},
			{"/chunks", "chunks", []string{"events", "over"}},
			{"/chunks/events", "chunk", []string{"Pass 1", "10 chunks, 1,000 rows", "failed", "Ranges that failed", "of 1000.", "Verify", "without a gap", "leasehold chunks verify events"}},
			{"/schedules", "schedules", []string{"nightly", "02:15 every day", "yearly"}},
			{"/schedules/nightly", "schedule", []string{"Europe/Berlin", "Fire now", "(redacted)", "not fired yet"}},
			{"/flow", "flow", []string{"the bank is down", "alice", "account-7", "blocked", "No present agent declares",
				"1 of 1", "30/m, 5 at once", "full", "globex <b>Inc</b>", "acme", "mailbox-7"}},
			{"/failures", "failures", []string{"ledger", "Retry 1", "no route to host"}},
			{"/types", "types", []string{"invoice", "invoices", "paused"}},
			{"/types/paused", "type", []string{"the bank is down", "Resume", "Policy", "retry.limit"}},
			{"/agents", "agents", []string{"billing-1", "working", "of 6", "Cordon", "Drain"}},
			{"/audit", "audit", []string{"alice", "pause", "type paused", "the bank is down", "By"}},
			{"/audit?requested_by=nobody", "audit-none", []string{"Nothing that matches was changed"}},
			{"/doctor", "doctor", []string{"not healthy", "orphans", "Remedy", "leasehold resume paused"}},
			{"/tasks/change?verb=retry&type=invoice&state=failed", "change", []string{"2 tasks match now", "Leave it"}},
		} {
			t.Run(p.name, func(t *testing.T) {
				b.t = t
				b.open(p.path)
				b.sees(p.texts...)
				require.NotContains(t, b.text(), "4111")
				for _, scheme := range []string{"light", "dark"} {
					b.theme(scheme)
					for _, width := range []int64{1280, 390} {
						b.size(width, 900)
						b.looksRight()
						b.shoot(fmt.Sprintf("%s-%s-%d", p.name, scheme, width))
					}
				}
				b.theme("light")
				b.size(1280, 900)
				b.quiet()
			})
		}
		b.t = t
	})
}

// TestStuckInTwoClicks finds why a task is stuck, from the overview, in two clicks.
func TestStuckInTwoClicks(t *testing.T) {
	s := play(t, "sqlite:"+t.TempDir()+"/leasehold.db", "")
	b := browse(t, s.base)
	b.open("/")
	b.submit(`.tiles a[href*="state=pending"]`)
	b.sees("Filter")
	b.submit(fmt.Sprintf(`a[href="%s"]`, s.task("paused")))
	b.sees("Why it does not run", "the bank is down", "leasehold resume paused")
	b.open("/")
	b.submit(`.tiles a[href*="state=pending"]`)
	b.sees("Filter")
	b.submit(fmt.Sprintf(`a[href="%s"]`, s.task("behind")))
	b.sees("Why it does not run", fmt.Sprintf("task %d", s.ids["ledger"]))
}

// TestWrongAddresses says what is wrong, and with which status.
func TestWrongAddresses(t *testing.T) {
	s := play(t, "sqlite:"+t.TempDir()+"/leasehold.db", "")
	b := browse(t, s.base)
	for path, text := range map[string]string{
		"/tasks/999999": "no such task", "/tasks/x": "invalid task", "/nowhere": "nothing is served", "/batches/77": "no such batch",
		"/tasks?state=odd": "there is no such state", "/tasks?label=x": "name=value", "/types/unheard-of": "no task and no agent has the type",
		"/schedules/none": "no such schedule", "/tasks?batch=-1": "whole number", "/tasks/change?verb=eat&type=invoice": "cancel, retry or rollback",
	} {
		b.open(path)
		b.sees(text)
		b.looksRight()
	}
}
