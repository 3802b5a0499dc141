package storetest

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/batch"
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/task"
)

// NewHarness is a store under test that has what operators do and batches, and what the checks of that must be able to
// do to it from outside. Rows that Insert, EnqueueSQL and Enqueue add have their batch_id and their rollback_payload, if
// the request says so. What Twin returns is a NewHarness too.
type NewHarness interface {
	Harness
	ops.Operator
	ops.Batches
	batch.Store

	// Produce begins a transaction in which an application inserts, with an application's rights and nothing more. On a
	// store without locks on rows everybody else's writing waits for its end.
	Produce(t testing.TB) Producer
	// OperatorSQL gives what an operator's role, with its rights and nothing more, does by the store's SQL.
	OperatorSQL(t testing.TB) OperatorSQL
	// Audit reads the table audit, oldest first.
	Audit(t testing.TB) []Audited
	// BatchFailpoints names every point that a Fold which ends a batch, or a Step, comes by.
	BatchFailpoints() []string
}

// Producer is a transaction in which an application inserts. Where a call is refused the transaction can only be rolled
// back. Every transaction ends by Commit or Rollback; Rollback after Commit does nothing.
type Producer interface {
	// CreateBatch inserts into the table batch, with the columns that the request sets.
	CreateBatch(ctx context.Context, b ops.BatchRequest) (task.BatchID, error)
	// Insert inserts into the table task. All rows set the same columns, and go in one statement.
	Insert(ctx context.Context, rows ...ops.Request) ([]task.ID, error)
	// SealBatch seals by SQL, and tells what that answered.
	SealBatch(ctx context.Context, id task.BatchID) (string, error)
	Commit(ctx context.Context) error
	Rollback(ctx context.Context) error
}

// OperatorSQL is what an operator does by SQL. Each call is a transaction of its own and gives the answer, on SQLite what
// the view says of the id afterwards, in the same transaction. Errors are the database's own, with its text.
type OperatorSQL interface {
	Cancel(ctx context.Context, id task.ID, by string) (ops.Became, error)
	Retry(ctx context.Context, id task.ID, by string) (ops.Became, error)
	Rollback(ctx context.Context, id task.ID, by string) (ops.Became, error)
	CancelBatch(ctx context.Context, id task.BatchID, by string) (string, error)
	RetryBatch(ctx context.Context, id task.BatchID, by string) (string, error)
	RollbackBatch(ctx context.Context, id task.BatchID, by string, force bool) (string, error)
}

// Constant is an error of OperatorSQL on a store whose SQL can raise nothing but constants: it names nothing by its number
// or its name.
type Constant struct{ Err error }

func (c Constant) Error() string { return c.Err.Error() }

// Unwrap gives the database's own error.
func (c Constant) Unwrap() error { return c.Err }

// Audited is one row of the table audit.
type Audited struct {
	Who    string       // "": not said
	Verb   string       // cancel, retry or rollback; for a batch the same
	Task   task.ID      // 0: it was about a batch
	Batch  task.BatchID // 0: it was about a task
	Answer string
}

// newParts are the parts of the suite that need a NewHarness.
func newParts() []part {
	return []part{
		{"undo", undoChecks()},
		{"retry", retryChecks()},
		{"rollback", rollbackChecks()},
		{"batch", batchChecks()},
		{"batch_ops", batchOpsChecks()},
		{"batch_races", batchRaceChecks()},
	}
}

// NewParts names the parts of the suite that need a NewHarness.
func NewParts() []string {
	var names []string
	for _, p := range newParts() {
		names = append(names, p.name)
	}
	return names
}

// RunNew is Run of the parts with these names; of all of NewParts where there is none.
func RunNew(t *testing.T, open func(t *testing.T) NewHarness, names ...string) {
	t.Helper()
	for _, name := range names {
		require.Contains(t, NewParts(), name)
	}
	for _, p := range newParts() {
		if len(names) > 0 && !slices.Contains(names, p.name) {
			continue
		}
		for _, c := range p.named() {
			t.Run(c.Name, func(t *testing.T) {
				t.Parallel()
				c.Run(t, open(t))
			})
		}
	}
}

// with makes a check of one that needs a NewHarness.
func with(run func(t testing.TB, h NewHarness)) func(t testing.TB, h Harness) {
	return func(t testing.TB, h Harness) {
		t.Helper()
		n, ok := h.(NewHarness)
		require.True(t, ok, "the store has no operators and no batches")
		run(t, n)
	}
}
