package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// seeing is the view of a session that is off by so much, has seen the clock go on for so long, and others silent.
func seeing(h Harness, off, calm time.Duration, silent []store.Sighting) func() store.View {
	return func() store.View { return store.View{Now: h.Now().Add(off), Calm: calm, Silent: silent} }
}

// sightings are what one session sees of others on either store.
type sightings struct{ real, ideal []store.Sighting }

// watch looks at the heartbeats of the sessions that s sees.
func (m *machine) watch(s *session) (seen sightings) {
	ctx := m.begin()
	ideal, err := m.ideal.Holders(ctx, s.ideal)
	require.NoError(m.t, err)
	got, err := m.real.Holders(ctx, s.real)
	require.NoError(m.t, err)
	require.Equal(m.t, ideal.Expired, got.Expired, "whether something has expired")
	seen = sightings{real: got.Others, ideal: ideal.Others}
	sorted := func(list []store.Sighting, number func(*session) task.Session) (out []string) {
		for _, o := range list {
			i := slices.IndexFunc(m.sessions, func(s *session) bool { return number(s) == o.Session })
			out = append(out, fmt.Sprint(i, " lasts ", o.Presence))
		}
		slices.Sort(out)
		return out
	}
	require.Equal(m.t, sorted(seen.ideal, func(s *session) task.Session { return s.ideal }),
		sorted(seen.real, func(s *session) task.Session { return s.real }), "the sessions that are listed")
	return seen
}

func (m *machine) sweep(t *rapid.T) {
	ctx := m.begin()
	i, s := m.pick(t)
	length := length(t, "reap for", 3)
	off, calm := time.Duration(0), 9*step
	switch rapid.IntRange(0, 7).Draw(t, "view") {
	case 6:
		off = later
	case 7:
		calm = 0
	}
	seen := m.watch(s)
	if rapid.IntRange(0, 7).Draw(t, "silent") == 7 {
		seen = sightings{} // it has seen no session for long
	}
	want, err := m.ideal.Sweep(ctx, s.ideal, 1000, length, seeing(m.ideal, off, calm, seen.ideal))
	require.NoError(m.t, err)
	got, err := m.real.Sweep(ctx, s.real, 1000, length, seeing(m.real, off, calm, seen.real))
	require.NoError(m.t, err)
	require.Equal(m.t, m.reapedViews(want, onIdeal, onIdeal), m.reapedViews(got, onReal, onReal), "what is reaped")
	for _, row := range want {
		m.hold(i, row.Task, row.RanFence)
	}
}

func (m *machine) reapedViews(list []store.Reaped, ids taskSide, sessions sessionSide) []taskView {
	out := make([]taskView, len(list))
	for i := range list {
		out[i] = m.taskView(&list[i].Task, ids)
		out[i].Ran, out[i].Present = list[i].RanFence, list[i].Present
		out[i].RanSession, out[i].RanAgent = place(m.sessionPairs(), sessions, list[i].RanSession), list[i].RanAgent
		out[i].Detached, out[i].CancelRequested = list[i].Detached, list[i].CancelRequested
		if !list[i].Deadline.IsZero() {
			out[i].Left = inHalves(list[i].Left)
		}
	}
	return byRow(out)
}
