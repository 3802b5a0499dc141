package guardian

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/internal/lease"
)

// sent returns a watch that has applied the records.
func sent(records ...record) *watch {
	w := newWatch()
	for _, r := range records {
		w.apply(r)
	}
	return w
}

func started(number uint64, end time.Duration) record {
	return record{kind: start, number: number, pgid: 1000 + int(number), end: end}
}

func TestKillTimes(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		records []record
		want    time.Duration
	}{
		"nothing runs":           {[]record{{kind: present, end: 10 * s}}, never},
		"no presence was sent":   {[]record{started(1, 30*s)}, 29 * s},
		"its window is first":    {[]record{started(1, 5*s), {kind: present, end: 10 * s}}, 4 * s},
		"presence is first":      {[]record{started(1, 50*s), {kind: present, end: 10 * s}}, 9 * s},
		"presence moves":         {[]record{started(1, 50*s), {kind: present, end: 10 * s}, {kind: present, end: 12 * s}}, 11 * s},
		"its window moves":       {[]record{started(1, 5*s), {kind: move, number: 1, end: 7 * s}}, 6 * s},
		"another's window moves": {[]record{started(1, 5*s), {kind: move, number: 2, end: 7 * s}}, 4 * s},
		"the earliest of them":   {[]record{started(1, 5*s), started(2, 3*s), started(3, 9*s)}, 2 * s},
		"it is over":             {[]record{started(1, 5*s), {kind: over, number: 1}}, never},
		"one has sent no record": {[]record{started(2, 50*s), {kind: present, end: 10 * s}, {kind: over, number: 2}}, never},
		"it began, no more":      {[]record{{kind: base, number: 7}, {kind: pending, number: 6, end: 8 * s}, {kind: present, end: 10 * s}}, 7 * s},
		"it began, and is over":  {[]record{{kind: pending, number: 6, end: 8 * s}, {kind: over, number: 6}}, never},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, sent(c.records...).next())
		})
	}
	require.Equal(t, time.Second, lease.KillMargin)
}

func TestCondemned(t *testing.T) {
	const s = time.Second
	w := sent(started(1, 5*s), started(2, 8*s), record{kind: present, end: 20 * s})
	require.False(t, w.condemn(4*s-1, false))
	require.True(t, w.condemn(4*s, false))
	require.False(t, w.condemn(4*s, false), "only once")
	require.True(t, w.alive())
	w.apply(record{kind: move, number: 1, end: 50 * s})
	require.True(t, w.groups[1].condemned, "nothing brings it back")
	require.False(t, w.groups[2].condemned)
	require.Equal(t, 4*s, w.next(), "it is to be killed again")
	w.groups[1].dead = true
	require.False(t, w.alive())
	require.Equal(t, 7*s, w.next())

	require.False(t, w.gone(19*s-1))
	require.True(t, w.gone(19*s))
	require.True(t, w.condemn(5*s, true))
	require.True(t, w.groups[2].condemned)

	w = sent(record{kind: pending, number: 1, end: 5 * s})
	require.True(t, w.condemn(4*s, false), "whatever it has started")
	w.apply(started(1, 50*s))
	require.True(t, w.groups[1].condemned, "nothing brings it back")
}

func TestWhatIsLookedFor(t *testing.T) {
	const s = time.Second
	w := sent(record{kind: base, number: 10}, record{kind: pending, number: 8, end: 50 * s}, started(9, 5*s),
		record{kind: pending, number: 11, end: 50 * s}, started(12, 50*s), record{kind: pending, number: 13, end: 4 * s}, started(14, 50*s),
		record{kind: over, number: 14})
	w.condemn(4*s, false)
	mine := func(all bool) (numbers []uint64) {
		for n := range uint64(20) {
			if w.wants(n, all) {
				numbers = append(numbers, n)
			}
		}
		return numbers
	}
	require.Equal(t, []uint64{9, 13}, mine(false), "whose time has come")
	require.Equal(t, []uint64{8, 9, 11, 12, 13, 15, 16, 17, 18, 19}, mine(true), "all that are not over")
	w.apply(record{kind: over, number: 12})
	require.False(t, w.wants(12, true))
}

// A look may last: what it finds was perhaps started after presence had been prolonged, which the agent says first.
func TestALookReadsPresenceBeforeItKills(t *testing.T) {
	l := &loop{watch: sent(record{kind: present, end: 5 * time.Second}), asks: make(chan question)}
	answer := make(chan bool)
	ask := func() {
		go func() { answer <- l.ask(1) }()
		for l.question.answer == nil {
			l.await(time.Second)
		}
	}
	l.purge(5 * time.Second)
	require.True(t, l.purging)
	ask()
	l.reply()
	require.True(t, <-answer, "the agent has said nothing new")
	ask()
	l.watch.apply(record{kind: present, end: time.Minute})
	l.purge(5 * time.Second)
	l.reply()
	require.False(t, <-answer)
}

// Whatever order attempts begin, start and end in, exactly those are looked for that are not over, and what is kept is
// no more than those, however many there have been.
func TestOverProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWatch()
		var last uint64
		var running, begun []uint64
		ended := make(map[uint64]bool)
		for range rapid.IntRange(1, 200).Draw(rt, "steps") {
			switch rapid.IntRange(0, 4).Draw(rt, "step") {
			case 0, 1:
				last++
				begun = append(begun, last)
				w.apply(record{kind: pending, number: last, end: time.Minute})
			case 2: // it starts
				if len(begun) > 0 {
					i := rapid.IntRange(0, len(begun)-1).Draw(rt, "which")
					running = append(running, begun[i])
					w.apply(started(begun[i], time.Minute))
					begun = slices.Delete(begun, i, i+1)
				}
			case 3: // it ends
				if len(running) > 0 {
					i := rapid.IntRange(0, len(running)-1).Draw(rt, "which")
					w.apply(record{kind: over, number: running[i]})
					ended[running[i]] = true
					running = slices.Delete(running, i, i+1)
				}
			case 4: // it could not start
				if len(begun) > 0 {
					i := rapid.IntRange(0, len(begun)-1).Draw(rt, "which")
					w.apply(record{kind: over, number: begun[i]})
					ended[begun[i]] = true
					begun = slices.Delete(begun, i, i+1)
				}
			}
			for n := uint64(1); n <= last+3; n++ {
				if w.wants(n, true) == ended[n] {
					rt.Fatalf("attempt %d: ended is %v, and so is wanted", n, ended[n])
				}
			}
			if len(w.groups) != len(running)+len(begun) {
				rt.Fatalf("%d groups for %d that run and %d that begin", len(w.groups), len(running), len(begun))
			}
		}
	})
}
