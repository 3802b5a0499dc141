package check

// LimitHolds says: of a type with a limit no more rows run at once, on all agents together, than the limit says, whatever they are for
// and whichever session holds them.
//
// It must hold because a claim counts what runs while it has the limit locked, and commits before another one counts.
//
// There are no exemptions: neither crashes nor jumps of the server's clock may have one more row run.
const LimitHolds Name = "LimitHolds"

func limitHolds(x *index, f *found) {
	for _, s := range x.h.Limits {
		if most := x.h.Kinds[s.Kind].Most; s.Running > most {
			f.add(LimitHolds, s.At, 0, "%d tasks of type %q ran at once, and its limit is %d", s.Running, s.Kind, most)
		}
	}
}
