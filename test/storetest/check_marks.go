package storetest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func markChecks() []Check {
	return []Check{
		{"what goes round in circles is not kept", marksCircles},
		{"the rule is one, however a report comes", marksGenerated},
		{"marks of the session bind other ways, and their marks reach the session", marksMerged},
		{"each attempt begins anew", marksAnew},
		{"a renewal without them leaves them", marksStay},
	}
}

// circles are the reports of a loop that hangs, in turns: after the first round none of them advances.
func circles() map[string][]store.Ping {
	return map[string][]store.Ping{
		"two numbers":       {{Progress: raw(`0.4`)}, {Progress: raw(`0.5`)}},
		"falling numbers":   {{Progress: raw(`0.9`)}, {Progress: raw(`0.5`)}, {Progress: raw(`0.4`)}, {Progress: raw(`0`)}},
		"two counts":        {{Progress: raw(`{"done":4,"total":9}`)}, {Progress: raw(`{"done":5,"total":9}`)}, {Progress: raw(`{"done":5,"total":10}`)}},
		"a number and text": {{Progress: raw(`0.4`)}, {Progress: raw(`"0.4"`)}},
		"numbers and texts": {{Progress: raw(`0.4`)}, {Progress: raw(`"0.4"`)}, {Progress: raw(`"0.40"`)}, {Progress: raw(`0.3`)}},
		"members reordered": {{Checkpoint: raw(`{"a":1,"b":[2,{"c":0.4,"d":null}]}`)}, {Checkpoint: raw(`{"b":[2,{"d":null,"c":0.40}],"a":1.0}`)}},
		"eight texts": {
			{Progress: raw(`"a"`)}, {Progress: raw(`"b"`)}, {Progress: raw(`"c"`)}, {Progress: raw(`"d"`)},
			{Progress: raw(`"e"`)}, {Progress: raw(`"f"`)}, {Progress: raw(`"g"`)}, {Progress: raw(`"h"`)},
		},
		"text and checkpoint": {{Progress: raw(`"a"`), Checkpoint: raw(`"a"`)}, {Progress: raw(`"b"`), Checkpoint: raw(`1`)}, {Checkpoint: raw(`1.0`)}},
	}
}

// marksCircles: a task that goes round in circles is stalled, by whatever way it says so, also by two ways in turns.
func marksCircles(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	o := r.second()
	for name, pings := range circles() {
		for way, send := range map[string]func(row task.Task, n int, p store.Ping){
			"by Go":        func(row task.Task, _ int, p store.Ping) { o.ping(row, p) },
			"by SQL":       func(row task.Task, _ int, p store.Ping) { r.mustPingSQL(row, p) },
			"in turns":     func(row task.Task, n int, p store.Ping) { r.either(row, n%2 == 0, p) },
			"by both each": func(row task.Task, _ int, p store.Ping) { r.either(row, true, p); r.either(row, false, p) },
		} {
			row := r.heldUnder(moving())
			for n, p := range append(pings, pings...) { // SQL may count once what Go has, and the other way round
				send(row, n, p)
			}
			left := r.leaseEnd(row.ID).Sub(r.now())
			r.Advance(t, 5*time.Minute)
			for n, p := range append(append(pings, pings...), pings...) {
				send(row, n, p)
			}
			require.InDelta(t, left-5*time.Minute, r.leaseEnd(row.ID).Sub(r.now()), float64(slack), "%s, %s", name, way)
			r.Advance(t, 9*time.Minute)
			r.present()
			o.present()
			dead := o.sweep(10)
			require.Len(t, dead, 1, "%s, %s", name, way)
			gone := finish(dead[0].Task)
			require.Equal(t, same(store.Applied, 1), o.settle(gone))
		}
	}
}

func (r *liveRig) mustPingSQL(row task.Task, p store.Ping) *store.PingReply {
	r.t.Helper()
	reply, err := r.pingSQL(row.ID, row.Fence, p)
	require.NoError(r.t, err)
	return reply
}

func (r *liveRig) either(row task.Task, goes bool, p store.Ping) {
	r.t.Helper()
	if goes {
		r.ping(row, p)
	} else {
		r.mustPingSQL(row, p)
	}
}

// marksGenerated compares what a store says of generated reports with task.Marks. A report comes through the session that
// holds the row (which decides alone, and reports to the store), through another agent, or by SQL; and not always in the
// same words.
func marksGenerated(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	o := r.second()
	const histories, reports = 6, 40
	for range histories {
		seed := rand.Uint64()
		g := &reporter{rand.New(rand.NewPCG(seed, 0))}
		row := r.heldUnder(moving())
		marks := task.Marks{Fence: row.Fence}
		var notified []string
		for range reports {
			p := g.report()
			way := g.IntN(3)
			notified = append(notified, fmt.Sprintf("way %d: progress %s, checkpoint %s", way, p.Progress, p.Checkpoint))
			if way == 2 && !h.ComparesJSON() && (p.Checkpoint != nil || isText(p.Progress)) {
				way = 1
			}
			if way == 2 && (string(p.Progress) == `"0.4"` || len(p.Progress) > 0 && p.Progress[0] == '0' && strings.ContainsAny(string(p.Progress), "eE")) {
				way = 1 // to SQL, which is given words, a number in the one case and none in the other
			}
			want := marks.Advance(p.Progress, p.Checkpoint)
			got := want
			switch way {
			case 0:
				at := marks
				require.Equal(t, store.Applied, r.renewOne(store.Renewal{ID: row.ID, Fence: row.Fence, Window: time.Minute, Marks: &at}))
			case 1:
				got = o.ping(row, p).Counted
			case 2:
				if reply := r.mustPingSQL(row, p); reply != nil {
					got = reply.Counted
				}
			}
			require.Equal(t, want, got, "seed %d: %s", seed, strings.Join(notified, "\n"))
		}
		r.settled(finish(row))
	}
}

func isText(doc json.RawMessage) bool { return len(doc) > 0 && doc[0] == '"' }

// reporter makes up what a task reports.
type reporter struct{ *rand.Rand }

func (g *reporter) report() (p store.Ping) {
	switch g.IntN(4) {
	case 0:
		p.Progress = raw(g.form(fmt.Sprintf("0.%d", 1+g.IntN(30))))
	case 1:
		p.Progress = raw(fmt.Sprintf(`{"done":%s,"total":99}`, g.form(strconv.Itoa(g.IntN(90)))))
	case 2:
		p.Progress = raw(g.text())
	}
	if g.IntN(3) == 0 || p.Progress == nil {
		p.Checkpoint = raw(g.value(3))
	}
	return p
}

// form writes a number in one of the ways in which it can be written.
func (g *reporter) form(n string) string {
	switch g.IntN(4) {
	case 0:
		if strings.Contains(n, ".") {
			return n + strings.Repeat("0", 1+g.IntN(3))
		}
		return n + ".0"
	case 1:
		return n + "e0"
	case 2:
		return n + "E+00"
	}
	return n
}

func (g *reporter) text() string {
	return []string{`"a"`, `"0.4"`, `"\u00e9"`, `"é"`, `"a\/b"`, `"a/b"`, `"\ud83d\ude00"`, `"z"`, `"n"`, `"{}"`}[g.IntN(10)]
}

// value makes up JSON of which much is alike, with its members in any order.
func (g *reporter) value(deep int) string {
	most := 7
	if deep == 0 {
		most = 5
	}
	switch g.IntN(most) {
	case 0:
		return []string{"null", "true", "false", `{}`, `[]`}[g.IntN(5)]
	case 1:
		return g.form([]string{"0", "-1", "1", "100", "12.5", "-0.25", "9007199254740993"}[g.IntN(7)])
	case 2:
		return []string{"1e2", "1E2", "1250e-2", "0.1e-10", "-0", "-0.0", "1e300"}[g.IntN(7)]
	case 3, 4:
		return g.text()
	case 5:
		items := make([]string, g.IntN(3))
		for i := range items {
			items[i] = g.value(deep - 1)
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	members := make([]string, 0, 3)
	for _, i := range g.Perm(3)[:g.IntN(4)] {
		members = append(members, fmt.Sprintf("%q: %s", []string{"a", "bb", "c"}[i], g.value(deep-1)))
	}
	return "{" + strings.Join(members, ",") + "}"
}

// marksMerged: the holder's session decides by the pings that it received itself. So it writes its marks to the row, and
// reads those of the other ways from there.
func marksMerged(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	o := r.second()
	row := r.heldUnder(moving())
	mine := task.Marks{Fence: row.Fence}
	require.True(t, mine.Advance(raw(`0.5`), raw(`{"page":5,"of":9}`)))
	renewal := store.Renewal{ID: row.ID, Fence: row.Fence, Window: 10 * time.Minute, Marks: &mine}
	for range 2 { // it may be repeated
		require.Equal(t, store.Applied, r.renewOne(renewal))
	}
	require.False(t, o.ping(row, store.Ping{Progress: raw(`0.4`)}).Counted)
	require.False(t, o.ping(row, store.Ping{Progress: raw(`0.50`), Checkpoint: raw(`{"of":9,"page":5.0}`)}).Counted)
	require.False(t, r.held0().Pinged)
	o.counted(row, store.Ping{Progress: raw(`0.75`)})
	o.counted(row, store.Ping{Progress: raw(`"last"`)})
	held := r.held0()
	require.True(t, held.Pinged)
	mine.Merge(task.MarksOf(held.Marks, row.Fence))
	require.False(t, mine.Advance(raw(`0.75`), nil))
	require.False(t, mine.Advance(raw(`"last"`), nil))
	require.True(t, mine.Advance(raw(`0.8`), nil))
	foreign := task.Marks{Fence: row.Fence + 1}
	require.True(t, foreign.Advance(raw(`1`), nil))
	renewal.Marks = &foreign
	require.Equal(t, store.Applied, r.renewOne(renewal))
	o.counted(row, store.Ping{Progress: raw(`0.9`)})
}

// marksAnew: what an earlier attempt has reported does not bind the next, not even where it goes on from its checkpoint.
func marksAnew(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	p := store.Ping{Progress: raw(`0.9`), Checkpoint: raw(`{"page":9}`)}
	row := r.heldUnder(moving())
	for range 3 {
		r.counted(row, p)
		require.False(t, r.ping(row, p).Counted)
		r.settled(retry(row, 0))
		row = r.claim(under(moving(), 1))[0]
		require.Nil(t, r.held0().Marks)
		require.NotNil(t, r.get(row.ID).Progress, "it is still to be seen")
	}
	mine := task.Marks{Fence: row.Fence}
	require.True(t, mine.Advance(raw(`0.1`), nil))
	require.Equal(t, store.Applied, r.renewOne(store.Renewal{ID: row.ID, Fence: row.Fence, Window: time.Minute, Marks: &mine}))
	r.counted(row, store.Ping{Progress: raw(`0.2`)})
}

func marksStay(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	row := r.heldUnder(moving())
	r.counted(row, store.Ping{Progress: raw(`0.5`)})
	for _, w := range []store.Renewal{
		{ID: row.ID, Fence: row.Fence, Window: 10 * time.Minute},
		{ID: row.ID, Fence: row.Fence, Window: 10 * time.Minute, Detach: true, Report: store.Report{Progress: raw(`0.1`)}},
	} {
		require.Equal(t, store.Applied, r.renewOne(w))
		require.False(t, r.ping(row, store.Ping{Progress: raw(`0.5`)}).Counted)
	}
}
