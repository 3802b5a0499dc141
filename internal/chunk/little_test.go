package chunk_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/chunk"
	"github.com/leasehold/leasehold/internal/store"
)

// slow is a source that takes a while for each row that it reads.
type slow struct {
	*ints
	each, read time.Duration // read: in all
}

func (s *slow) Cut(ctx context.Context, after, limit *chunk.Key, n, most int) (out chunk.Cuts, err error) {
	out, err = s.ints.Cut(ctx, after, limit, n, most)
	from, end := num(after), 0
	if len(out.Cuts) > 0 {
		end = num(&out.Cuts[len(out.Cuts)-1].Through)
	}
	if out.Seen != nil {
		end = num(out.Seen)
	}
	for _, k := range s.keys() {
		if k > from && (out.Done || k <= end) {
			s.read += s.each
			<-time.After(s.each)
		}
	}
	return out, err
}

// TestPassesThatFindLittleRest: each pass behind the highest key finds one row, and then reads many that are done.
func TestPassesThatFindLittleRest(t *testing.T) {
	for name, slice := range map[string]int{"in one look": 0, "in many": 30, "in many turns": 7} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, store.ChunkSpec{Name: "p", Size: store.ChunkSize{Start: 10}, Ahead: 8, Follow: time.Second})
				src := &slow{ints: w.src}
				w.src.slice = slice
				w.src.todo[0] = true
				for k := range 100 {
					w.src.todo[100_000+k] = false
				}
				next := 1
				turn := func() {
					w.m.now = time.Now()
					did, err := w.agents[0].Turn(t.Context(), "p", src)
					require.NoError(t, err)
					for _, r := range w.m.live() {
						w.succeed(r)
						delete(w.src.todo, num(r.r.Through)) // else there are ever more
						w.src.todo[next], next = true, next+1
					}
					if !did.Busy {
						<-time.After(max(did.Again, time.Millisecond))
					}
				}
				for w.m.plan.High == nil {
					turn()
				}
				src.each = 50 * time.Millisecond // 5 s for all
				began, passes := time.Now(), w.m.plan.Pass
				for time.Since(began) < 2*time.Hour {
					turn()
				}
				require.LessOrEqual(t, src.read, 2*time.Hour/20+20*time.Second)
				require.Greater(t, w.m.plan.Pass-passes, 20, "they go on")
			})
		})
	}
}
