package ops

import (
	"fmt"
	"strings"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// After returns what a task waits for, or has waited for, and how that has ended so far: at most so many tasks, and how many more there
// are; "" for nothing.
func After(i *Task, most int) string {
	if i.Related == nil || i.Related.AfterTotal == 0 {
		return ""
	}
	text := neighbours(i.Related.After, i.Related.AfterTotal, most)
	if i.Related.AfterIf == store.AfterIfAny {
		text += ", however they end"
	}
	if i.Held == task.HoldAfter {
		text += " (waits for them)"
	}
	return text
}

// WaitedForBy returns which tasks wait for one; "" for none.
func WaitedForBy(i *Task, most int) string {
	if i.Related == nil || i.Related.WaitingTotal == 0 {
		return ""
	}
	return neighbours(i.Related.Waiting, i.Related.WaitingTotal, most)
}

// CancelledFor returns which tasks were cancelled on account of one, with what is in the way of their revival; "" for none.
func CancelledFor(i *Task, most int) string {
	if i.Related == nil || i.Related.CancelledTotal == 0 {
		return ""
	}
	return neighbours(i.Related.Cancelled, i.Related.CancelledTotal, most)
}

// RetriedWith returns how many tasks a retry revives beside the one that it names, and which not; "" for none. It lists at most so many.
func RetriedWith(r Report, most int) string {
	text := ""
	switch {
	case r.Revives == 1:
		text = ", and 1 task that was cancelled for it"
	case r.Revives > 1:
		text = fmt.Sprintf(", and %d tasks that were cancelled for it", r.Revives)
	}
	if len(r.Barred) > 0 {
		text += "; not " + neighbours(r.Barred, len(r.Barred), most)
	}
	return text
}

// neighbours lists tasks with their states.
func neighbours(list []store.Neighbour, total, most int) string {
	var parts []string
	for _, n := range list[:min(len(list), most)] {
		how := string(n.State)
		if n.Type == "" {
			how = "past its retention"
		}
		if n.Barred != "" {
			how += " (" + n.Barred + ")"
		}
		parts = append(parts, fmt.Sprintf("%d %s", n.ID, how))
	}
	text := strings.Join(parts, ", ")
	if more := total - len(parts); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
