package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
)

func wakeChecks() []Check {
	return []Check{
		{"an insert wakes an idle session", wakeInsert},
		{"being idle or not changes no row", wakeIdle},
	}
}

// listen has the store call wakes until the check is over.
func (r *rig) listen() (wakes <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancel(r.ctx)
	woken := make(chan struct{}, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- r.Listen(ctx, func(store.News) {
			select {
			case woken <- struct{}{}:
			default:
			}
		})
	}()
	return woken, func() {
		r.t.Helper()
		cancel()
		select {
		case err := <-ended:
			require.NoError(r.t, err, "Listen returns nil when its context ends")
		case <-time.After(20 * time.Second):
			require.Fail(r.t, "Listen did not return when its context ended")
		}
	}
}

func wakeInsert(t testing.TB, h Harness) {
	r := newRig(t, h)
	producer := r.Twin(t)
	wakes, stop := r.listen()
	defer stop()
	require.NoError(t, r.Idle(r.ctx, r.session, true))
	for way, add := range map[string]func(){
		"INSERT": func() { producer.Insert(t, store.EnqueueRequest{Type: kind}) },
		"SQL":    func() { producer.EnqueueSQL(t, store.EnqueueRequest{Type: kind}) },
		"Go": func() {
			_, _, err := producer.Enqueue(r.ctx, store.EnqueueRequest{Type: kind})
			require.NoError(t, err)
		},
	} {
		for range 2 { // a wake when the listening begins is allowed, and is not enough
			woken := false
			for try := 0; try < 10 && !woken; try++ { // the first inserts may come before the listening has begun
				add()
				select {
				case <-wakes:
					woken = true
				case <-time.After(time.Second):
				}
			}
			require.True(t, woken, "by %s", way)
		}
	}
	require.NoError(t, r.Idle(r.ctx, r.session, false))
}

func wakeIdle(t testing.TB, h Harness) {
	r := newRig(t, h)
	row := r.held()
	r.unchanged(row.ID, func() {
		require.NoError(t, r.Idle(r.ctx, r.session, true))
		require.NoError(t, r.Idle(r.ctx, r.session, true))
		require.NoError(t, r.Idle(r.ctx, r.session, false))
		require.NoError(t, r.Idle(r.ctx, 999_999, true), "of a session that never was")
	})
	require.Equal(t, 1, r.stats().AgentsPresent)
	require.Len(t, r.present().Held, 1)
}
