package store

import (
	"fmt"
	"time"
)

// SlotText returns a slot as the payloads of its tasks have it: RFC 3339, UTC, with milliseconds where it has any.
func SlotText(slot time.Time) string {
	return slot.UTC().Truncate(time.Millisecond).Format(time.RFC3339Nano)
}

// Inserted is the answer that the audit notes for a firing that is aside, of so many rows.
func Inserted(rows int) string { return fmt.Sprintf("inserted %d", rows) }

// FirstOfEach returns the places of firings in a list, of each schedule the first only: what a later one saw is no longer so
// once the first is applied.
func FirstOfEach(list []Firing) []int {
	seen, places := make(map[string]bool, len(list)), make([]int, 0, len(list))
	for i := range list {
		if !seen[list[i].Name] {
			seen[list[i].Name] = true
			places = append(places, i)
		}
	}
	return places
}
