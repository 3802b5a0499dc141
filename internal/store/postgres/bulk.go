package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// StartBulk starts a bulk change, and returns its id.
func (s *Store) StartBulk(ctx context.Context, r store.BulkRequest) (id int64, err error) {
	filter, err := json.Marshal(r.Filter)
	if err != nil {
		return 0, fmt.Errorf("encode a filter: %w", err)
	}
	err = s.do(ctx, "start a bulk change", func(ctx context.Context, conn *pgx.Conn) error {
		return inputError(s.change(ctx, conn, func(on querier) error {
			return scanOne(ctx, on, []any{&id}, s.sql.StartBulk, arg("verb", r.Verb), arg("filter", storable(string(filter))),
				arg("batch", int64(r.Filter.Batch)), arg("by", storable(r.By)), arg("reason", storable(r.Reason)))
		}))
	})
	return id, err
}

// StopBulk stops a bulk change that has not ended.
func (s *Store) StopBulk(ctx context.Context, id int64, by string) error {
	return s.do(ctx, fmt.Sprintf("stop bulk change %d", id), func(ctx context.Context, conn *pgx.Conn) error {
		return s.change(ctx, conn, func(on querier) error {
			var none any
			return scanOne(ctx, on, []any{&none}, s.sql.StopBulk, arg("id", id), arg("by", storable(by)))
		})
	})
}

// OpenBulks returns bulk changes that have not ended, oldest first.
func (s *Store) OpenBulks(ctx context.Context, after int64, limit int) ([]store.Bulk, error) {
	return s.bulks(ctx, "look for bulk changes", "c.ended_at IS NULL AND c.id > @after", arg("after", after), arg("limit", limit))
}

// GetBulk returns a bulk change; store.ErrNoBulk where there is none.
func (s *Store) GetBulk(ctx context.Context, id int64) (*store.Bulk, error) {
	list, err := s.bulks(ctx, fmt.Sprintf("get bulk change %d", id), "c.id = @id", arg("id", id), arg("limit", 1))
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%d: %w", id, store.ErrNoBulk)
	}
	return &list[0], nil
}

func (s *Store) bulks(ctx context.Context, what, where string, args ...sqltext.Arg) (list []store.Bulk, err error) {
	q, err := s.sql.Bulks.Fill("{where}", where)
	if err != nil {
		return nil, err
	}
	err = s.do(ctx, what, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := query(ctx, conn, q, args...)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (b store.Bulk, err error) {
			var filter []byte
			var again []int64
			err = row.Scan(&b.ID, &b.Version, &b.Verb, &filter, &b.By, &b.Reason, &b.RequestedAt, (*int64)(&b.From), (*int64)(&b.UpTo),
				(*int64)(&b.After), &again, &b.Looked, &b.Refused, &b.Done, &b.Skipped, &b.Stopped, &b.EndedAt)
			for _, id := range again {
				b.Again = append(b.Again, task.ID(id))
			}
			b.ReadFilter(filter)
			return b, err
		})
		return err
	})
	return list, err
}

// LookBulk returns tasks in the order of the look.
func (s *Store) LookBulk(ctx context.Context, l *store.BulkLook) (list []store.BulkTask, err error) {
	q, args, err := s.lookBulk(l)
	if err != nil {
		return nil, err
	}
	err = s.do(ctx, "look at tasks", func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := query(ctx, conn, q, args...)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (t store.BulkTask, err error) {
			var finished *time.Time
			err = row.Scan((*int64)(&t.ID), (*int64)(&t.Fence), (*string)(&t.State), &t.Type, (*int64)(&t.Batch), &t.EverStarted,
				&t.OwnRollback, &t.TypeRollback, &t.Created, &finished, (*[]byte)(&t.Labels), &t.Error, &t.Cancelled, &t.Awaited, &t.Follower)
			if finished != nil {
				t.Finished = *finished
			}
			return t, err
		})
		return err
	})
	return list, err
}

// lookBulk returns the statement of a look, and its arguments.
func (s *Store) lookBulk(l *store.BulkLook) (*sqltext.Query, []sqltext.Arg, error) {
	args := []sqltext.Arg{arg("labels", l.Labels), arg("errors", l.Errors), arg("most_error", store.BulkError)}
	if l.Of != nil {
		return s.sql.LookBulkAgain, append(args, arg("ids", numbers(l.Of))), nil
	}
	args = append(args, arg("live", l.Live), arg("finished", l.Finished), arg("after", int64(l.After)), arg("up_to", int64(l.UpTo)),
		arg("limit", l.Limit))
	terms := []string{"true"}
	switch { // the condition of one index, and no other
	case !l.Succeeded:
		terms = append(terms, "a.state <> 'succeeded'")
	case l.Type != "":
		terms, args = append(terms, "a.type = @type"), append(args, arg("type", l.Type))
	}
	q, err := s.sql.LookBulk.Fill("{where}", strings.Join(terms, " AND "))
	if err == nil && l.Newest {
		q = q.Map(newestFirst)
	}
	return q, args, err
}

var risingIDs = regexp.MustCompile(`(ORDER BY \w\.id)( LIMIT)`)

// newestFirst has a look go by falling ids.
func newestFirst(text string) string { return risingIDs.ReplaceAllString(text, "$1 DESC$2") }

// BatchSpan bounds the ids of the tasks of a batch.
func (s *Store) BatchSpan(ctx context.Context, id task.BatchID) (span store.Span, err error) {
	err = s.do(ctx, "look at a batch", func(ctx context.Context, conn *pgx.Conn) error {
		return queryRow(ctx, conn, s.sql.Span, arg("batch", int64(id))).Scan((*int64)(&span.First), (*int64)(&span.Last))
	})
	return span, err
}

// numbers makes ids a value that pgx can send without knowing their type.
func numbers(ids []task.ID) []int64 {
	list := make([]int64, len(ids))
	for i, id := range ids {
		list[i] = int64(id)
	}
	return list
}

// ApplyBulk applies a step of a bulk change.
func (s *Store) ApplyBulk(ctx context.Context, step *store.BulkStep) (r store.BulkResult, err error) {
	err = s.do(ctx, fmt.Sprintf("carry on bulk change %d", step.Bulk.ID), func(ctx context.Context, conn *pgx.Conn) error {
		var missed []int64
		err := s.change(ctx, conn, func(on querier) error {
			return scanOne(ctx, on, []any{&r.Applied, &r.Rows, &r.Refused, &missed, &r.Ended}, s.sql.ApplyBulk, bulkArgs(step)...)
		})
		if err != nil {
			return err
		}
		for _, id := range missed {
			r.Missed = append(r.Missed, task.ID(id))
		}
		return nil
	})
	return r, err
}

func bulkArgs(step *store.BulkStep) []sqltext.Arg {
	o, p := step.Bulk, &step.Progress
	column := func(n int, of func(i int) int64) []int64 {
		list := make([]int64, n)
		for i := range list {
			list[i] = of(i)
		}
		return list
	}
	rollsBack := make([]bool, len(step.Cancel))
	for i := range step.Cancel {
		rollsBack[i] = step.Cancel[i].RollBack
	}
	batches := make([]*int64, len(step.Revive))
	for i := range step.Revive {
		if step.Revive[i].Batch != 0 {
			batches[i] = (*int64)(&step.Revive[i].Batch)
		}
	}
	return []sqltext.Arg{
		arg("bulk", o.ID), arg("version", o.Version), arg("was_id", int64(p.After)), arg("was_again", numbers(p.Again)),
		arg("was_looked", p.Looked), arg("unable", p.Refused), arg("passed", step.Passed),
		arg("patience", store.BulkPatience.Microseconds()), arg("most_again", store.BulkAgain),
		arg("followers", column(len(step.Followers), func(i int) int64 { return int64(step.Followers[i].ID) })),
		arg("cancels", column(len(step.Cancel), func(i int) int64 { return int64(step.Cancel[i].ID) })),
		arg("cancel_fences", column(len(step.Cancel), func(i int) int64 { return int64(step.Cancel[i].Fence) })),
		arg("cancel_rolls_back", rollsBack),
		arg("asks", column(len(step.Ask), func(i int) int64 { return int64(step.Ask[i].ID) })),
		arg("ask_fences", column(len(step.Ask), func(i int) int64 { return int64(step.Ask[i].Fence) })),
		arg("revives", column(len(step.Revive), func(i int) int64 { return int64(step.Revive[i].ID) })),
		arg("revive_fences", column(len(step.Revive), func(i int) int64 { return int64(step.Revive[i].Fence) })),
		arg("revive_batches", batches),
	}
}
