package store

// Halted is what does nothing until an operator or a deploy changes it. Both counts end at DiagnosisListed + 1.
type Halted struct {
	Schedules int              // parked: no present session declares them
	Sequences map[string]int64 // blocked by a failure, by type
}

// Halted counts what is halted among the schedules and sequences that were read.
func (d *Diagnosis) Halted() Halted {
	h := Halted{Sequences: map[string]int64{}}
	for i := range d.Schedules {
		if d.Schedules[i].ParkedAt != nil {
			h.Schedules++
		}
	}
	for i := range d.Sequences {
		h.Sequences[d.Sequences[i].Type]++
	}
	return h
}
