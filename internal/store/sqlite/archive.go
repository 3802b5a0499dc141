package sqlite

import (
	"fmt"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// mostArchived is how many rows one statement copies at most.
const mostArchived = 64

// archiveAtOnce returns how many of n rows the next statement copies. There are statements of three sizes. One for a single row takes
// several times as long for each as one for many: most of it is what comes before and after the row.
func archiveAtOnce(n int) int {
	switch {
	case n >= mostArchived:
		return mostArchived
	case n >= 8:
		return 8
	default:
		return 1
	}
}

// alike is what the rows of one statement have in common.
type alike struct {
	state        task.State
	deferrals    int
	started      bool
	outcome, err any
	output       string
	afterLease   bool
	onFailed     string
}

func alikeOf(e *store.Settlement) alike {
	outcome, reason := kept(e)
	return alike{e.Next.State, e.Next.Deferrals, e.Next.EverStarted, outcome, reason, e.Outcome.Output, e.Next.AfterLease, e.Next.OnFailed}
}

// archive copies the rows of the list; finish deletes all of them at once.
func (b *settling) archive() error {
	list := b.list
	b.list = b.list[:0]
	for len(list) > 0 {
		same, n := alikeOf(list[0].e), 1
		for n < min(len(list), mostArchived) && alikeOf(list[n].e) == same {
			n++
		}
		n = archiveAtOnce(n)
		if err := b.archiveSome(list[:n], same); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

// archiveSome copies rows by one statement, and answers for them. After an error it does not try them one by one, as it may have
// ended the transaction: the caller settles fewer rows at a time, and finds the one that is to blame.
func (b *settling) archiveSome(list []finished, all alike) error {
	n, err := b.copyToArchive(list, all)
	switch {
	case err != nil && len(list) > 1:
		return fmt.Errorf("task %d or one of the next %d: %w", list[0].e.ID, len(list)-1, err)
	case err != nil:
		return fmt.Errorf("task %d: %w", list[0].e.ID, err)
	}
	copied, err := b.copied(list, n)
	if err != nil {
		return err
	}
	for _, f := range list {
		applied := copied == nil || copied[f.e.ID]
		if applied {
			b.ends[f.e.ID], b.archived = f.e.Fence, append(b.archived, f.e.ID)
		}
		if applied && f.e.Next.OnFailed != "" {
			if err := b.insertOnFailed(f.e); err != nil {
				return fmt.Errorf("task %d: %w", f.e.ID, err)
			}
		}
		if err := b.answer(f, applied); err != nil {
			return fmt.Errorf("task %d: %w", f.e.ID, err)
		}
	}
	return nil
}

// insertOnFailed inserts the row of on_failed for a task that was copied, if it is to have one: only the store knows that.
func (b *settling) insertOnFailed(e *store.Settlement) error {
	outcome, reason := kept(e)
	_, err := b.exec(b.sql.InsertOnFailed, arg("id", int64(e.ID)), arg("on_failed", e.Next.OnFailed), arg("state", string(e.Next.State)),
		arg("outcome", outcome), arg("error", reason), arg("now", b.at), arg("after_lease", e.Next.AfterLease))
	return err
}

// copyToArchive returns how many of the rows it has copied: those that the session still holds.
func (b *settling) copyToArchive(list []finished, all alike) (int64, error) {
	values := b.values[:0]
	values = append(values, b.at, int64(b.session), string(all.state), int64(all.deferrals), all.started, all.outcome, all.err,
		null(all.output), all.afterLease, null(all.onFailed))
	shared := len(values)
	for i := range list {
		e := list[i].e
		values = append(values, int64(e.ID), int64(e.Fence), int64(e.Next.Attempt), e.NewResult(), jsonText(e.Outcome.Result),
			list[i].ran.began)
	}
	b.values = values
	return b.execText(listOf(b.sql.Archive, shared, len(list)), values...)
}

// copied returns which rows of a list were copied, if n of them were; nil: all.
func (b *settling) copied(list []finished, n int64) (map[task.ID]bool, error) {
	found := map[task.ID]bool{}
	if n == int64(len(list)) {
		return nil, nil //nolint:nilnil // mostly, and a map of all would cost each row
	}
	if n == 0 {
		return found, nil
	}
	ids := make([]task.ID, len(list))
	for i := range list {
		ids[i] = list[i].e.ID
	}
	var both []task.ID
	err := b.query(scanIDs(&both), b.sql.Copied, arg("ids", jsonList(ids)))
	for _, id := range both {
		found[id] = true
	}
	return found, err
}
