package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

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
	err = s.change(ctx, "start a bulk change", func(t *tx) error {
		if len(r.Reason) > store.MaxReason || len(r.By) > store.MaxBy {
			return &store.InputError{Text: "by and reason must be 512 bytes at most"}
		}
		err := t.row([]any{&id}, t.sql.StartBulk, arg("verb", r.Verb), arg("filter", string(filter)), arg("by", null(r.By)),
			arg("reason", null(r.Reason)), arg("batch", int64(r.Filter.Batch)))
		if err != nil {
			return err
		}
		if _, err := t.exec(t.sql.AuditBulk, arg("id", id), arg("by", null(r.By)), arg("what", ": ")); err != nil {
			return err
		}
		_, err = t.exec(t.sql.WakeForCancel)
		return err
	})
	return id, err
}

// StopBulk stops a bulk change that has not ended.
func (s *Store) StopBulk(ctx context.Context, id int64, by string) error {
	return s.change(ctx, "stop a bulk change", func(t *tx) error {
		n, err := t.exec(t.sql.StopBulk, arg("id", id), arg("now", stamp(t.now)))
		if err != nil || n == 0 {
			return err
		}
		_, err = t.exec(t.sql.AuditBulk, arg("id", id), arg("by", null(by)), arg("what", " stopped"))
		return err
	})
}

// OpenBulks returns bulk changes that have not ended, oldest first.
func (s *Store) OpenBulks(ctx context.Context, after int64, limit int) ([]store.Bulk, error) {
	return s.bulks(ctx, "look for bulk changes", s.sql.OpenBulks, arg("after", after), arg("limit", limit))
}

// GetBulk returns a bulk change; store.ErrNoBulk where there is none.
func (s *Store) GetBulk(ctx context.Context, id int64) (*store.Bulk, error) {
	list, err := s.bulks(ctx, "get a bulk change", s.sql.GetBulk, arg("id", id))
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%d: %w", id, store.ErrNoBulk)
	}
	return &list[0], nil
}

func (s *Store) bulks(ctx context.Context, what string, q *sqltext.Query, args ...sqltext.Arg) (list []store.Bulk, err error) {
	err = s.view(ctx, what, func(t *snapshot) error {
		return t.query(func(r *sql.Rows) error {
			var b store.Bulk
			var filter, again []byte
			var ended time.Time
			err := r.Scan(&b.ID, &b.Version, &b.Verb, &filter, &b.By, &b.Reason, timeOf{&b.RequestedAt}, &b.From, &b.UpTo, &b.After, &again,
				&b.Looked, &b.Refused, &b.Done, &b.Skipped, &b.Stopped, timeOf{&ended})
			if err != nil {
				return err
			}
			b.EndedAt = pointer(ended)
			b.ReadFilter(filter)
			b.Foreign = b.Foreign || json.Unmarshal(again, &b.Again) != nil // an application can write anything into the file
			list = append(list, b)
			return nil
		}, q, args...)
	})
	return list, err
}

// LookBulk returns tasks in the order of the look.
func (s *Store) LookBulk(ctx context.Context, l *store.BulkLook) (list []store.BulkTask, err error) {
	args := []sqltext.Arg{
		arg("labels", l.Labels), arg("errors", l.Errors), arg("most_error", store.BulkError),
		arg("after", int64(l.After)), arg("up_to", int64(l.UpTo)), arg("limit", l.Limit), arg("type", l.Type),
	}
	err = s.view(ctx, "look at tasks", func(t *snapshot) error {
		if l.Of != nil {
			args = append(args, arg("ids", jsonList(l.Of)))
		}
		for _, q := range t.sql.looksOf(l) {
			if l.Newest {
				q = q.Map(newestFirst)
			}
			if err := t.query(scanBulkTasks(&list), q, given(q, slices.Clone(args))...); err != nil {
				return err
			}
		}
		return nil
	})
	slices.SortFunc(list, func(a, b store.BulkTask) int {
		if l.Newest {
			a, b = b, a
		}
		return cmp.Compare(a.ID, b.ID)
	})
	if l.Of == nil {
		list = list[:min(len(list), l.Limit)]
	}
	return list, err
}

// newestFirst has a statement of a look go by falling ids.
func newestFirst(text string) string {
	return strings.ReplaceAll(text, "ORDER BY id LIMIT", "ORDER BY id DESC LIMIT")
}

// looksOf are the statements that find what a look asks for.
func (q *statements) looksOf(l *store.BulkLook) (list []*sqltext.Query) {
	if l.Of != nil {
		return []*sqltext.Query{q.LookBulkAgain}
	}
	if l.Live {
		list = append(list, q.LookBulkLive, q.LookBulkFollowers)
	}
	switch {
	case !l.Finished:
	case !l.Succeeded:
		list = append(list, q.LookBulkUnsuccessful)
	case l.Type != "":
		list = append(list, q.LookBulkType)
	default:
		list = append(list, q.LookBulkFinished)
	}
	return list
}

// BatchSpan bounds the ids of the tasks of a batch.
func (s *Store) BatchSpan(ctx context.Context, id task.BatchID) (span store.Span, err error) {
	err = s.view(ctx, "look at a batch", func(t *snapshot) error {
		return t.row([]any{&span.First, &span.Last}, t.sql.BatchSpan, arg("batch", int64(id)))
	})
	return span, err
}

// scanBulkTasks gathers the rows of the statements that look at tasks.
func scanBulkTasks(into *[]store.BulkTask) func(*sql.Rows) error {
	return func(r *sql.Rows) error {
		var t store.BulkTask
		err := r.Scan(&t.ID, &t.Fence, &t.State, &t.Type, &t.Batch, truthOf{&t.EverStarted}, &t.OwnRollback, &t.TypeRollback, timeOf{&t.Created},
			timeOf{&t.Finished}, jsonOf{&t.Labels}, &t.Error, &t.Cancelled, &t.Awaited, &t.Follower)
		*into = append(*into, t)
		return err
	}
}

// ApplyBulk applies a step of a bulk change. Each task is changed by the function for single tasks.
func (s *Store) ApplyBulk(ctx context.Context, step *store.BulkStep) (r store.BulkResult, err error) {
	err = s.change(ctx, "carry on a bulk change", func(t *tx) error {
		r = store.BulkResult{}
		b := bulking{tx: t, step: step, r: &r}
		err := t.row([]any{&b.by, &b.reason, timeOf{&b.againUntil}, &b.skipped}, t.sql.BulkSeen,
			arg("id", step.Bulk.ID), arg("version", step.Bulk.Version))
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		r.Applied = true
		return b.apply()
	})
	if err != nil {
		return store.BulkResult{}, fmt.Errorf("bulk change %d: %w", step.Bulk.ID, err)
	}
	return r, nil
}

// bulking is a step that is being applied.
type bulking struct {
	*tx
	step       *store.BulkStep
	r          *store.BulkResult
	by, reason string
	againUntil time.Time
	skipped    int64
}

func (b *bulking) apply() error {
	var before int64
	if err := b.row([]any{&before}, b.sql.LastAudit); err != nil {
		return err
	}
	if err := b.changeAll(); err != nil {
		return err
	}
	if b.reason != "" {
		if _, err := b.exec(b.sql.AuditReason, arg("last", before), arg("reason", b.reason)); err != nil {
			return err
		}
	}
	return b.keep()
}

// changeAll changes the tasks of the step.
func (b *bulking) changeAll() error {
	for i := range b.step.Followers { // before the tasks that they follow: these would free them
		if err := b.one(&b.step.Followers[i].BatchTask, b.sql.BulkFollows); err != nil {
			return err
		}
	}
	for i := range b.step.Cancel {
		if err := b.one(&b.step.Cancel[i].BatchTask, b.sql.BulkLiveAs); err != nil {
			return err
		}
	}
	for i := range b.step.Ask {
		if err := b.one(&b.step.Ask[i].BatchTask, b.sql.BulkLiveAs); err != nil {
			return err
		}
	}
	for i := range b.step.Revive {
		if err := b.one(&b.step.Revive[i].BatchTask, b.sql.BulkFinishedAs); err != nil {
			return err
		}
	}
	return nil
}

// one changes a task, if it is what was seen.
func (b *bulking) one(at *store.BatchTask, seen *sqltext.Query) error {
	args := []sqltext.Arg{arg("id", int64(at.ID))}
	if seen != b.sql.BulkFollows {
		args = append(args, arg("fence", int64(at.Fence)), arg("state", string(at.State)))
	}
	var same bool
	if err := b.row([]any{&same}, seen, args...); err != nil {
		return err
	}
	if !same {
		b.r.Missed = append(b.r.Missed, at.ID)
		return nil
	}
	change, with := b.sql.Cancel, []sqltext.Arg{arg("id", int64(at.ID)), arg("by", null(b.by))}
	switch b.step.Bulk.Verb {
	case store.VerbRetry:
		change, with = b.sql.Retry, append(with, arg("payload", nil))
	case store.VerbRollback:
		change = b.sql.Rollback
	}
	_, err := b.exec(change, with...)
	if err != nil {
		if refused(err) == nil {
			return err
		}
		b.r.Refused++ // the statement was taken back, and nothing else
		return nil
	}
	b.r.Rows++
	return nil
}

// keep writes how far the change is.
func (b *bulking) keep() error {
	p, r := &b.step.Progress, b.r
	again := append(slices.Clone(p.Again), r.Missed...)
	var until, ended any
	if b.step.Passed {
		if b.againUntil.IsZero() {
			b.againUntil = b.now.Add(store.BulkPatience)
		}
		until = stamp(b.againUntil)
		r.Ended = len(again) == 0 || !b.now.Before(b.againUntil)
	}
	most := store.BulkAgain
	if r.Ended {
		ended, most = stamp(b.now), 0
	}
	if len(again) > most {
		b.skipped += int64(len(again) - most)
		again = again[:most]
	}
	if again == nil {
		again = []task.ID{}
	}
	_, err := b.exec(b.sql.KeepBulk, arg("id", b.step.Bulk.ID), arg("after", int64(p.After)), arg("looked", p.Looked), arg("rows", r.Rows),
		arg("refused", p.Refused+r.Refused), arg("again", jsonList(again)), arg("again_until", until), arg("skipped", b.skipped),
		arg("ended_at", ended))
	return err
}
