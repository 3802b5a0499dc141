package poll_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest/model"
)

func TestAliasGetsItsTurn(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		r := newRig(t, store, func(r *rig) {
			r.opts.Types = []*task.Type{declare("a", 0)}
			r.opts.Types[0].Aliases = []string{"old"}
			r.opts.Workers = 1
			r.deeds.do = takes(2 * time.Second)
		})
		r.insert(1000)
		after(time.Second)
		old := r.insert(1, of("old"))
		after(15 * time.Second)
		r.all(old, task.StateSucceeded, 1)
		r.engine.Drain()
		<-r.over
	})
}

func TestBusyTypesDoNotKeepTheLoopFromLooking(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		r := newRig(t, store, func(r *rig) {
			r.opts.Types = []*task.Type{declare("b", 0)}
			for name := range strings.SplitSeq("acdefghi", "") {
				r.opts.Types = append(r.opts.Types, declare(name, 1))
			}
			r.opts.Workers = 8
			r.deeds.do = takes(16 * time.Millisecond)
		})
		r.wire.setSlow("claim", 100*time.Millisecond)
		r.insert(1000)
		r.insert(1800, of("c"))
		after(1500 * time.Millisecond)
		rare := r.insert(1, of("b"))
		after(1500 * time.Millisecond)

		require.Less(t, len(r.deeds.started()), 2000, "there is a backlog still")
		r.all(rare, task.StateSucceeded, 1)
		r.engine.Drain()
		<-r.over
	})
}

func TestNotificationsAreAskedForAgainWhereThatMayBeForgotten(t *testing.T) {
	for what, forget := range map[string]func(*testing.T, *rig){
		"the reply to the opposite was lost": func(t *testing.T, r *rig) {
			r.wire.setHook(func(op string) fault {
				if op == "idle" {
					return lostReply
				}
				return none
			})
			r.insert(8)
			after(5 * time.Second) // never idle: "no more notifications"
			r.wire.setHook(nil)
		},
		"the session's row was written anew": func(t *testing.T, r *rig) {
			require.NoError(t, r.store.Idle(t.Context(), r.session(), false))
		},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *model.Store) {
				r := newRig(t, store, func(r *rig) { r.deeds.do = takes(4 * time.Second) })
				after(5 * time.Second)
				require.True(t, store.Idles(r.session()))
				forget(t, r)
				after(90 * time.Second)
				require.True(t, store.Idles(r.session()))
				r.drain()
			})
		})
	}
}

func TestBusyAgentIsNotNotified(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		r := newRig(t, store, func(r *rig) { r.deeds.do = takes(5 * time.Second) })
		after(2 * time.Second)
		require.True(t, store.Idles(r.session()))
		first := true
		r.wire.setHook(func(op string) fault {
			if op == "idle" && first {
				first = false
				return lostCall
			}
			return none
		})
		r.insert(100)
		after(4 * time.Second)
		require.False(t, first)
		require.False(t, store.Idles(r.session()), "the write is repeated after it failed")
		r.engine.Drain()
		<-r.over
	})
}

func TestRowsOfACappedTypeLeaveTheOthersIdle(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		r := newRig(t, store, func(r *rig) {
			r.opts.Poll = 24 * time.Hour
			r.deeds.do = takes(5 * time.Millisecond) // fast enough to be claimed ahead
		})
		r.insert(1500, of("b")) // two workers at most
		after(2500 * time.Millisecond)
		require.True(t, store.Idles(r.session()), "half of the slots are free")
		a := r.insert(1)
		after(50 * time.Millisecond)
		synctest.Wait()
		r.all(a, task.StateSucceeded, 1)
		r.engine.Drain()
		<-r.over
	})
}
