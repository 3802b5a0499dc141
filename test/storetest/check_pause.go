package storetest

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
)

func pauseChecks() []Check {
	return []Check{
		{"paused and resumed, once each", pausedAndResumed},
		{"by name", pausedByName},
		{"refused", pausesRefused},
		{"by several at once", pausedAtOnce},
	}
}

// pauses lists the paused types, without their times.
func (r *rig) pauses() []store.TypePause {
	r.t.Helper()
	list, err := r.Pauses(r.ctx)
	require.NoError(r.t, err)
	for i := range list {
		near(r.t, r.Now(), list[i].At)
		list[i].At = time.Time{}
	}
	return list
}

func pausedAndResumed(t testing.TB, h Harness) {
	r := newRig(t, h)
	require.Empty(t, r.pauses())
	change := func(f func() (bool, error), want bool) {
		t.Helper()
		changed, err := f()
		require.NoError(t, err)
		require.Equal(t, want, changed)
	}
	pause := func(reason, by string) func() (bool, error) {
		return func() (bool, error) { return r.PauseType(r.ctx, "a", reason, by) }
	}
	resume := func() (bool, error) { return r.ResumeType(r.ctx, "a", "bob") }
	r.noted(func() { change(resume, false) })
	r.noted(func() { change(pause("the bank is down", "alice"), true) },
		Audited{Who: "alice", Verb: "pause", Type: "a", Reason: "the bank is down", Answer: "paused"})
	is := []store.TypePause{{Type: "a", By: "alice", Reason: "the bank is down"}}
	require.Equal(t, is, r.pauses())
	r.noted(func() { change(pause("another", "bob"), false) })
	require.Equal(t, is, r.pauses(), "a second pause changes nothing")
	r.noted(func() { change(resume, true) }, Audited{Who: "bob", Verb: "resume", Type: "a", Answer: "resumed"})
	require.Empty(t, r.pauses())
	r.noted(func() { change(pause("", ""), true) }, Audited{Verb: "pause", Type: "a", Answer: "paused"})
	require.Equal(t, []store.TypePause{{Type: "a"}}, r.pauses())
}

func pausedByName(t testing.TB, h Harness) {
	r := newRig(t, h)
	names := []string{"b", "a", "A", `say "hello"`, "'", strings.Repeat("x", 255)}
	for _, name := range names {
		changed, err := r.PauseType(r.ctx, name, "", "alice")
		require.NoError(t, err)
		require.True(t, changed, name)
	}
	var got []string
	for _, p := range r.pauses() {
		got = append(got, p.Type)
	}
	require.ElementsMatch(t, names, got)
	require.Less(t, strings.Join(got, " "), "z")
}

func pausesRefused(t testing.TB, h Harness) {
	r := newRig(t, h)
	long := strings.Repeat("x", 513)
	for _, c := range []struct{ typ, reason, by, want string }{
		{"", "", "", "type must have 1 to 255 bytes"}, {long[:256], "", "", "type must have 1 to 255 bytes"},
		{"a", long, "", "reason must be 512 bytes at most"},
	} {
		_, err := r.PauseType(r.ctx, c.typ, c.reason, c.by)
		require.ErrorContains(t, err, c.want)
	}
	require.Empty(t, r.pauses())
}

func pausedAtOnce(t testing.TB, h Harness) {
	r := newRig(t, h)
	const n = 4
	changes := make(chan bool, n)
	errs := make(chan error, n)
	for range n {
		go func() {
			changed, err := r.PauseType(r.ctx, "a", "", "alice")
			changes <- changed
			errs <- err
		}()
	}
	one := 0
	for range n {
		if <-changes {
			one++
		}
		require.NoError(t, <-errs)
	}
	require.Equal(t, 1, one)
	require.Len(t, r.pauses(), 1)
}
