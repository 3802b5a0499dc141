package activity

import (
	"cmp"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/store"
)

// maxRows bounds the rows in memory, 250 bytes each: an hour and a half of 100 types.
const (
	maxRows  = 10_000
	lessRows = 9_000 // what stays of more, so that they are rarely sorted
)

// key names a row of this agent's.
type key struct {
	step store.ActivityStep
	at   time.Time
	typ  string
}

// row is what was counted in an interval.
type row struct {
	store.ActivityCounts
	changed bool // since it was written
}

// rows are what the agent has counted lately. A row that was written stays for a while: should the store's clock be set back into its
// interval, the counts go on from where they were.
type rows struct {
	all     map[key]*row
	changed int
	dropped int64 // rows that were never written, since the last write that the store has taken
}

func newRows() *rows { return &rows{all: map[key]*row{}} }

// add adds what was counted at a time.
func (r *rows) add(at time.Time, typ string, n *store.ActivityCounts) {
	for _, step := range []store.ActivityStep{store.ActivityMinute, store.ActivityHour} {
		k := key{step, step.Of(at), typ}
		x := r.all[k]
		if x == nil {
			x = new(row)
			r.all[k] = x
		}
		if !x.changed {
			x.changed = true
			r.changed++
		}
		x.Add(n)
	}
}

// trim drops rows that the store would not take any more, and the oldest beyond maxRows: first those that were written, then
// minutes, and hours last, as these have the same in less detail.
func (r *rows) trim(now time.Time) {
	for k, x := range r.all {
		if !k.at.After(now.Add(-k.step.Kept())) || !x.changed && k.at.Add(k.step.Length()).Before(now.Add(-rowsStay)) {
			r.drop(k, x)
		}
	}
	if len(r.all) <= maxRows {
		return
	}
	keys := make([]key, 0, len(r.all))
	for k := range r.all {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b key) int {
		return cmp.Or(compareBool(r.all[a].changed, r.all[b].changed), cmp.Compare(a.step, b.step), a.at.Compare(b.at), cmp.Compare(a.typ, b.typ))
	})
	for _, k := range keys[:len(keys)-lessRows] {
		r.drop(k, r.all[k])
	}
}

// rowsStay is how long a row stays that was written.
const rowsStay = 65 * time.Minute // a clock may be an hour off because of a time zone

func (r *rows) drop(k key, x *row) {
	if x.changed {
		r.changed--
		r.dropped++
	}
	delete(r.all, k)
}

// next returns rows that have changed since they were written, oldest first, store.ActivityRows at most, and takes them to be written.
func (r *rows) next() []store.ActivityRow {
	keys := make([]key, 0, r.changed)
	for k, x := range r.all {
		if x.changed {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b key) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.step, b.step), cmp.Compare(a.typ, b.typ))
	})
	keys = keys[:min(len(keys), store.ActivityRows)]
	list := make([]store.ActivityRow, len(keys))
	for i, k := range keys {
		x := r.all[k]
		x.changed = false
		r.changed--
		list[i] = store.ActivityRow{Step: k.step, At: k.at, Type: k.typ, ActivityCounts: x.ActivityCounts}
	}
	return list
}

// again takes back that rows were written.
func (r *rows) again(list []store.ActivityRow) {
	for _, w := range list {
		if x := r.all[key{w.Step, w.At, w.Type}]; x != nil && !x.changed {
			x.changed = true
			r.changed++
		}
	}
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
