package postgres_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres"
	"github.com/leasehold/leasehold/internal/task"
)

// limits has both sessions of a meeting declare a limit of type a.
func (m *meeting) limits(most int) {
	m.t.Helper()
	for _, a := range []*agentOn{m.agentOn, m.second} {
		m.declare(a.Store, a.session, most)
	}
}

// declare has a session declare a limit of type a by a heartbeat to that store.
func (m *meeting) declare(s *postgres.Store, session task.Session, most int) {
	m.t.Helper()
	agent := someAgent()
	agent.Limits = []store.TypeLimit{{Name: "a", Types: []string{"a"}, Most: most}}
	_, err := s.Present(m.t.Context(), store.Heartbeat{Session: session, Agent: agent})
	require.NoError(m.t, err)
}

// take claims up to n rows of type a for an agent.
func (m *meeting) take(a *agentOn, n int) []task.Task {
	m.t.Helper()
	a.claims++
	rows, err := a.Claim(m.t.Context(), store.Claim{Session: a.session, Number: a.claims, Wants: []store.Want{wantOf(n)}})
	require.NoError(m.t, err)
	return rows
}

// exchangeStops has the first agent exchange rows in a transaction that does not commit yet.
func (m *meeting) exchangeStops(most int, rows ...task.Task) (finish func() []task.Task) {
	m.t.Helper()
	m.claims++
	number := m.claims
	var got []task.Task
	commit := m.stops(0, func(s *postgres.Store) (err error) {
		m.declare(s, m.session, most)
		var ends []store.Settlement
		for _, row := range rows {
			ends = append(ends, done(row))
		}
		got, _, err = s.Exchange(m.t.Context(), store.Claim{Session: m.session, Number: number, Wants: []store.Want{wantOf(len(rows))}}, ends)
		return err
	})
	return func() []task.Task {
		m.t.Helper()
		commit()
		return got
	}
}

// TestExchangesMeet has exchanges meet what else is at work on their limit. None waits for another, and at no time more run than the limit says.
func TestExchangesMeet(t *testing.T) {
	t.Parallel()
	t.Run("a claim", func(t *testing.T) {
		t.Parallel()
		m := newMeeting(t)
		m.Insert(t, make20("a")...)
		m.limits(2)
		rows := m.take(m.agentOn, 5)
		require.Len(t, rows, 2)
		finish := m.exchangeStops(2, rows...)
		require.Empty(t, m.take(m.second, 5), "the places are taken before the commit")
		require.Len(t, finish(), 2)
		require.Empty(t, m.take(m.second, 5), "and after it")
	})
	t.Run("another exchange", func(t *testing.T) {
		t.Parallel()
		m := newMeeting(t)
		m.Insert(t, make20("a")...)
		m.limits(3)
		rows, others := m.take(m.agentOn, 2), m.take(m.second, 5)
		require.Len(t, others, 1)
		finish := m.exchangeStops(3, rows[0])
		m.second.claims++
		got, _, err := m.second.Exchange(t.Context(), store.Claim{
			Session: m.second.session, Number: m.second.claims, Wants: []store.Want{wantOf(1)},
		}, []store.Settlement{done(others[0])})
		require.NoError(t, err)
		require.Len(t, got, 1)
		require.Len(t, finish(), 1)
		require.Empty(t, m.take(m.second, 5))
		m.count(t, 3)
	})
	t.Run("a lower limit", func(t *testing.T) {
		t.Parallel()
		m := newMeeting(t)
		m.Insert(t, make20("a")...)
		m.limits(3)
		rows := m.take(m.agentOn, 5)
		require.Len(t, rows, 3)
		finish := m.exchangeStops(3, rows[0])
		m.declare(m.second.Store, m.second.session, 1)
		require.Empty(t, m.take(m.second, 5))
		require.Len(t, finish(), 1, "it began before")
		for _, row := range rows[1:] {
			m.claims++
			got, answers, err := m.Exchange(t.Context(), store.Claim{Session: m.session, Number: m.claims, Wants: []store.Want{wantOf(1)}},
				[]store.Settlement{done(row)})
			require.NoError(t, err)
			require.Equal(t, store.Applied, answers[0])
			require.Empty(t, got)
		}
		m.count(t, 1)
		require.Empty(t, m.take(m.second, 5))
	})
}

// TestAnExchangeLearnsThatAPlaceIsWanted, for a moment, by a session that has none and got none, and by no other.
func TestAnExchangeLearnsThatAPlaceIsWanted(t *testing.T) {
	t.Parallel()
	m := newMeeting(t)
	m.Insert(t, make20("a")...)
	m.limits(1)
	rows := m.take(m.agentOn, 1)
	exchange := func() bool {
		m.claims++
		rooms := map[string]store.Room{}
		got, _, err := m.Exchange(t.Context(), store.Claim{Session: m.session, Number: m.claims, Wants: []store.Want{wantOf(1)}, Limited: rooms},
			[]store.Settlement{done(rows[0])})
		require.NoError(t, err)
		require.Len(t, got, 1)
		rows = got
		return rooms["a"].Wanted
	}
	require.Empty(t, m.take(m.second, 1))
	require.False(t, exchange())
	starved := wantOf(1)
	starved.Starved = true
	m.second.claims++
	none, err := m.second.Claim(t.Context(), store.Claim{Session: m.second.session, Number: m.second.claims, Wants: []store.Want{starved}})
	require.NoError(t, err)
	require.Empty(t, none)
	const left = `UPDATE SCHEMA.type_limit SET wanted_until = now() + interval '%s' WHERE wanted_until IS NOT NULL`
	wanted := false
	for i := 0; i < 10 && !wanted; i++ { // one may come late
		m.exec(t, fmt.Sprintf(left, "900 milliseconds"))
		wanted = exchange()
	}
	require.True(t, wanted)
	m.exec(t, fmt.Sprintf(left, "-1 hours"))
	require.False(t, exchange())
	m.exec(t, fmt.Sprintf(left, "1 hour"))
	require.False(t, exchange(), "the clock was set back")
}

// TestAPlaceThatIsLeftIsToldToWhoWantsIt, and to no other agent.
func TestAPlaceThatIsLeftIsToldToWhoWantsIt(t *testing.T) {
	t.Parallel()
	m := newMeeting(t)
	hear := func(s *postgres.Store) <-chan store.News {
		news := make(chan store.News, 100)
		go func() { _ = s.Listen(t.Context(), func(n store.News) { news <- n }) }()
		require.NotZero(t, (<-news)&store.PlaceNews, "what may have been missed")
		return news
	}
	others := hear(openStore(t, postgres.Options{Schema: m.schema, Notify: true}))
	news := hear(m.second.Store)
	m.Insert(t, make20("a")...)
	m.limits(1)
	rows := m.take(m.agentOn, 1)
	exchange := func(leaves ...string) {
		m.claims++
		_, answers, err := m.Exchange(t.Context(), store.Claim{Session: m.session, Number: m.claims, Leaves: leaves}, []store.Settlement{done(rows[0])})
		require.NoError(t, err)
		require.Equal(t, []store.Answer{store.Applied}, answers)
		rows = m.take(m.agentOn, 1)
	}
	next := func(of <-chan store.News) store.News {
		m.exec(t, `SELECT pg_notify('leasehold:' || 'SCHEMA', 'pause')`)
		return <-of
	}
	exchange("a")
	require.Equal(t, store.PauseNews, next(news), "no place is wanted")
	starved := wantOf(1)
	starved.Starved = true
	m.second.claims++
	_, err := m.second.Claim(t.Context(), store.Claim{Session: m.second.session, Number: m.second.claims, Wants: []store.Want{starved}})
	require.NoError(t, err)
	m.exec(t, `UPDATE SCHEMA.type_limit SET wanted_until = now() + interval '900 milliseconds' WHERE wanted_by IS NOT NULL`)
	exchange()
	require.Equal(t, store.PauseNews, next(news), "none is left")
	m.exec(t, `UPDATE SCHEMA.type_limit SET wanted_until = now() + interval '900 milliseconds' WHERE wanted_by IS NOT NULL`)
	exchange("a")
	require.Equal(t, store.PlaceNews, <-news)
	for range 3 {
		require.Equal(t, store.PauseNews, next(others))
	}
}

// count checks how many rows run.
func (m *meeting) count(t *testing.T, n int) {
	t.Helper()
	rows, err := m.List(t.Context(), store.TaskFilter{States: []task.State{task.StateRunning}, Limit: 100})
	require.NoError(t, err)
	require.Len(t, rows, n)
}

// make20 are 20 rows of a type.
func make20(typ string) []store.EnqueueRequest {
	rows := make([]store.EnqueueRequest, 20)
	for i := range rows {
		rows[i].Type = typ
	}
	return rows
}
