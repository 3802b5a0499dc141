package poll

// stride is how many rows go into one call: half as many after one that failed, since a statement over fewer or lighter
// rows may be quick enough where that one was cut, and twice as many again after some that went well.
type stride struct {
	rows int // of the next call; > 0
	most int
	good int // calls that went well since rows changed
}

// strideAfter is how many calls must go well before more is dared.
const strideAfter = 8

func newStride(most int) *stride { return &stride{rows: most, most: most} }

func (s *stride) failed(rows int) { s.rows, s.good = max(min(rows, s.rows)/2, 1), 0 }

func (s *stride) went() {
	if s.good++; s.good >= strideAfter {
		s.rows, s.good = min(2*s.rows, s.most), 0
	}
}
