package schedule

import (
	"fmt"
	"regexp"
	"time"
)

// zone maps moments (seconds since 1970 UTC) to wall time. It asks the standard library only for the offset at a moment, never
// for the bounds in which that offset holds: for years past a zone's table these are not always right.
type zone struct {
	lookup func(t int64) (offset int64)
	fixed  bool // the offset never changes
}

const (
	probe = 12 * 60 * 60 // no zone changes its offset twice in this time, in seconds (TestZonesChangeRarely)
	reach = 48 * 60 * 60 // clocks are never changed by more than about a day; this is longer, in seconds
)

// Zones have a capital first letter. What else stands in a system's directory of zones ("posixrules", and "right/…", whose
// clocks count leap seconds) is none.
var zoneName = regexp.MustCompile(`^[A-Z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$`)

// loadZone returns the zone of an IANA name; "" is UTC.
func loadZone(name string) (*zone, error) {
	if name == "" {
		name = defaultTimezone
	}
	if name == "Local" || !zoneName.MatchString(name) {
		return nil, fmt.Errorf(`%q is not the name of a time zone: use an IANA name, as in "Asia/Singapore" or "UTC"`, name)
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf(`there is no time zone %q: use an IANA name, as in "Asia/Singapore" or "UTC"`, name)
	}
	if loc == time.UTC {
		return &zone{lookup: func(int64) int64 { return 0 }, fixed: true}, nil
	}
	return &zone{lookup: func(t int64) int64 {
		_, offset := time.Unix(t, 0).In(loc).Zone()
		return int64(offset)
	}}, nil
}

// offset returns by how many seconds wall time is ahead of UTC at a moment.
func (z *zone) offset(t int64) int64 { return z.lookup(t) }

// change returns the first moment after t, and no later than limit, that has another offset than t.
func (z *zone) change(t, limit int64) (int64, bool) {
	if z.fixed {
		return 0, false
	}
	o := z.offset(t)
	for t < limit {
		next := min(t+probe, limit)
		if z.offset(next) == o {
			t = next
			continue
		}
		for next-t > 1 {
			if middle := t + (next-t)/2; z.offset(middle) == o {
				t = middle
			} else {
				next = middle
			}
		}
		return next, true
	}
	return 0, false
}

// repeats reports whether the wall time w, which the zone shows at the moment t, was shown before: the clock has been set back.
func (z *zone) repeats(t, w int64) bool {
	if z.fixed {
		return false
	}
	for before := t - probe; before >= t-reach; before -= probe {
		if first := w - z.offset(before); first < t && first+z.offset(first) == w {
			return true
		}
	}
	return false
}
