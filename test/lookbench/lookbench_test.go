//go:build bench

// Package lookbench_test measures lists and counts on stores with ten million finished and a million waiting tasks: make bench-look.
package lookbench_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/batch"
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// looker is what is measured.
type looker interface {
	ops.HealthStore
	Stats(ctx context.Context) (store.Stats, error)
	ops.Sequences
	ops.Orphans
	ops.Glances
	ops.Batches
	batch.BulkStore
	RegionOrphans(ctx context.Context) ([]store.RegionOrphan, error)
	Join(ctx context.Context, a store.Agent) (task.Session, error)
}

const runs = 5 // of each call: the median counts

// finished is how many tasks the archive has: SCALE, ten million by default. A tenth as many wait.
func finished(t *testing.T) int {
	t.Helper()
	text := os.Getenv("SCALE")
	if text == "" {
		return 10_000_000
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// look is a call that is measured. It returns what it found, in words.
type look struct {
	name string
	call func(ctx context.Context, s looker) (string, error)
}

func list(name string, f store.TaskFilter) look {
	return look{"list: " + name, func(ctx context.Context, s looker) (string, error) {
		return listed(ctx, s, f)
	}}
}

func looks(n int) []look {
	return append(lists(n),
		look{"batch list", func(ctx context.Context, s looker) (string, error) {
			l, err := s.ListBatches(ctx, store.BatchFilter{})
			return fmt.Sprintf("%d batches", len(l)), err
		}},
		look{"batch show", func(ctx context.Context, s looker) (string, error) {
			d, err := ops.ReadBatch(ctx, s, 1)
			return fmt.Sprintf("%d kinds of failures", len(d.Failures)), err
		}},
		preview("retry, a signature", store.VerbRetry, store.BulkFilter{Signature: "HTTP 502 from billing, request 7"}),
		preview("retry, a signature of few", store.VerbRetry, store.BulkFilter{Signature: "no such account: 7"}),
		preview("retry, since an hour ago", store.VerbRetry, store.BulkFilter{Since: ago(time.Hour)}),
		preview("retry, type and signature", store.VerbRetry, store.BulkFilter{Type: "bulk", Signature: "no such account: 7"}),
		preview("rollback, since an hour ago", store.VerbRollback, store.BulkFilter{Since: ago(time.Hour)}),
		preview("cancel, since an hour ago", store.VerbCancel, store.BulkFilter{Since: ago(time.Hour)}),
		preview("cancel, type", store.VerbCancel, store.BulkFilter{Type: "first"}),
		look{"sequence list", func(ctx context.Context, s looker) (string, error) {
			l, err := s.ListSequences(ctx, store.SequenceFilter{})
			return fmt.Sprintf("%d sequences", len(l.List)), err
		}},
		look{"sequence show", func(ctx context.Context, s looker) (string, error) {
			d, err := ops.ShowSequence(ctx, s, "ordered", "s7")
			return fmt.Sprintf("%d waiting", d.Waiting), err
		}},
		look{"agents", func(ctx context.Context, s looker) (string, error) {
			l, err := s.ListAgents(ctx, false)
			return fmt.Sprintf("%d agents", len(l)), err
		}},
		look{"orphans", func(ctx context.Context, s looker) (string, error) {
			l, err := s.Orphans(ctx)
			return fmt.Sprintf("%d types %+v", len(l.List), l.List[0]), err
		}},
		look{"regions", func(ctx context.Context, s looker) (string, error) {
			l, err := s.RegionOrphans(ctx)
			return fmt.Sprintf("%d pairs", len(l)), err
		}},
		look{"health", func(ctx context.Context, s looker) (string, error) {
			h := ops.ReadHealth(ctx, s)
			return fmt.Sprintf("%v due %v, orphans %v, oldest %.0f s", h.Rows, h.Due, h.Orphans, h.OldestDue), nil
		}},
		look{"events", func(ctx context.Context, s looker) (string, error) {
			stats, err := s.Counts(ctx)
			return fmt.Sprint(ops.CountsOf(&stats).Rows), err
		}},
		look{"newest", func(ctx context.Context, s looker) (string, error) {
			list, err := s.Newest(ctx, 100)
			return fmt.Sprintf("%d tasks", len(list)), err
		}},
		look{"metrics", func(ctx context.Context, s looker) (string, error) {
			st, err := s.Stats(ctx)
			return fmt.Sprintf("%d counts", len(st.Waiting)), err
		}},
	)
}

// preview counts what a change would be for.
func preview(name, verb string, f store.BulkFilter) look {
	return look{"preview: " + name, func(ctx context.Context, s looker) (string, error) {
		p, err := ops.PreviewBulk(ctx, batch.NewBulk(s, ops.NamedSignature), store.BulkRequest{Verb: verb, Filter: f})
		return fmt.Sprintf("%d tasks, capped %t", p.Tasks, p.Capped), err
	}}
}

func ago(d time.Duration) *time.Time {
	at := time.Now().Add(-d)
	return &at
}

func lists(n int) []look {
	failed := []task.State{task.StateFailed, task.StateRollbackFailed}
	return []look{
		list("all", store.TaskFilter{}),
		list("page far behind", store.TaskFilter{Before: task.ID(n / 2)}),
		list("type of most", store.TaskFilter{Type: "bulk"}),
		list("type, a few finished", store.TaskFilter{Type: "rare"}),
		list("type, a few waiting, the oldest", store.TaskFilter{Type: "first"}),
		list("type that is not there", store.TaskFilter{Type: "none"}),
		list("pending", store.TaskFilter{States: []task.State{task.StatePending}}),
		list("retry_pending, few", store.TaskFilter{States: []task.State{task.StateRetryPending}}),
		list("running", store.TaskFilter{States: []task.State{task.StateRunning}}),
		list("rollback_pending, none", store.TaskFilter{States: []task.State{task.StateRollbackPending}}),
		list("succeeded", store.TaskFilter{States: []task.State{task.StateSucceeded}}),
		list("failed", store.TaskFilter{States: failed}),
		list("cancelled, few", store.TaskFilter{States: []task.State{task.StateCancelled}}),
		list("type and failed, none", store.TaskFilter{Type: "mail", States: failed}),
		list("type and succeeded", store.TaskFilter{Type: "rare", States: []task.State{task.StateSucceeded}}),
		list("key", store.TaskFilter{Key: "k70"}),
		list("key that is not there", store.TaskFilter{Key: "none"}),
		list("type and key", store.TaskFilter{Type: "bulk", Key: "k70"}),
		list("key of very many", store.TaskFilter{Key: "again"}),
		list("label of many", store.TaskFilter{Labels: map[string]string{"tenant": "t10"}}),
		list("label of one, old", store.TaskFilter{Labels: map[string]string{"find": "me"}}),
		list("type and label", store.TaskFilter{Type: "rare", Labels: map[string]string{"find": "me"}}),
		list("failed and label", store.TaskFilter{States: failed, Labels: map[string]string{"find": "me"}}),
		list("batch of very many", store.TaskFilter{Batch: 1}),
		list("batch, failed", store.TaskFilter{Batch: 1, States: failed}),
		list("batch, cancelled", store.TaskFilter{Batch: 1, States: []task.State{task.StateCancelled}}),
		list("batch, pending", store.TaskFilter{Batch: 1, States: []task.State{task.StatePending}}),
		list("batch and label", store.TaskFilter{Batch: 1, Labels: map[string]string{"find": "me"}}),
		list("batch of a few", store.TaskFilter{Batch: 2}),
	}
}

// measure prints the median of each call.
func measure(t *testing.T, s looker, n int) {
	t.Helper()
	for _, l := range looks(n) {
		var took []time.Duration
		var found string
		for len(took) < runs && (len(took) == 0 || took[0] < 5*time.Second) {
			began := time.Now()
			what, err := l.call(t.Context(), s)
			took = append(took, time.Since(began))
			if found = what; err != nil {
				found = err.Error()
			}
		}
		slices.Sort(took)
		t.Logf("| %s | %.1f | %s", l.name, float64(took[len(took)/2].Microseconds())/1000, found)
	}
}

// join has an agent be present that declares all types but `undeclared`.
func join(t *testing.T, s looker) {
	t.Helper()
	a := store.Agent{Name: "bench", Workers: 1, Presence: time.Hour, Types: []string{"bulk", "mail", "rare", "first", "ordered"}}
	_, err := s.Join(t.Context(), a)
	require.NoError(t, err)
}
