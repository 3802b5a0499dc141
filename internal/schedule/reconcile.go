package schedule

import (
	"fmt"

	"github.com/leasehold/leasehold/internal/store"
)

// Refused is a declaration of present agents that is not put in force.
type Refused struct {
	Name, Task string
	Reason     string // with the remedy
}

// Reconcile decides what becomes of a schedule that is not what present agents declare: the newest of their declarations is put in
// force, one that none of them declares is parked. nil: nothing now.
//
// A schedule keeps its task type for as long as it exists, since two services that use one name would take it from each other in
// turns; and one that an application inserted belongs to the application. One that is due is left until it has fired: with other
// slots it would start from now.
func Reconcile(u *store.UnsettledSchedule) (change *store.ScheduleChange, refused []Refused) {
	if u.Exists && u.Source != store.SourceHCL {
		for _, task := range tasks(u.Present) {
			refused = append(refused, Refused{u.Name, task, fmt.Sprintf("a schedule %q was inserted by SQL: use another name, or remove that one "+
				"with `leasehold schedule rm`", u.Name)})
		}
		return nil, refused
	}
	task := u.Task
	if !u.Exists && len(u.Present) > 0 {
		task = u.Present[0].Spec.Task // who came first has the name
	}
	var to *store.Declaration
	for i, d := range u.Present {
		if d.Spec.Task == task {
			to = &u.Present[i]
		}
	}
	for _, other := range tasks(u.Present) {
		if other != task {
			refused = append(refused, Refused{u.Name, other, fmt.Sprintf("a schedule %q of the task type %q exists: use another name; or take "+
				"that one out of all configurations, and remove it with `leasehold schedule rm`", u.Name, task)})
		}
	}
	change = &store.ScheduleChange{Name: u.Name, Exists: u.Exists, Version: u.Version, To: to}
	switch {
	case to == nil && (!u.Exists || u.Parked): // as it should be
		return nil, refused
	case to != nil && u.Exists && !u.Parked && u.Declared == to.Number:
		return nil, refused
	case to != nil && u.Due && u.Declared != to.Number:
		return nil, refused
	}
	return change, refused
}

// tasks returns the task types that declarations have, in their order.
func tasks(list []store.Declaration) (all []string) {
	seen := make(map[string]bool)
	for _, d := range list {
		if !seen[d.Spec.Task] {
			seen[d.Spec.Task] = true
			all = append(all, d.Spec.Task)
		}
	}
	return all
}
