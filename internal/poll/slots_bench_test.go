package poll

import (
	"strconv"
	"testing"
	"time"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"
)

// BenchmarkSlots measures what a row costs between its claim and the end of its attempt, with one busy type and so many that
// have no rows.
func BenchmarkSlots(b *testing.B) {
	for _, idle := range []int{0, 9, 99} {
		b.Run(strconv.Itoa(idle), func(b *testing.B) {
			types := make([]*task.Type, 1+idle)
			for i := range types {
				types[i] = &task.Type{Name: strconv.Itoa(i)}
			}
			clock := lease.BootClock()
			s := slotsOf(32, types, clock)
			busy := s.lanes[0]
			l := lease.New(b.Context(), &task.Task{Type: busy.typ.Name}, &task.Policy{}, clock, 0, nil)
			claim := make([]*attempt, 1000)
			b.ReportAllocs()
			for n := 0; n < b.N; n += len(claim) {
				for _, a := range s.wants(time.Millisecond, maxClaim, func(*lane, task.Phase) int { return -1 }) {
					s.setExhausted(a.source, a.lane != busy)
				}
				for i := range claim {
					claim[i] = &attempt{lease: l, declared: busy.declared}
				}
				s.push(claim)
				for j := s.next(); j.first != nil; {
					j = s.done(j.first.lane, ended, clock.Now())
				}
			}
		})
	}
}
