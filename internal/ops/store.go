// Package ops is what an operator and a producer do: enqueue tasks, read them, wait for them, change them, and the same for
// batches; with what they then want to know: how many tasks a change affects, how far a batch is, what became of each task.
// Commands, the HTTP API and the dashboard share it; they parse and print.
package ops

import (
	"context"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Store is what operators' work needs of the store.
type Store interface {
	// Enqueue inserts a row, or does with the live one that has the same type and key what the request asks for.
	Enqueue(ctx context.Context, r store.EnqueueRequest) (id task.ID, answer store.Enqueued, err error)
	// Get returns a task, live or finished, with its history; ErrNoTask where there is none.
	Get(ctx context.Context, id task.ID) (*store.TaskInfo, error)
	// List returns tasks that match, newest first, without history and output.
	List(ctx context.Context, f store.TaskFilter) ([]store.TaskInfo, error)
	// Window returns the part of the tasks before f.Before in which a List looks through that many rows at most: of each table, where no
	// index has just the rows that the filter is for, in their order.
	Window(ctx context.Context, f store.TaskFilter, rows int) (store.Window, error)
	// Counts is Stats within a bounded time, however many rows there are: where Stats.More is set, counts are lower bounds.
	Counts(ctx context.Context) (store.Stats, error)
	// Takers counts the present agents that claim tasks, and those of them that claim tasks of a type.
	Takers(ctx context.Context, typ string) (store.Takers, error)
	// Pauses lists the types that are paused, by name, 10,000 at most.
	Pauses(ctx context.Context) ([]store.TypePause, error)
	// Redactions returns the names of the members that are masked where documents are shown, by row type: those of the configuration that was
	// loaded last, and those that present agents declare.
	Redactions(ctx context.Context) (map[string][]string, error)
	// Ping checks that the store can be reached and that its schema admits the binary (*store.SchemaError otherwise).
	Ping(ctx context.Context) error
}

// Everything is what a surface needs that offers all of operators' work: the HTTP API, and the dashboard.
type Everything interface {
	Store
	Operator
	Rollbacks
	Explainer
	Agents
	Pauses
	Orphans
	Declarations
	Diagnoser
	Batches
	Schedules
	Sequences
	ChunkPlans
	Bulks
	Activities
	Audits
	Flows
}
