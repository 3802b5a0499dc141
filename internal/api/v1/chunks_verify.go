package v1

import (
	"context"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/internal/ops"
)

// Bounds of a count of a table.
const (
	defaultCount = 30 * time.Second
	longestCount = 2 * time.Minute
)

// verifyChunks answers with what the ledger of a plan proves and, unless that is not wanted, with what is left of the table. A table that was
// not read within the time is a problem of the verdict.
func (a *API) verifyChunks(c *call) (any, error) {
	name, err := c.text("name")
	if err != nil {
		return nil, err
	}
	q := c.query
	count, within := q.text("count"), q.span("timeout", defaultCount, longestCount)
	if count != "" && count != "true" && count != "false" {
		q.wrong("count: use true or false")
	}
	if err := q.end(); err != nil {
		return nil, err
	}
	var v ops.ChunkVerdict
	if v.ChunkProof, err = a.prove(c.ctx, name); err != nil {
		return nil, err
	}
	var late string
	if count != "false" {
		if late, err = a.count(c, &v, within); err != nil {
			return nil, err
		}
	}
	v.Conclude()
	if late != "" {
		v.Problems = append(v.Problems, late)
	}
	return v, nil
}

// prove reads the ledger, in turn with other requests: the table may be read for longer than one.
func (a *API) prove(ctx context.Context, name string) (*ops.ChunkProof, error) {
	done, err := a.bounds.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return ops.ProveChunks(ctx, a.Store, name)
}

// count counts what is left. late says that there was not enough time.
func (a *API) count(c *call, v *ops.ChunkVerdict, within time.Duration) (late string, err error) {
	if err := c.take(a.bounds.counts, 1); err != nil {
		return "", err
	}
	ctx, cancel := c.lasting(within)
	defer cancel()
	began := time.Now()
	v.ChunkLeft, err = a.CountChunks(ctx, v.ChunkProof)
	if err != nil && ctx.Err() != nil && c.r.Context().Err() == nil {
		return fmt.Sprintf("the table %s was not read to its end within %s: use a longer timeout, 2m at most, or `leasehold chunks verify`",
			v.Table, time.Since(began).Round(time.Millisecond)), nil
	}
	return "", err
}
