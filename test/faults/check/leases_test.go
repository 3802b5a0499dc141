package check

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/faults/history"
)

// leaseLog makes histories of one lease with a ttl of 3 s; times are in milliseconds. Each call takes 100 ms.
type leaseLog struct{ h history.History }

func (l *leaseLog) call(asked int, holder string, verb history.LeaseVerb, fence int64, answer history.LeaseAnswer) *leaseLog {
	from := time.Duration(asked) * time.Millisecond
	l.h.Leases.Calls = append(l.h.Leases.Calls, history.LeaseCall{
		Asked: from, At: from + 100*time.Millisecond, Holder: holder, Name: "l", Verb: verb, Fence: fence, TTL: 3 * time.Second, Answer: answer,
	})
	return l
}

// took is an acquire that was granted, with its step.
func (l *leaseLog) took(asked int, holder string, fence int64) *leaseLog {
	return l.step(holder, fence, history.LeaseTaken).call(asked, holder, history.Acquire, fence, history.Granted)
}

// slow has the last call be asked earlier.
func (l *leaseLog) slow(by int) *leaseLog {
	l.h.Leases.Calls[len(l.h.Leases.Calls)-1].Asked -= time.Duration(by) * time.Millisecond
	return l
}

func (l *leaseLog) renewed(asked int, holder string, fence int64) *leaseLog {
	return l.call(asked, holder, history.Renew, fence, history.Granted)
}

func (l *leaseLog) step(holder string, fence int64, what string) *leaseLog {
	l.h.Leases.Steps = append(l.h.Leases.Steps, history.LeaseStep{
		Serial: int64(len(l.h.Leases.Steps)), Name: "l", Fence: fence, Holder: holder, What: what,
	})
	return l
}

// clock has the server's clock wrong for a time.
func (l *leaseLog) clock(from, to int, by string) *leaseLog {
	note := "clock of the server " + by
	l.h.Events = append(l.h.Events,
		history.Event{At: time.Duration(from) * time.Millisecond, What: history.Fault, Note: note},
		history.Event{At: time.Duration(to) * time.Millisecond, What: history.Heal, Note: note})
	return l
}

func TestLeases(t *testing.T) {
	t.Parallel()
	start := func() *leaseLog {
		return (&leaseLog{h: history.History{Presence: 3 * time.Second}}).took(0, "a", 7)
	}
	const long = 60_000
	for name, c := range map[string]struct {
		log    *leaseLog
		breaks []Name
	}{
		"one":            {start().renewed(1000, "a", 7), nil},
		"after its ttl":  {start().took(3000, "b", 8), nil},
		"within its ttl": {start().took(2500, "b", 8), []Name{OneHolderAtATime}},
		"told too late": {
			(&leaseLog{}).step("b", 6, history.LeaseTaken).took(0, "a", 7).call(1000, "b", history.Acquire, 6, history.Granted).slow(4000), nil,
		},
		"taken, and told too late": {start().took(1000, "b", 8).slow(4000), []Name{OneHolderAtATime}},
		"told just in time": {
			(&leaseLog{}).step("b", 6, history.LeaseTaken).took(0, "a", 7).call(1000, "b", history.Acquire, 6, history.Granted).slow(2000),
			[]Name{OneHolderAtATime},
		},
		"renewed":                {start().renewed(2000, "a", 7).took(4500, "b", 8), []Name{OneHolderAtATime}},
		"renewed too late":       {start().took(3000, "b", 8).renewed(3500, "a", 7), []Name{OneHolderAtATime}},
		"released":               {start().call(1000, "a", history.Releasing, 7, "").step("a", 7, history.LeaseFree).took(1100, "b", 8), nil},
		"lost":                   {start().call(3000, "a", history.Renew, 7, history.Lost), nil},
		"lost early":             {start().call(1000, "a", history.Renew, 7, history.Lost), []Name{OneHolderAtATime}},
		"held early":             {start().call(1000, "a", history.Hold, 7, history.Lost), []Name{OneHolderAtATime}},
		"a jump ahead":           {start().clock(1000, long, "5s").took(1500, "b", 8), []Name{OneHolderAtATime}},
		"a small jump":           {start().clock(1000, long, "500ms").took(2500, "b", 8), nil},
		"more than a small jump": {start().clock(1000, long, "500ms").took(2000, "b", 8), []Name{OneHolderAtATime}},
		"a small jump that was noted after a renewal": {
			start().renewed(20_000, "a", 7).clock(1000, 20_150, "-500ms").took(22_600, "b", 8), nil,
		},
		"more than such a jump": {
			start().renewed(20_000, "a", 7).clock(1000, 20_150, "-500ms").took(22_300, "b", 8), []Name{OneHolderAtATime},
		},
		"a small jump before a renewal": {
			start().renewed(20_000, "a", 7).clock(1000, 19_950, "-500ms").took(22_600, "b", 8), []Name{OneHolderAtATime},
		},
		"two jumps":               {start().clock(1000, 2000, "-5s").took(2100, "b", 8), nil},
		"a jump long after":       {start().renewed(20_000, "a", 7).clock(500, 21_000, "-5s").took(21_500, "b", 8), []Name{OneHolderAtATime}},
		"not spared":              {start().clock(2000, long, "5s").took(4000, "b", 8), []Name{LeaseOutlivesJump}},
		"not spared at a return":  {start().renewed(20_000, "a", 7).clock(1000, 21_000, "-5s").took(23_100, "b", 8), []Name{LeaseOutlivesJump}},
		"a jump back":             {start().clock(2000, long, "-5s").took(4000, "b", 8), nil},
		"spared":                  {start().clock(2000, long, "5s").took(5000, "b", 8), nil},
		"spared, but released":    {start().clock(2000, long, "5s").call(2500, "a", history.Releasing, 7, "").took(2600, "b", 8), nil},
		"not relied on at a jump": {start().clock(3100, long, "5s").took(3200, "b", 8), nil},
		"asked again":             {start().call(100, "b", history.Acquire, 0, history.Denied), nil},
		"again, the same fence": {(&leaseLog{}).step("a", 7, history.LeaseTaken).call(0, "a", history.Acquire, 0, history.NoAnswer).
			call(1000, "a", history.Acquire, 7, history.Granted), nil},
		"again, another fence": {(&leaseLog{}).step("a", 7, history.LeaseTaken).call(0, "a", history.Acquire, 0, history.NoAnswer).
			took(1000, "a", 8), []Name{HolderAsksAgain}},
		"again, too late": {(&leaseLog{}).step("a", 7, history.LeaseTaken).call(0, "a", history.Acquire, 0, history.NoAnswer).
			took(3000, "a", 8), nil},
		"again, and another fence long before": {(&leaseLog{}).step("a", 5, history.LeaseTaken).call(0, "a", history.Acquire, 0, history.NoAnswer).
			took(4000, "a", 8).call(6000, "a", history.Acquire, 0, history.NoAnswer).call(6500, "a", history.Acquire, 8, history.Granted), nil},
		"a lower fence":       {start().took(4000, "b", 6), []Name{LeaseFencesRise}},
		"the same fence":      {start().took(4000, "b", 7), []Name{LeaseFencesRise}},
		"never taken":         {start().renewed(4000, "b", 8), []Name{LeaseFencesRise}},
		"an effect":           {start().step("a", 7, history.LeaseEffect), nil},
		"a stale effect":      {start().took(4000, "b", 8).step("a", 7, history.LeaseEffect), []Name{LeaseEffectsGuarded}},
		"an effect of others": {start().step("b", 7, history.LeaseEffect), []Name{LeaseEffectsGuarded}},
		"an effect after the release": {
			start().step("a", 7, history.LeaseFree).step("a", 7, history.LeaseEffect), []Name{LeaseEffectsGuarded},
		},
		"a stale effect after a jump": {
			start().clock(1000, 2000, "-5s").took(2100, "b", 8).step("a", 7, history.LeaseEffect), []Name{LeaseEffectsGuarded},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var broken []Name
			for _, v := range Check(&c.log.h) {
				broken = append(broken, v.Invariant)
				require.Equal(t, "l", v.Lease)
				require.Contains(t, Trace(&c.log.h, v), v.What)
			}
			require.Equal(t, c.breaks, broken)
		})
	}
}
