package web

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/api"
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Bounds of a list of tasks.
const (
	listTasks = 50
	listBytes = 4 << 20 // of documents that are read for it
)

// taskRow is a task in a list.
type taskRow struct {
	*ops.Task
	When     string
	Detail   string
	Part     float64 // of the work, as the task has said; with HasPart
	HasPart  bool
	LeftText string // of its lease
}

func rowOf(i *ops.Task, now time.Time) taskRow {
	row := taskRow{Task: i, When: ops.When(i, now), Detail: ops.OneLine(ops.Detail(i), mostLine)}
	if i.State.Running() {
		row.Part, row.HasPart = share(i.Progress)
	}
	if i.LeaseEnd != nil && i.State.Running() {
		row.LeftText = ago(now, i.LeaseEnd)
	}
	return row
}

// taskRows reads tasks for a list.
func (d *Dashboard) taskRows(r *request, f store.TaskFilter) ([]taskRow, error) {
	page, err := ops.PageTasks(r.ctx, d.Store, f, listBytes)
	if err != nil {
		return nil, err
	}
	rows := make([]taskRow, 0, len(page.Tasks))
	for i := range page.Tasks {
		rows = append(rows, rowOf(&page.Tasks[i], r.now))
	}
	return rows, nil
}

// taskList is a page of tasks, and the filter that they match.
type taskList struct {
	Now        time.Time
	Filter     taskFilter
	Rows       []taskRow
	Next       string // address of the next page; "": there is none
	First      string // address of the first page; "": this is it
	LookedBack *ops.LookedBack
	States     []task.State
	Said       string
	OneWay     bool // tasks of the type cannot be rolled back
}

// taskFilter is a filter as it stands in an address.
type taskFilter struct {
	store.TaskFilter
	Labels string // name=value, separated by spaces
	values url.Values
}

// With is the address of the list with another value of one parameter; "" for none.
func (f taskFilter) With(name, value string) string {
	v := url.Values{}
	for n, list := range f.values {
		v[n] = slices.Clone(list)
	}
	v.Del("before")
	v.Del(name)
	if value != "" {
		v.Set(name, value)
	}
	if len(v) == 0 {
		return "/tasks"
	}
	return "/tasks?" + v.Encode()
}

// Has reports whether the list has just the tasks of a state.
func (f taskFilter) Has(s task.State) bool { return slices.Contains(f.States, s) }

// Query is the filter as a query, for a change of all tasks that match.
func (f taskFilter) Query() string {
	v := url.Values{}
	for n, list := range f.values {
		if n != "before" {
			v[n] = list
		}
	}
	return v.Encode()
}

// Any reports whether the filter is for some tasks only, in a way that a change of all that match can be, too.
func (f taskFilter) Any() bool {
	return f.Key == "" && (f.Type != "" || len(f.States) > 0 || len(f.TaskFilter.Labels) > 0 || f.Batch != 0)
}

// readFilter reads the filter of a list.
func (r *request) readFilter() (f taskFilter, err error) {
	f.values = url.Values{}
	for _, name := range []string{"type", "state", "key", "label", "batch", "before"} {
		if list := r.list(name); len(list) > 0 {
			f.values[name] = list
		}
	}
	if f.Type, err = r.text("type"); err != nil {
		return f, err
	}
	if f.Key, err = r.text("key"); err != nil {
		return f, err
	}
	if f.States, err = ops.ParseStates(r.list("state")); err != nil {
		return f, err
	}
	f.Labels = strings.Join(r.list("label"), " ")
	if f.TaskFilter.Labels, err = labels(f.Labels); err != nil {
		return f, err
	}
	batch, err := r.id("batch")
	if err != nil {
		return f, err
	}
	before, err := r.id("before")
	f.Batch, f.Before, f.Limit = task.BatchID(batch), task.ID(before), listTasks
	return f, err
}

// labels reads name=value, separated by spaces.
func labels(text string) (map[string]string, error) {
	if !store.Storable(text) {
		return nil, &mistaken{"labels: text must be UTF-8 without NUL"}
	}
	var m map[string]string
	for pair := range strings.FieldsSeq(text) {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, &mistaken{"labels: use name=value, several separated by spaces"}
		}
		if m == nil {
			m = map[string]string{}
		}
		m[name] = value
	}
	return m, nil
}

// goTo leads to the task whose number was given.
func (d *Dashboard) goTo(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.ParseInt(strings.TrimSpace(r.URL.Query().Get("id")), 10, 64)
	if err != nil || id < 1 {
		d.fail(w, r, &mistaken{"a task has a number: " + api.Quote(r.URL.Query().Get("id")) + " is none"})
		return
	}
	http.Redirect(w, r, "/tasks/"+strconv.FormatInt(id, 10), http.StatusSeeOther)
}

// taskList shows tasks.
func (d *Dashboard) taskList(r *request) (*view, error) {
	f, err := r.readFilter()
	if err != nil {
		return nil, err
	}
	page, err := ops.PageTasks(r.ctx, d.Store, f.TaskFilter, listBytes)
	if err != nil {
		return nil, err
	}
	l := &taskList{Now: r.now, Filter: f, LookedBack: page.LookedBack, States: task.States(), Said: r.said()}
	for i := range page.Tasks {
		l.Rows = append(l.Rows, rowOf(&page.Tasks[i], r.now))
	}
	if f.Type != "" && f.Any() {
		can, err := d.Store.CanRollBack(r.ctx, f.Type, 0)
		if err != nil {
			return nil, err
		}
		l.OneWay = !can
	}
	if page.Before > 0 {
		l.Next = f.With("before", strconv.FormatInt(int64(page.Before), 10))
	}
	live := events
	if f.Before > 0 {
		l.First, live = f.With("before", ""), ""
	}
	return &view{Title: "Tasks", Place: "tasks", Name: "tasks", Data: l, Live: live}, nil
}
