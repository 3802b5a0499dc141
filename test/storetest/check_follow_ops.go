package storetest

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// What operators do to followers, and followers beside other work.

func followCancelled(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for way, cancel := range map[string]operation{"Go": r.h.Cancel, "SQL": r.sql.Cancel} {
		id, follower := r.followedRow(store.EnqueueRequest{Type: kind, Key: way}, task.StateRunning)
		r.unchanged(id, func() {
			r.audited(func() { r.did(became(task.StateCancelled), cancel, follower, "alice") },
				Audited{Who: "alice", Verb: "cancel", Task: follower, Answer: "cancelled"})
			got := r.get(follower)
			require.Equal(t, task.StateCancelled, got.State)
			require.Equal(t, "cancelled before it started, by alice", got.Error)
			require.Zero(t, got.Follows)
			require.NotNil(t, got.FinishedAt)
			r.idle(follower, func() { r.did(became(task.StateCancelled), cancel, follower, "bob") })
			next := r.does(store.EnqueuedFollows, r.enqueueings()[way], numbered(way, store.OnLiveAgain, "3"))
			require.Greater(t, next, follower, "another has another id")
			r.did(became(task.StateCancelled), cancel, next, "")
		})
		r.settled(finish(r.holding(id)))
		require.Empty(t, r.claim(wantOf(kind, task.Run, 5)))
	}
}

func followOperated(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for way, retry := range r.retries() {
		id, follower := r.followedRow(store.EnqueueRequest{Type: kind, Key: "retry " + way}, task.StateRunning)
		r.idle(follower, func() { r.did(became(task.StatePending), retry, follower, "") })
		r.settled(finish(r.holding(id)))
		r.promoted(follower, way)
	}
	for way, rollback := range r.rollbacks() {
		id, follower := r.followedRow(store.EnqueueRequest{Type: kind, Key: "rollback " + way}, task.StateRunning)
		r.audited(func() { r.did(became(task.StateCancelled), rollback, follower, "alice") },
			Audited{Who: "alice", Verb: "rollback", Task: follower, Answer: "cancelled"})
		require.Equal(t, task.StateCancelled, r.state(follower))
		r.settled(finish(r.holding(id)))
		other, follower := r.followedRow(store.EnqueueRequest{Type: oneWayKind, Key: way}, task.StateRunning)
		r.idle(follower, func() {
			_, err := rollback(r.ctx, follower, "")
			refusal(t, way, err, `the type "suite.one_way" has no rollback`)
		})
		r.settled(finish(r.holding(other)))
		r.settled(finish(r.claimOne(oneWayKind, task.Run)))
	}
}

func followBatch(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, rows := r.batch(store.BatchRequest{}, store.EnqueueRequest{Type: kind, Key: "k"}, store.EnqueueRequest{Type: kind, Key: "l", In: farOff})
	row := r.claimOne(kind, task.Run)
	require.Equal(t, rows[0], row.ID)
	first := r.does(store.EnqueuedFollows, r.enqueueings()["SQL"], numbered("k", store.OnLiveAgain, "2"))
	second := r.does(store.EnqueuedFollows, r.enqueueings()["SQL"], numbered("l", store.OnLiveAgain, "2"))
	require.EqualValues(t, 2, r.inState(id, store.BatchRunning).Total)
	r.settled(finish(row))
	r.promoted(first, "a row of a batch")
	_, err := r.h.CancelBatch(r.ctx, id, "")
	require.NoError(t, err)
	r.steps()
	require.Equal(t, task.StateCancelled, r.state(rows[1]))
	require.Zero(t, r.get(second).Batch)
	r.promoted(second, "cancelled with its batch")
	r.fold()
	require.EqualValues(t, 2, r.look(id).Total)
}

func followRevived(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for way, retry := range r.retries() {
		id, follower := r.followedRow(store.EnqueueRequest{Type: kind, Key: way}, task.StateRunning)
		r.settled(ended(r.holding(id), task.Failed, task.StateFailed))
		r.idle(id, func() {
			_, err := retry(r.ctx, id, "")
			refusal(t, way, err, fmt.Sprintf("task %d is live with the key %q", follower, way))
		})
		r.promoted(follower, way)
		r.did(became(task.StatePending), retry, id, "")
		r.settled(finish(r.claimOne(kind, task.Run)))
	}
}

func followChain(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, next := r.followedRow(store.EnqueueRequest{Type: kind, Key: "k"}, task.StateRunning)
	r.settled(finish(r.holding(id)))
	for range 3 {
		row := r.claimOne(kind, task.Run)
		require.Equal(t, next, row.ID)
		next = r.does(store.EnqueuedFollows, r.enqueueings()["SQL"], numbered("k", store.OnLiveReplace, "2"))
		require.Equal(t, row.ID, r.get(next).Follows)
		r.settled(finish(row))
	}
	r.promoted(next, "the last one")
	r.does(store.EnqueuedInserted, r.enqueueings()["SQL"], numbered("k", store.OnLiveReplace, "2"))
}

// followConcurrent: of the rows that producers enqueue the last one runs after all others, and every row that was there runs once.
func followConcurrent(t testing.TB, h Harness) {
	const producers, each = 3, 25
	r := newOpsRig(t, h)
	var mu sync.Mutex
	there := map[task.ID]bool{}
	var work sync.WaitGroup
	failed := make(chan error, producers)
	for p := range producers {
		o := r.twin()
		work.Go(func() {
			failed <- func() error {
				for n := range each {
					q := numbered("k", []store.OnLive{store.OnLiveAgain, store.OnLiveReplace}[(n+p)%2], strconv.Itoa(n*producers+p))
					id, _, err := o.Enqueue(r.ctx, q)
					if err != nil {
						return err
					}
					mu.Lock()
					there[id] = true
					mu.Unlock()
				}
				return nil
			}()
		})
	}
	done := make(chan struct{})
	go func() { work.Wait(); close(done) }()
	ran, last := map[task.ID]int{}, ""
	for over := false; ; {
		rows := r.claim(wantOf(kind, task.Run, 1))
		if len(rows) == 0 && over {
			break
		}
		select {
		case <-done:
			over = true
		case <-r.ctx.Done():
			require.Fail(t, "producers did not come to an end")
		default:
		}
		for _, row := range rows {
			ran[row.ID]++
			last = string(row.Payload)
			for r.settle(finish(row))[0] == store.Busy && context.Cause(r.ctx) == nil {
				continue
			}
		}
	}
	for range producers {
		require.NoError(t, <-failed)
	}
	for id := range there {
		require.Equal(t, 1, ran[id], "task %d", id)
	}
	require.Len(t, ran, len(there))
	ends := make([]string, producers)
	for p := range ends {
		ends[p] = fmt.Sprintf(`{"n":%d}`, (each-1)*producers+p)
	}
	require.Contains(t, ends, oneWay(raw(last)), "the last one is the last of a producer")
}
