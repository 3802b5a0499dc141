package check_test

import (
	"testing"

	"github.com/leasehold/leasehold/test/faults/check"
	"github.com/leasehold/leasehold/test/faults/history"
)

func TestLeaseFollowsPing(t *testing.T) {
	// The kind web has a heartbeat of 2 s, 3 s to stop and a timeout of 20 s; what is tolerated is half a second, and
	// of a claim's own window 2 s.
	pinged := func(m *maker) {
		m.row(1, web, "succeeded", 2, 1)
		m.try(1, a1, 1, 1, 1).report(3, history.Ping).report(5, history.Ping).report(7, history.Ping).end(8.5, "succeeded")
	}
	long := func(m *maker) on {
		m.row(1, web, "succeeded", 2, 1)
		a := m.try(1, a1, 1, 1, 1)
		for at := 2.0; at < 22; at++ {
			a.report(at, history.Ping)
		}
		return a.end(22, "succeeded")
	}
	perform(t, []scene{
		{"as long as the last ping allows", "", func(m *maker) {
			pinged(m)
			m.sample(6, 1, 1, 4.4)
			m.sample(8, 1, 1, 4.4)
		}},
		{"the window of the claim", "", func(m *maker) {
			pinged(m)
			m.sample(1.5, 1, 1, 5.5)
			m.sample(4, 1, 1, 4.5)
		}},
		{"a claim after one that took long, as the network was broken", "", func(m *maker) {
			m.broken(0.1, 0.9, "network loses replies")
			pinged(m)
			m.sample(1.5, 1, 1, 8.5)
		}},
		{"a claim that nothing had held", check.LeaseFollowsPing, func(m *maker) {
			pinged(m)
			m.sample(1.5, 1, 1, 8.6)
		}},
		{"without a heartbeat, until its timeout", "", func(m *maker) {
			m.once(1, a1, 1, plain)
			m.sample(1.5, 1, 1, 13.5)
		}},
		{"a window that was asked for", "", func(m *maker) {
			m.row(1, web, "succeeded", 2, 1)
			m.try(1, a1, 1, 1, 1).report(3, history.Ping).report(5, history.Ping, "10s").end(14, "succeeded")
			m.sample(13, 1, 1, 5)
		}},
		{"the word that a 202 came is a ping", "", func(m *maker) {
			m.row(1, web, "succeeded", 2, 1)
			m.try(1, a1, 1, 1, 1).end(5, history.Accepted).end(9, "succeeded")
			m.sample(6, 1, 1, 4)
		}},
		{"the agent that received the ping of a 202 stood still", "", func(m *maker) {
			m.row(1, web, "succeeded", 2, 1)
			m.try(1, a1, 1, 1, 1).end(2, history.Accepted).report(3, history.Ping).end(13, "succeeded")
			m.agent(3, history.Frozen, a2)
			m.agent(9, history.Thawed, a2)
			m.sample(9.5, 1, 1, 4.5)
		}},
		{"an unknown fault", "", func(m *maker) {
			pinged(m)
			m.broken(4, 8, "moon is full")
			m.sample(6, 1, 1, 3600)
		}},
		{"an agent's clock is not the store's", check.LeaseFollowsPing, func(m *maker) {
			pinged(m)
			m.broken(4, 8, "agent clock wrong")
			m.sample(6, 1, 1, 3600)
		}},
		{"its agent stood still with the word of a ping", "", func(m *maker) {
			pinged(m)
			m.agent(7.1, history.Frozen, a1)
			m.agent(15, history.Thawed, a1)
			m.sample(15.1, 1, 1, 4.5)
		}},
		{"the store's clock stepped", "", func(m *maker) {
			pinged(m)
			m.broken(4, 8, "clock back by an hour")
			m.sample(6, 1, 1, 3600)
			m.sample(8.1, 1, 1, 3600)
		}},
		{"the question took long", "", func(m *maker) {
			pinged(m)
			m.sample(8, 1, 1, 6)
			m.Samples[0].Within = s(2)
		}},
		{"the claim before took long", "", func(m *maker) {
			m.once(30, a1, 1, web)
			m.Slack = s(3)
			m.sample(30.5, 1, 1, 15)
		}},
		{"its agent stood still in the claim before", "", func(m *maker) {
			m.once(30, a1, 1, web)
			m.agent(20, history.Frozen, a1)
			m.agent(25, history.Thawed, a1)
			m.sample(30.5, 1, 1, 15)
		}},
		{"the network may hold what was said", "", func(m *maker) {
			pinged(m)
			m.Slack = s(3)
			m.sample(8, 1, 1, 6.9)
		}},
		{"of a reaper, of a claim that has not started, of none", "", func(m *maker) {
			pinged(m)
			m.sample(6, 1, 2, 100)
			m.sample(0.5, 1, 1, 100)
			m.sample(6, 9, 1, 100)
		}},
		{"of a kind that nothing is known of", "", func(m *maker) {
			m.once(1, a1, 1, "other")
			m.sample(1.5, 1, 1, 1000)
		}},
		{"longer than the last ping allows", check.LeaseFollowsPing, func(m *maker) {
			m.row(1, web, "succeeded", 2, 1)
			m.try(1, a1, 1, 1, 1).report(3, history.Ping).report(5, history.Ping).report(7, history.Ping).end(8.5, "succeeded")
			m.sample(8, 1, 1, 4.6) // counted from when it was written
		}},
		{"renewed as if the ping had come when it was written", check.LeaseFollowsPing, func(m *maker) {
			m.row(1, web, "succeeded", 2, 1)
			m.try(1, a1, 1, 1, 1).report(2, history.Ping).end(4, "succeeded")
			m.sample(0.9, 1, 1, 6)
			m.sample(1.5, 1, 1, 5.5)
			m.sample(3.9, 1, 1, 4.2)
		}},
		{"longer than a ping before an outage allows", check.LeaseFollowsPing, func(m *maker) {
			pinged(m)
			m.broken(7.1, 8, "network cut")
			m.sample(8.4, 1, 1, 5)
		}},
		{"no ping, and longer than the claim's window", check.LeaseFollowsPing, func(m *maker) {
			m.row(1, web, "succeeded", 2, 1)
			m.try(1, a1, 1, 1, 1).end(4, "succeeded")
			m.sample(3.5, 1, 1, 7.1)
		}},
		{"pings do not reach beyond the timeout", check.LeaseFollowsPing, func(m *maker) {
			long(m)
			m.sample(21.9, 1, 1, 4)
		}},
		{"without a heartbeat, beyond its timeout", check.LeaseFollowsPing, func(m *maker) {
			m.once(1, a1, 1, plain)
			m.sample(1.5, 1, 1, 16.1)
		}},
		{"the agent stood still for less than that", check.LeaseFollowsPing, func(m *maker) {
			pinged(m)
			m.agent(7.1, history.Frozen, a1)
			m.agent(8, history.Thawed, a1)
			m.sample(8.2, 1, 1, 6)
		}},
	})
}

func TestHungIsCaught(t *testing.T) {
	// hung adds a row that is stalled at its first try and then succeeds, long after.
	hung := func(m *maker, kind string) on {
		m.row(1, kind, "succeeded", 4, 2)
		m.settled(1, 1, 1, "stalled")
		m.settled(1, 3, 2, "succeeded")
		m.try(60, a2, 1, 3, 2).end(61, "succeeded")
		return m.try(1, a1, 1, 1, 1)
	}
	perform(t, []scene{
		{"a child is asked to stop", "", func(m *maker) { hung(m, proc).report(2, history.Ping).report(4.3, history.Signal) }},
		{"it does not mind", "", func(m *maker) { hung(m, proc).report(3.3, history.Signal).report(30, history.Refused) }},
		{"its agent lost the store, and killed it", "", func(m *maker) {
			hung(m, proc)
			m.Tried[0].Outcome, m.Tried[0].Attempt, m.Tried[1].Attempt, m.Rows[0].Attempt = "drained", 1, 1, 1
		}},
		{"a request is closed", "", func(m *maker) { hung(m, web).report(2, history.Ping).report(4.3, history.Gone) }},
		{"a ping arrived late", "", func(m *maker) {
			hung(m, web).report(2, history.Ping).report(5, history.Pinged, "200").report(7.5, history.Gone)
		}},
		{"its ping got a 410", "", func(m *maker) {
			hung(m, web).report(2, history.Ping).report(4.1, history.Ping).report(4.2, history.Pinged, "410")
		}},
		{"its ping was taken, and no more", check.HungIsCaught, func(m *maker) {
			hung(m, web).report(2, history.Ping).report(4.1, history.Ping).report(4.2, history.Pinged, "200")
		}},
		{"a longer window was asked for", "", func(m *maker) {
			hung(m, web).report(2, history.Ping, "10s").report(12.4, history.Ping).report(14.5, history.Gone)
		}},
		{"it timed out", "", func(m *maker) { hung(m, plain).report(11.4, history.Gone) }},
		{"its agent stood still", "", func(m *maker) {
			m.agent(2.9, history.Frozen, a1)
			hung(m, proc).report(20.3, history.Signal)
			m.agent(20, history.Thawed, a1)
		}},
		{"its agent was killed", "", func(m *maker) {
			twice(m, web)
			m.agent(2.9, history.Killed, a1)
			m.try(1, a1, 1, 1, 1).report(14, history.Refused)
			m.try(15, a2, 1, 4, 2).end(16, "succeeded")
		}},
		{"accepted with a 202", "", func(m *maker) { hung(m, web).end(2, history.Accepted).report(20, history.Refused) }},
		{"the endpoint was broken", "", func(m *maker) {
			hung(m, web)
			m.broken(2, 3, "endpoint killed")
		}},
		{"a child that reported nothing more while the store was away", "", func(m *maker) {
			hung(m, proc)
			m.broken(1.5, 30, "server stopped")
		}},
		{"the run was over first", "", func(m *maker) {
			m.row(1, web, "succeeded", 2, 1, func(e *enq, r *row) { e.Expects.Guarded = true })
			m.try(1, a1, 1, 1, 1).report(2, history.Ping).report(5, history.Effect)
			m.effect(1, 1)
		}},
		{"it has completed its row", "", func(m *maker) {
			m.row(1, web, "succeeded", 2, 1, func(e *enq, r *row) { e.Expects.Guarded = true })
			m.try(1, a1, 1, 1, 1).report(2, history.Effect).end(30, "succeeded")
			m.effect(1, 1)
		}},
		{"a child was silent, and went on", check.HungIsCaught, func(m *maker) {
			hung(m, proc).report(2, history.Ping).report(8, history.Ping).report(9, history.Signal)
		}},
		{"a child was asked to stop too late", check.HungIsCaught, func(m *maker) { hung(m, proc).report(4.6, history.Signal) }},
		{"a child reported nothing more", check.HungIsCaught, func(m *maker) { hung(m, proc) }},
		{"a request was closed too late", check.HungIsCaught, func(m *maker) { hung(m, web).report(4.6, history.Gone) }},
		{"a request was never closed", check.HungIsCaught, func(m *maker) { hung(m, web) }},
		{"it ended itself, long after its timeout", check.HungIsCaught, func(m *maker) { hung(m, plain).end(14, "failed") }},
		{"pings do not keep it beyond its timeout", check.HungIsCaught, func(m *maker) {
			a := hung(m, proc)
			for at := 2.0; at < 25; at++ {
				a.report(at, history.Ping)
			}
			a.report(25, history.Signal)
		}},
		{"no network helps a child", check.HungIsCaught, func(m *maker) {
			hung(m, proc).report(9, history.Signal)
			m.broken(1, 30, "network cut")
		}},
		{"a processor stood still", "", func(m *maker) {
			hung(m, proc).report(6, history.Signal)
			m.broken(3, 5.5, "processor 1 stands still")
		}},
		{"a processor stood still earlier", check.HungIsCaught, func(m *maker) {
			hung(m, proc).report(9, history.Signal)
			m.broken(0.2, 0.9, "processor 1 stands still")
		}},
	})
}

func TestDeadComesBack(t *testing.T) {
	// Presence is 10 s, the sweep takes at most 5 s, and half a second is tolerated: by 17.5 s the row is reaped.
	dead := func(m *maker, kind string, again float64) on {
		twice(m, kind)
		m.agent(2, history.Killed, a1)
		m.try(again, a2, 1, 4, 2).end(again+1, "succeeded")
		return m.try(1, a1, 1, 1, 1)
	}
	perform(t, []scene{
		{"it was reaped, and starts again", "", func(m *maker) {
			dead(m, proc, 14)
			m.sample(11, 1, 1, -50)
			m.sample(17, 1, 1, -50)
		}},
		{"it waits for its backoff", "", func(m *maker) { dead(m, proc, 21.4) }},
		{"it was reaped, and waits for its turn", "", func(m *maker) {
			dead(m, proc, 40)
			for i := range int64(40) {
				m.once(float64(i), a2, 10+i, plain)
			}
		}},
		{"no other agent is there", "", func(m *maker) {
			m.agent(3, history.Killed, a2)
			twice(m, proc)
			m.agent(2, history.Killed, a1)
			m.agent(30, history.Up, "a1.2")
			m.try(44, "a1.2", 1, 4, 2).end(45, "succeeded")
			m.try(1, a1, 1, 1, 1)
			m.sample(43, 1, 1, -50)
		}},
		{"the other stood still", "", func(m *maker) {
			m.agent(3, history.Frozen, a2)
			m.agent(30, history.Thawed, a2)
			dead(m, proc, 48)
			m.sample(43, 1, 1, -50)
		}},
		{"the network was broken", "", func(m *maker) {
			dead(m, proc, 48)
			m.broken(3, 30, "network cut")
			m.sample(43, 1, 1, -50)
			m.sample(29, 1, 1, -50)
		}},
		{"accepted with a 202", "", func(m *maker) {
			a := dead(m, web, 60)
			a.end(1.5, history.Accepted)
			m.sample(40, 1, 1, -50)
		}},
		{"an application's transaction may keep it", "", func(m *maker) {
			dead(m, web, 60)
			m.Enqueued[0].Expects.Guarded = true
			m.Events = append(m.Events, history.Event{At: s(60.5), What: history.Effect, Who: a2, ID: 1, Fence: 4})
			m.effect(1, 4)
			m.sample(40, 1, 1, -50)
		}},
		{"its type is held back since its endpoint was broken", "", func(m *maker) {
			dead(m, web, 60)
			m.broken(3, 10, "endpoint killed")
		}},
		{"its type is held back since an agent's disk was full", "", func(m *maker) {
			dead(m, web, 60)
			m.broken(3, 10, "agent disk full")
		}},
		{"another has come just now", "", func(m *maker) {
			dead(m, proc, 40)
			m.agent(30, history.Up, "a3.1")
		}},
		{"it had ended, and the word of it was lost", "", func(m *maker) { dead(m, web, 60).end(1.9, "failed") }},
		{"still held by the dead", check.DeadComesBack, func(m *maker) {
			dead(m, proc, 20)
			m.sample(17.6, 1, 1, -50)
			m.sample(18.6, 1, 1, -50)
		}},
		{"still held by the dead, long after the network was mended", check.DeadComesBack, func(m *maker) {
			dead(m, proc, 60)
			m.broken(3, 10, "network cut")
			m.sample(25.6, 1, 1, -50)
		}},
		{"no agent has anything to do, and it does not start", check.DeadComesBack, func(m *maker) { dead(m, proc, 40) }},
	})
}
