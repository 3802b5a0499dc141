package store

import (
	"cmp"
	"slices"
	"time"
)

// Bounds of what Orphans looks at.
const (
	OrphanTypes = 1000 // types that are listed
	OrphanSteps = 2000 // types that are looked at in each index that has waiting rows by type
	OrphanHeld  = 5000 // rows that are looked at in each index that does not: those that wait for a lock or for others, and those that run
)

// CountedOf returns how many rows are counted of each of n things at most: the more things, the fewer.
func CountedOf(n int) int {
	const all = 20_000
	for _, most := range []int{CountedRows, 5000, 2000, 1000, 500, 200} {
		if n*most <= all {
			return most
		}
	}
	return 100
}

// OrphanList is the types of waiting rows that no present agent declares, by name.
type OrphanList struct {
	List []OrphanType
	More bool // there may be more types than were looked at
}

// OrphanTally sums what indexes have of the rows of types. The zero value has none.
type OrphanTally struct {
	of     map[string]*OrphanType
	More   bool // there may be more types
	Capped bool // some of the rows that an index has were not looked at, whatever their types
}

// Type returns what is known of a type.
func (t *OrphanTally) Type(name string) *OrphanType {
	if t.of == nil {
		t.of = map[string]*OrphanType{}
	}
	if t.of[name] == nil {
		t.of[name] = &OrphanType{Type: name}
	}
	return t.of[name]
}

// Wait adds rows of the type that wait, the oldest of them inserted at that time.
func (o *OrphanType) Wait(n int64, oldest time.Time) {
	if n > 0 && (o.Waiting == 0 || oldest.Before(o.Oldest)) {
		o.Oldest = oldest
	}
	o.Waiting += n
}

// Undeclared forgets the types that are declared, and those behind the first OrphanTypes, and returns the others, by name.
func (t *OrphanTally) Undeclared(declared map[string]bool) []string {
	names := []string{} // not nil: drivers take that for NULL
	for name := range t.of {
		if !declared[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) > OrphanTypes {
		names, t.More = names[:OrphanTypes], true
	}
	return names
}

// List returns those of the types of which rows wait. Of each, no more than most are said to.
func (t *OrphanTally) List(names []string, most int) OrphanList {
	all := OrphanList{More: t.More}
	for _, name := range names {
		o := *t.Type(name)
		if o.Waiting == 0 {
			continue // another has taken them meanwhile
		}
		o.Capped = o.Capped || t.Capped || o.Waiting > int64(most)
		o.Waiting = min(o.Waiting, int64(most))
		all.List = append(all.List, o)
	}
	slices.SortFunc(all.List, func(a, b OrphanType) int { return cmp.Compare(a.Type, b.Type) })
	return all
}
