package storetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// BenchActivity measures how long a chart of the activity takes to read that five agents have written for two days, of twenty types each.
func BenchActivity(b *testing.B, h Harness) {
	b.Helper()
	ctx := context.Background()
	const agents, types = 5, 20
	for n := range agents {
		session, err := h.Join(ctx, agent(fmt.Sprint("agent ", n)))
		require.NoError(b, err)
		var rows []store.ActivityRow
		for _, step := range []store.ActivityStep{store.ActivityMinute, store.ActivityHour} {
			for at := step.Of(h.Now()); at.After(h.Now().Add(-step.Kept() + step.Length())); at = at.Add(-step.Length()) {
				for i := range types {
					rows = append(rows, typical(step, at, fmt.Sprintf("some.type-%02d", i), int64(n*i)))
				}
			}
		}
		for some := range slices.Chunk(rows, store.ActivityRows) {
			_, err := h.KeepActivity(ctx, session, some)
			require.NoError(b, err)
		}
	}
	for _, span := range []ops.ActivitySpan{ops.LastHour, ops.LastTwoDays} {
		for _, typ := range []string{"", "some.type-07"} {
			b.Run(fmt.Sprintf("%s %s", span, typ), func(b *testing.B) {
				for b.Loop() {
					a, err := ops.ReadActivity(ctx, h, span, typ)
					require.NoError(b, err)
					require.NotZero(b, a.Total.Ended)
				}
			})
		}
	}
	b.Run("write", func(b *testing.B) {
		var rows []store.ActivityRow
		for i := range types {
			for _, step := range []store.ActivityStep{store.ActivityMinute, store.ActivityHour} {
				rows = append(rows, typical(step, step.Of(h.Now()), fmt.Sprintf("some.type-%02d", i), 7))
			}
		}
		for b.Loop() {
			_, err := h.KeepActivity(ctx, task.Session(1), rows)
			require.NoError(b, err)
		}
	})
}

// typical is a row with counts in most places.
func typical(step store.ActivityStep, at time.Time, typ string, n int64) store.ActivityRow {
	r := store.ActivityRow{Step: step, At: at, Type: typ}
	for i := range r.Latency {
		r.Latency[i] = (n*31 + int64(i)*977) % 1500
	}
	for i := range r.Outcomes {
		r.Outcomes[i] = (n*17 + int64(i)*613) % 2000
	}
	return r
}
