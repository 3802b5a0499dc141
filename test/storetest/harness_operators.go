package storetest

import (
	"context"
	"encoding/json"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Producer is a transaction in which an application inserts. Where a call is refused the transaction can only be rolled
// back. Every transaction ends by Commit or Rollback; Rollback after Commit does nothing.
type Producer interface {
	// CreateBatch inserts into the table batch, with the columns that the request sets.
	CreateBatch(ctx context.Context, b store.BatchRequest) (task.BatchID, error)
	// Insert inserts into the table task. All rows set the same columns, and go in one statement.
	Insert(ctx context.Context, rows ...store.EnqueueRequest) ([]task.ID, error)
	// SealBatch seals by SQL, and returns the answer.
	SealBatch(ctx context.Context, id task.BatchID) (string, error)
	Commit(ctx context.Context) error
	Rollback(ctx context.Context) error
}

// OperatorSQL is what an operator does by SQL. Each call is a transaction of its own and gives the answer, on SQLite what
// the view says of the id afterwards, in the same transaction. Errors are the database's own, with its text.
type OperatorSQL interface {
	Cancel(ctx context.Context, id task.ID, by string) (store.Became, error)
	Retry(ctx context.Context, id task.ID, by string) (store.Became, error)
	// RetryWith is Retry with another payload.
	RetryWith(ctx context.Context, id task.ID, payload json.RawMessage, by string) (store.Became, error)
	Rollback(ctx context.Context, id task.ID, by string) (store.Became, error)
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
	Who   string       // "": not said
	Role  string       // the database role that the session logged in with; "": the store has none
	Verb  string       // cancel, retry or rollback; for a batch the same; for a schedule pause, resume or remove
	Task  task.ID      // 0: it was about something else
	Batch task.BatchID // 0: it was about something else
	// Schedule is its name where the row is about one.
	Schedule string
	Chunks   string // likewise, of a chunk plan
	Type     string // likewise, of a type
	Reason   string // that was given, of a change of a type
	Answer   string
}
