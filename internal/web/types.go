package web

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// typeRow is a row type with its live tasks, and who works on them.
type typeRow struct {
	Name                  string
	Waiting, Running, Due int64
	Retrying, RollingBack int64
	More                  bool // there are more tasks than were counted
	Oldest                time.Duration
	Agents                int // present ones with workers that declare it
	Orphans               bool
	Pause                 *store.TypePause
	Breaker               *store.OpenBreaker
	Spark                 []block
	Ended, Failed         int64 // attempts in the span of the chart
}

// typeRows are all types that have live tasks, or that a present agent declares.
type typeRows struct {
	list   []typeRow // by name
	agents []store.AgentInfo
	stats  store.Stats // what they were made of
	capped bool
}

// readTypes reads what there is of each type.
func (d *Dashboard) readTypes(r *request) (t typeRows, err error) {
	if t.stats, err = d.Store.Counts(r.ctx); err != nil {
		return t, err
	}
	stats := t.stats
	if t.agents, err = d.Store.ListAgents(r.ctx, false); err != nil {
		return t, err
	}
	pauses, err := d.Store.Pauses(r.ctx)
	if err != nil {
		return t, err
	}
	byName := map[string]*typeRow{}
	of := func(name string) *typeRow {
		if byName[name] == nil {
			byName[name] = &typeRow{Name: name}
		}
		return byName[name]
	}
	for _, c := range stats.Waiting {
		of(c.Type).count(c)
	}
	for name, n := range stats.Due {
		row := of(name)
		row.Due, row.Oldest = n, stats.OldestDue[name]
	}
	for i := range t.agents {
		declared(&t.agents[i], of)
	}
	for i := range pauses {
		of(pauses[i].Type).Pause = &pauses[i]
	}
	for name, row := range byName {
		row.Orphans = stats.Orphans[name] > 0
		t.list = append(t.list, *row)
	}
	slices.SortFunc(t.list, func(a, b typeRow) int { return cmp.Compare(a.Name, b.Name) })
	t.capped = stats.More
	return t, nil
}

// sparks adds what was done of each type lately.
func (t *typeRows) sparks(a *ops.Activity) {
	for i := range a.Types {
		for k := range t.list {
			if row := &t.list[k]; row.Name == a.Types[i].Type {
				row.Spark, row.Ended, row.Failed = spark(&a.Types[i]), a.Types[i].Ended, failedOf(a.Types[i].Outcomes)
			}
		}
	}
}

// count adds the tasks of a state.
func (t *typeRow) count(c store.TypeCount) {
	t.More = t.More || c.More
	switch {
	case c.State.Running():
		t.Running += c.N
	default:
		t.Waiting += c.N
	}
	switch c.State {
	case task.StateRetryPending:
		t.Retrying += c.N
	case task.StateRollbackPending, task.StateRollbackRunning:
		t.RollingBack += c.N
	default:
	}
}

// declared notes what an agent declares, and what keeps it from starting tasks.
func declared(a *store.AgentInfo, of func(string) *typeRow) {
	if a.State == store.AgentObserver {
		return
	}
	for _, name := range a.Types {
		of(name).Agents++
	}
	if a.Condition == nil {
		return
	}
	for i := range a.Condition.Breakers {
		for _, name := range a.Condition.Breakers[i].Types {
			of(name).Breaker = &a.Condition.Breakers[i]
		}
	}
}

// typeList shows all types.
func (d *Dashboard) typeList(r *request) (*view, error) {
	var all typeRows
	var lately *ops.Activity
	if err := atOnce(
		func() (err error) { all, err = d.readTypes(r); return err },
		func() (err error) { lately, err = d.activity(r, ""); return err },
	); err != nil {
		return nil, err
	}
	all.sparks(lately)
	data := struct {
		Now    time.Time
		List   []typeRow
		Capped bool
	}{r.now, all.list, all.capped}
	return &view{Title: "Types", Place: "types", Name: "types", Data: data, Live: events}, nil
}

// mostDefinitions is how many definitions of a type its page has.
const mostDefinitions = 20

// typePage shows one type: its tasks, what is declared of it, and how that has changed.
func (d *Dashboard) typePage(r *request) (*view, error) {
	name, err := r.name("name")
	if err != nil {
		return nil, err
	}
	data := struct {
		Now    time.Time
		Row    typeRow
		Log    []ops.Definition
		Fields []field
		Recent []taskRow
		Chart  *chart
		Said   string
	}{Now: r.now, Row: typeRow{Name: name}, Said: r.said()}
	var all typeRows
	var lately *ops.Activity
	if err := atOnce(
		func() (err error) { all, err = d.readTypes(r); return err },
		func() (err error) { lately, err = d.activity(r, name); return err },
		func() (err error) {
			data.Recent, err = d.taskRows(r, store.TaskFilter{Type: name, Limit: overviewTasks})
			return err
		},
	); err != nil {
		return nil, err
	}
	for _, t := range all.list {
		if t.Name == name {
			data.Row = t
		}
	}
	data.Chart = chartOf(lately)
	if data.Log, err = ops.DefinitionHistory(r.ctx, d.Store, "task", name, mostDefinitions); err != nil && !isMissing(err) {
		return nil, err
	}
	if len(data.Log) > 0 {
		data.Fields = fields(data.Log[0].Fields)
	}
	if len(data.Log) == 0 && len(data.Recent) == 0 && data.Row.Agents == 0 && data.Row.Pause == nil {
		return nil, &missing{"no task and no agent has the type " + ops.OneLine(name, mostName)}
	}
	return &view{Title: name, Place: "types", Name: "type", Data: data, Live: events}, nil
}

// field is an attribute of a declaration.
type field struct{ Name, Value string }

func fields(m map[string]string) []field {
	list := make([]field, 0, len(m))
	for name, value := range m {
		list = append(list, field{name, value})
	}
	slices.SortFunc(list, func(a, b field) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// pauseType pauses a type, or resumes it.
func (d *Dashboard) pauseType(_ http.ResponseWriter, r *request) (string, error) {
	name, err := r.name("name")
	if err != nil {
		return "", err
	}
	verb := r.PathValue("verb")
	if verb != "pause" && verb != "resume" {
		return "", &missing{"a type is paused or resumed"}
	}
	p, err := ops.SetPaused(r.ctx, d.Store, name, verb == "pause", r.PostForm.Get("reason"), r.by())
	if err != nil {
		return "", err
	}
	said := "unchanged"
	if p.Changed {
		said = verb + "d"
	}
	return "/types/" + url.PathEscape(name) + "?said=" + said, nil
}
