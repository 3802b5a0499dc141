package postgres

import (
	"github.com/leasehold/leasehold/internal/store"
)

// reportColumns are the tasks' progress reports, as parameters. A column in which no row has a value stays nil,
// and is not sent.
type reportColumns struct{ progress, message, checkpoint []string }

// set puts a report at place i of n.
func (c *reportColumns) set(i, n int, r *store.Report) {
	c.progress = sparse(c.progress, i, n, storableResult(r.Progress))
	c.message = sparse(c.message, i, n, storable(r.Message))
	c.checkpoint = sparse(c.checkpoint, i, n, storableResult(r.Checkpoint))
}

// hasJSON reports whether there is something in it that the server could refuse.
func hasJSON(n *store.Report) bool { return n.Progress != nil || n.Checkpoint != nil }

// asStrings is what notes are kept as whose JSON the server refuses.
func asStrings(n store.Report) store.Report {
	if n.Progress != nil {
		n.Progress = asString(n.Progress)
	}
	if n.Checkpoint != nil {
		n.Checkpoint = asString(n.Checkpoint)
	}
	return n
}
