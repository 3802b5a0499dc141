package poll_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// What is kept of a type by its name is dropped once it is declared no more and nothing of it runs; it begins anew if it is declared
// again. Of several replacements only those are told that they are adopted of which the engine knew when it claimed.
func TestATypeThatIsGoneIsForgotten(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		var removed []string
		adopted := map[string]int{}
		r := newRig(t, store, func(r *rig) {
			r.opts.Removed = func(typ string) { removed = append(removed, typ) }
			r.opts.Poll = time.Hour
		}, doing(takes(15*time.Second)))
		to := func(name string, types ...*task.Type) {
			d := r.declarations(types...)
			d.Adopted = func() { adopted[name]++ }
			r.engine.Replace(d)
		}
		shown := func() int { return testutil.CollectAndCount(r.opts.Metrics.Running) }
		after(100 * time.Millisecond)
		ids := r.insert(1, of("b"))
		after(time.Second)
		require.Equal(t, 2, shown())

		to("only a", declare("a", 0))
		after(10 * time.Second)
		require.Equal(t, map[string]int{"only a": 1}, adopted)
		require.Empty(t, removed, "b still runs")
		require.Equal(t, 2, shown())
		after(6 * time.Second)
		r.all(ids, task.StateSucceeded, 1)
		require.Empty(t, removed, "what is settled and reported late still counts")
		require.InDelta(t, 1, testutil.ToFloat64(r.opts.Metrics.Attempts.WithLabelValues("b", "run", "succeeded")), 0)
		after(14 * time.Second)
		require.Equal(t, []string{"b"}, removed)
		require.Equal(t, 1, shown())
		require.Zero(t, testutil.CollectAndCount(r.opts.Metrics.TypePaused)-1)

		r.wire.setHook(func(op string) fault {
			if op == "present" { // by which the store gets to know
				return lostCall
			}
			return none
		})
		to("superseded", declare("c", 0))
		after(100 * time.Millisecond)
		to("both", declare("a", 0), declare("b", 0))
		r.wire.setHook(nil)
		after(10 * time.Second)
		require.Equal(t, map[string]int{"only a": 1, "both": 1}, adopted)
		require.Equal(t, []string{"b"}, removed, "neither c, which was never in force, nor what is back")
		ids = r.insert(1, of("b"))
		after(30 * time.Second)
		r.all(ids, task.StateSucceeded, 1)
		require.Equal(t, 2, shown())
		require.InDelta(t, 1, testutil.ToFloat64(r.opts.Metrics.Attempts.WithLabelValues("b", "run", "succeeded")), 0, "it is counted anew")

		to("none")
		to("both again", declare("a", 0), declare("b", 0))
		after(time.Minute)
		require.Equal(t, []string{"b"}, removed)
		r.drain()
	})
}
