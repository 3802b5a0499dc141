package check

import "time"

// SlotsOnce says: no slot of a schedule fires twice.
//
// It must hold because a row is inserted in the transaction that moves its schedule past the slot, which applies only to the
// version of the schedule that was seen; and because no cursor goes back below a slot that has fired.
//
// There are no exemptions: not even a jump of the server's clock may have a slot fire again.
const SlotsOnce Name = "SlotsOnce"

// SlotsAccounted says: each slot between the first and the last that fired has fired, or is counted as missed.
//
// It must hold because the count moves in the transaction that moves the schedule. After a jump of the clock a slot may be
// counted twice, as missed slots are looked at again; so there may be more, never fewer.
const SlotsAccounted Name = "SlotsAccounted"

func slotsOnce(x *index, f *found) {
	for _, s := range x.h.Schedules {
		distinct := int64(min(len(s.Fired), 1))
		for i := 1; i < len(s.Fired); i++ {
			if s.Fired[i].Equal(s.Fired[i-1]) {
				f.add(SlotsOnce, x.end, 0, "schedule %q fired slot %s again", s.Name, s.Fired[i].Format(time.RFC3339))
				continue
			}
			distinct++
		}
		if len(s.Fired) == 0 {
			continue
		}
		first, last := s.Fired[0], s.Fired[len(s.Fired)-1]
		if slots := int64(last.Sub(first)/time.Second) + 1; distinct+s.Missed < slots {
			f.add(SlotsAccounted, x.end, 0, "schedule %q: of %d slots %d fired and %d were missed", s.Name, slots, distinct, s.Missed)
		}
	}
}
