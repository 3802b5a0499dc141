package lease_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// lively is a policy whose tasks ping.
var lively = task.Policy{
	Timeout: time.Minute, Heartbeat: 10 * time.Second, MaxHeartbeat: 40 * time.Second, Stop: 4 * time.Second,
	Retry: task.Retry{Limit: 2, Backoff: task.Constant, Min: time.Second, Max: time.Second, On: task.DefaultOn()},
}

// grab claims a row under a policy, opens its lease and starts it.
func (p *post) grab(t *testing.T, number int64, policy task.Policy) *lease.Lease {
	t.Helper()
	_, err := p.store.Insert(t.Context(), store.EnqueueRequest{Type: "a"})
	require.NoError(t, err)
	sent := p.clock.Now()
	got, err := p.store.Claim(t.Context(), store.Claim{Session: p.Session(), Number: number, Wants: []store.Want{
		{Type: "a", Phase: task.Run, N: 1, Window: policy.Window(task.Run), Policy: policy.Hash("a")},
	}})
	require.NoError(t, err)
	require.Len(t, got, 1)
	l := p.Open(number, []lease.Row{{Task: &got[0], Policy: &policy}}, sent)[0]
	l.Start()
	t.Cleanup(l.Close)
	return l
}

// written has the post note what is written, and answer a in place of the store; nil: the store itself answers.
func (p *post) written(a *store.Answer) (rows *[]store.Renewal, calls *int) {
	rows, calls = new([]store.Renewal), new(int)
	f := renews(func(ctx context.Context, s task.Session, asked []store.Renewal) ([]store.Answer, error) {
		*rows = append(*rows, asked...)
		*calls++
		if a == nil {
			return p.store.Renew(ctx, s, asked)
		}
		answers := make([]store.Answer, len(asked))
		for i := range answers {
			answers[i] = *a
		}
		return answers, nil
	})
	p.renews.Store(&f)
	return rows, calls
}

// change has the store say something else of the session.
func (p *post) change(f func(*store.HeartbeatReply)) { p.standing.Store(&f) }

func verdict(l *lease.Lease) task.Verdict {
	if c := l.Cause(); c != nil {
		return c.Verdict
	}
	return ""
}

func TestSilenceIsAStall(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		_, calls := p.written(nil)
		pass(time.Second) // between two session heartbeats
		l := p.grab(t, 1, lively)
		before := p.shown.Load()
		pass(lively.Heartbeat - time.Millisecond)
		require.NoError(t, l.Context().Err())
		signs := p.shown.Load()
		pass(time.Millisecond)
		require.Equal(t, task.Stalled, verdict(l))
		require.Equal(t, "no ping for 10s", l.Cause().Reason)
		require.False(t, l.Heard())
		require.Equal(t, signs+1, p.shown.Load(), "the store was asked whether pings came elsewhere")
		require.Greater(t, signs, before)
		require.Zero(t, *calls, "no ping, no write")
		require.Equal(t, lively.Window(task.Run)-lively.Heartbeat-lease.KillMargin, l.KillIn(), "the window has not moved")
	})
}

func TestProgressKeepsALeaseUntilItsTimeout(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		rows, _ := p.written(nil)
		l := p.grab(t, 1, lively)
		for range 6 {
			require.Equal(t, store.PingReply{Answer: store.Applied, Counted: true, Remaining: l.Remaining()}, l.Ping(store.Ping{}))
			pass(9 * time.Second)
		}
		require.Nil(t, l.Cause())
		l.Ping(store.Ping{})
		pass(time.Second)
		require.Len(t, *rows, 7, "one write for each ping")
		for _, r := range *rows {
			require.Equal(t, time.Second, r.Age, "a tenth of a minute's window is too long to wait: a second is the most")
		}
		pass(5*time.Second - time.Millisecond)
		require.NoError(t, l.Context().Err())
		pass(time.Millisecond)
		require.Equal(t, task.TimedOut, verdict(l), "pings do not move the timeout")
		require.Equal(t, 6*time.Second+lively.Stop, (*rows)[6].Window, "nor does a window reach beyond it")
	})
}

func TestTheEndMovesOnlyWhenTheStoreSaysSo(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		rows, _ := p.written(nil)
		l := p.grab(t, 1, lively)
		var moves atomic.Int64
		l.OnMove(func() { moves.Add(1) })
		pass(5 * time.Second)
		was := l.KillIn()
		l.Ping(store.Ping{})
		require.Equal(t, was, l.KillIn())
		require.Zero(t, moves.Load())
		pass(time.Second)
		require.Len(t, *rows, 1)
		require.EqualValues(t, 1, moves.Load())
		require.Equal(t, lively.Heartbeat+lively.Stop-lease.KillMargin-time.Second, l.KillIn(), "counted from the ping, not from the write")
	})
}

func TestManyPingsAreOneWrite(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		_, calls := p.written(nil)
		var leases []*lease.Lease
		for n := range 200 {
			leases = append(leases, p.grab(t, int64(n+1), lively))
		}
		for range 10 {
			for _, l := range leases {
				l.Ping(store.Ping{})
			}
			pass(time.Second)
		}
		require.LessOrEqual(t, *calls, 11)
		for _, l := range leases {
			require.NoError(t, l.Context().Err())
		}
	})
}

func TestPingsElsewhereCountBeforeAStall(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		l := p.grab(t, 1, lively)
		pass(lively.Heartbeat - 10*time.Millisecond)
		once := true
		p.change(func(s *store.HeartbeatReply) {
			for i := range s.Held {
				s.Held[i].Pinged, s.Held[i].PingDue, s.Held[i].Left = once, 5*time.Second, 5*time.Second+lively.Stop
			}
			once = false
		})
		pass(10 * time.Millisecond)
		require.NoError(t, l.Context().Err(), "a ping came in by another way")
		require.InDelta(t, 5*time.Second+lively.Stop-lease.KillMargin, l.KillIn(), float64(10*time.Millisecond))
		require.True(t, l.Heard())
		pass(5*time.Second + 20*time.Millisecond)
		require.Equal(t, task.Stalled, verdict(l))
	})
}

func TestAStoreThatDoesNotAnswerDelaysAStallByPatience(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		l := p.grab(t, 1, lively)
		pass(lively.Heartbeat - 10*time.Millisecond)
		p.late.Store(int64(time.Hour / 3600 * 2)) // two seconds, which is all that a session heartbeat gets
		pass(10*time.Millisecond + 499*time.Millisecond)
		require.NoError(t, l.Context().Err())
		pass(2 * time.Millisecond)
		require.Equal(t, task.Stalled, verdict(l))
		p.late.Store(0)
	})
}

func TestARenewalThatIsNotConfirmedStopsInTime(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		tries := 0
		f := renews(func(context.Context, task.Session, []store.Renewal) ([]store.Answer, error) {
			tries++
			return nil, errors.New("out of reach")
		})
		p.renews.Store(&f)
		l := p.grab(t, 1, lively)
		for range 11 {
			pass(time.Second)
			l.Ping(store.Ping{Message: "still here"})
		}
		require.NoError(t, l.Context().Err(), "the window as claimed is not over")
		pass(patience())
		require.Equal(t, task.Drained, verdict(l))
		require.Greater(t, l.KillIn(), lively.Stop-task.StopMargin, "the whole grace is left before everything must be dead")
		require.Greater(t, tries, 5)
		require.Equal(t, "still here", l.Report().Message, "what was said is not lost")
	})
}

func TestBusyIsNotLost(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		busy := store.Busy
		rows, _ := p.written(&busy)
		l := p.grab(t, 1, lively)
		l.Ping(store.Ping{Checkpoint: json.RawMessage(`1`), Message: "a"})
		pass(3 * time.Second)
		l.Ping(store.Ping{Checkpoint: json.RawMessage(`2`)})
		pass(3 * time.Second)
		require.NoError(t, l.Context().Err())
		require.Greater(t, len(*rows), 3)
		rows, _ = p.written(nil)
		pass(2 * time.Second)
		require.Len(t, *rows, 1)
		require.Equal(t, store.Report{Checkpoint: json.RawMessage(`2`), Message: "a"}, (*rows)[0].Report)
		report := l.Report()
		require.True(t, report.Empty())
	})
}

// patience is how long after the end of a window an unconfirmed renewal is waited for.
func patience() time.Duration { return 501 * time.Millisecond }

func TestALostRenewalEndsTheWork(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		lost := store.Lost
		p.written(&lost)
		l := p.grab(t, 1, lively)
		l.Ping(store.Ping{})
		pass(time.Second)
		require.Equal(t, task.Lost, verdict(l))
		require.Equal(t, store.PingReply{}, l.Ping(store.Ping{}), "this attempt holds the row no longer")
	})
}

func TestOnlyProgressCountsWhereItIsRequired(t *testing.T) {
	strict := lively
	strict.RequireProgress = true
	station(t, func(t *testing.T, p *post) {
		l := p.grab(t, 1, strict)
		say := func(progress, checkpoint string) store.PingReply {
			var ping store.Ping
			if progress != "" {
				ping.Progress = json.RawMessage(progress)
			}
			if checkpoint != "" {
				ping.Checkpoint = json.RawMessage(checkpoint)
			}
			return l.Ping(ping)
		}
		require.False(t, say("", "").Counted)
		require.True(t, say("0.1", "").Counted)
		reply := say("0.1", "")
		require.False(t, reply.Counted)
		require.Equal(t, "progress did not change", reply.Reason)
		require.True(t, say("0.1", `{"page":1}`).Counted)
		require.False(t, say("0.1", `{"page":1}`).Counted)
		require.True(t, say("0.2", `{"page":1}`).Counted)
		for range 9 {
			pass(time.Second)
			say("0.2", "")
		}
		require.NoError(t, l.Context().Err())
		pass(time.Second)
		require.Equal(t, task.Stalled, verdict(l), "a thread that pings over a hung loop keeps nothing")
		require.Equal(t, "pings, but no progress, for 10s", l.Cause().Reason)
		require.True(t, l.Heard())
	})
}

// What goes round in circles does not advance, in whatever words it says so.
func TestWhatGoesRoundInCirclesStalls(t *testing.T) {
	strict := lively
	strict.RequireProgress = true
	for name, reports := range map[string][]store.Ping{
		"toggling":  {{Progress: json.RawMessage(`0.4`)}, {Progress: json.RawMessage(`0.5`)}},
		"falling":   {{Progress: json.RawMessage(`0.9`)}, {Progress: json.RawMessage(`0.8`)}, {Progress: json.RawMessage(`0.7`)}},
		"counting":  {{Progress: json.RawMessage(`{"done":2,"total":3}`)}, {Progress: json.RawMessage(`{"done":1,"total":3}`)}},
		"as a text": {{Progress: json.RawMessage(`0.4`)}, {Progress: json.RawMessage(`"0.4"`)}},
		"reordered": {{Checkpoint: json.RawMessage(`{"a":1,"b":0.4}`)}, {Checkpoint: json.RawMessage(`{"b":0.40,"a":1}`)}},
	} {
		t.Run(name, func(t *testing.T) {
			station(t, func(t *testing.T, p *post) {
				l := p.grab(t, 1, strict)
				for _, r := range reports {
					l.Ping(r)
				}
				for n := range 9 {
					pass(time.Second)
					require.False(t, l.Ping(reports[n%len(reports)]).Counted)
				}
				require.NoError(t, l.Context().Err())
				pass(time.Second)
				require.Equal(t, task.Stalled, verdict(l))
			})
		})
	}
}

func TestALongerWindowIsForOnce(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		rows, _ := p.written(nil)
		l := p.grab(t, 1, lively)
		l.Ping(store.Ping{NextWithin: time.Hour})
		pass(lively.MaxHeartbeat - time.Second)
		require.NoError(t, l.Context().Err(), "max_heartbeat bounds it")
		require.Equal(t, lively.MaxHeartbeat+lively.Stop, (*rows)[0].Window)
		l.Ping(store.Ping{NextWithin: time.Millisecond})
		pass(lively.Heartbeat - time.Millisecond)
		require.NoError(t, l.Context().Err(), "a window is never shorter than the heartbeat")
		pass(time.Millisecond)
		require.Equal(t, task.Stalled, verdict(l))

		l = p.grab(t, 2, lively)
		l.Ping(store.Ping{NextWithin: 40 * time.Second})
		pass(2 * time.Second)
		l.Ping(store.Ping{})
		pass(time.Second)
		require.True(t, (*rows)[len(*rows)-1].Exact, "the store's end comes back to the shorter window")
		require.Equal(t, lively.Heartbeat+lively.Stop-lease.KillMargin-time.Second, l.KillIn())
		pass(9 * time.Second)
		require.Equal(t, task.Stalled, verdict(l))
	})
}

func TestWithoutAHeartbeatPingsMoveNothing(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		rows, _ := p.written(nil)
		l := p.grab(t, 1, policy)
		require.True(t, l.Ping(store.Ping{}).Counted)
		pass(2 * time.Second)
		require.Empty(t, *rows, "there is nothing to write")
		l.Ping(store.Ping{Progress: json.RawMessage(`0.5`)})
		pass(2 * time.Second)
		require.Len(t, *rows, 1)
		require.Zero(t, (*rows)[0].Window)
		pass(policy.Timeout)
		require.Equal(t, task.TimedOut, verdict(l))
	})
}

func TestACancellationIsSeenAtTheNextHeartbeat(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		l := p.grab(t, 1, lively)
		p.change(func(s *store.HeartbeatReply) {
			for i := range s.Held {
				s.Held[i].CancelRequested, s.Held[i].CancelReason = true, "cancelled by an operator"
			}
		})
		pass(lease.Period(presence) + time.Millisecond)
		require.Equal(t, task.Cancelled, verdict(l))
		require.True(t, l.CancelRequested())
		reply := l.Ping(store.Ping{Checkpoint: json.RawMessage(`{"tidy":1}`)})
		require.Equal(t, store.Applied, reply.Answer)
		require.True(t, reply.Cancel)
		require.Contains(t, reply.Reason, "cancelled by an operator")
		require.Equal(t, `{"tidy":1}`, string(l.Report().Checkpoint), "a checkpoint is kept to the last")
	})
}

func TestWhatIsDetachedGoesOn(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		rows, _ := p.written(nil)
		l := p.grab(t, 1, lively)
		pass(5 * time.Second)
		require.True(t, l.Detach())
		require.Nil(t, l.Task().Payload, "it may go on for hours")
		pass(time.Millisecond)
		require.Len(t, *rows, 1)
		require.True(t, (*rows)[0].Detach)
		require.Equal(t, lively.Heartbeat+lively.Stop, (*rows)[0].Window, "detaching is a ping")
		p.StopAll("the agent was stopped")
		pass(11 * time.Second)
		require.NoError(t, l.Context().Err(), "this agent does not stop it: the sweep does")
		reply, err := p.Ping(t.Context(), l.Task().ID, l.Task().Fence, store.Ping{})
		require.NoError(t, err)
		require.True(t, reply.Counted)
		pass(time.Second)
		require.Len(t, *rows, 2)
		require.False(t, (*rows)[1].Detach)
		p.change(func(s *store.HeartbeatReply) { s.Held = nil })
		pass(2 * time.Second)
		require.Zero(t, p.Held(), "it has ended, and is forgotten without a word")
		require.NoError(t, l.Context().Err())
	})
}

// TestWhatHasEndedDoesNotGoOn: a task may complete itself, or report its failure, before its 202 is read.
func TestWhatHasEndedDoesNotGoOn(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		completed, failed := p.grab(t, 1, lively), p.grab(t, 2, lively)
		p.Ended(completed)
		p.HasFailed(failed)
		for _, l := range []*lease.Lease{completed, failed} {
			require.False(t, l.Detach())
			require.False(t, l.Detached())
		}
	})
}

// TestAStopThatMeetsA202 ends nothing: the task's pings count.
func TestAStopThatMeetsA202(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		rows, _ := p.written(nil)
		l := p.grab(t, 1, lively)
		pass(5 * time.Second)
		p.StopAll("the agent was stopped")
		require.True(t, l.Detach())
		pass(time.Millisecond)
		require.Equal(t, lively.Heartbeat+lively.Stop, (*rows)[0].Window, "detaching is a ping")
		reply, err := p.Ping(t.Context(), l.Task().ID, l.Task().Fence, store.Ping{})
		require.NoError(t, err)
		require.True(t, reply.Counted)
		require.False(t, reply.Cancel)
	})
}

// TestPingsAtTheEndAreWrittenBeforeTheyAreAnswered: nothing writes what is noted in memory any more.
func TestPingsAtTheEndAreWrittenBeforeTheyAreAnswered(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		l := p.grab(t, 1, lively)
		require.True(t, l.Detach())
		p.Flush(t.Context())
		rows, _ := p.written(nil)
		reply, err := p.Ping(t.Context(), l.Task().ID, l.Task().Fence, store.Ping{Checkpoint: []byte(`{"at":7}`)})
		require.NoError(t, err)
		require.NotEqual(t, store.Applied, reply.Answer, "this agent has no store that takes pings of others")
		pass(5 * time.Second)
		require.Empty(t, *rows)
	})
}
