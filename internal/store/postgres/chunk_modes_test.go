package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres"
	"github.com/leasehold/leasehold/internal/task"
)

// TestChunksThroughAPooler plans chunks and splits one through what a pooler leaves of a connection: some of its modes know an
// argument's type by its Go type only.
func TestChunksThroughAPooler(t *testing.T) {
	t.Parallel()
	p := pooler(t)
	for _, mode := range poolerModes() {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			s := openStore(t, postgres.Options{URL: p.URL + "&default_query_exec_mode=" + mode, Schema: h.schema})
			h.AddChunkPlan(t, store.ChunkSpec{
				Name: "p", Task: "a", Table: "t", Key: "id", Size: store.ChunkSize{Start: 10}, Ahead: 5, Follow: time.Minute,
			})
			key := func(text string) *store.ChunkKey { return new(store.ChunkKey(text)) }
			plan := func(change func(s *store.ChunkStep)) {
				look, err := s.LookPlan(t.Context(), "p", 10)
				require.NoError(t, err)
				step := &store.ChunkStep{Name: "p", Before: look.Plan.Version, After: look.Plan}
				step.After.Version++
				change(step)
				applied, err := s.ApplyChunks(t.Context(), step)
				require.NoError(t, err)
				require.True(t, applied)
			}
			plan(func(s *store.ChunkStep) { s.After.Pass, s.After.Planning, s.After.Full = 1, true, true })
			plan(func(s *store.ChunkStep) {
				s.Items = []store.ChunkItem{
					{Kind: store.ChunkInsert, Range: store.ChunkRange{Through: key("10")}, Rows: 10},
					{Kind: store.ChunkGap, Range: store.ChunkRange{After: key("10"), Through: key("90")}},
				}
				s.After.Cursor, s.After.High, s.After.Planning, s.Sealed = key("90"), key("90"), false, true
			})
			plan(func(s *store.ChunkStep) { // behind the first, and around its chunk
				s.After.Pass, s.After.Planning, s.After.From, s.After.Cursor = 2, true, key("90"), key("90")
			})

			session, err := s.Join(t.Context(), someAgent())
			require.NoError(t, err)
			rows, err := s.Claim(t.Context(), store.Claim{Session: session, Number: 1, Wants: []store.Want{wantOf(5)}})
			require.NoError(t, err)
			require.Len(t, rows, 1)
			chunk, err := s.ChunkTask(t.Context(), rows[0].ID)
			require.NoError(t, err)
			require.Equal(t, store.ChunkRange{Through: key("10")}, chunk.Range)
			split := done(rows[0])
			split.Next.State, split.Next.AfterLease = task.StateSplit, true
			split.Outcome = task.Outcome{Verdict: task.TimedOut, Split: &task.Split{At: "5", Rows: [2]int{5, 5}}}
			answers, err := s.Settle(t.Context(), session, []store.Settlement{split})
			require.NoError(t, err)
			require.Equal(t, []store.Answer{store.Applied}, answers)

			look, err := s.LookPlan(t.Context(), "p", 10)
			require.NoError(t, err)
			require.Len(t, look.Obstacles, 2)
			require.Equal(t, store.ChunkRange{Through: key("5")}, look.Obstacles[0].Range)
			require.Equal(t, store.ChunkRange{After: key("5"), Through: key("10")}, look.Obstacles[1].Range)
		})
	}
}
