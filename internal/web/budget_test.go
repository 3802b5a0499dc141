package web

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestFiltersHaveABudget has a hundred browsers follow a filter each, and a hundred more the overview, whatever a page takes: filters get their part of
// the store's time and no more, and the overview is read as if there were none.
func TestFiltersHaveABudget(t *testing.T) {
	const browsers, long = 100, 5 * time.Minute
	for _, takes := range []time.Duration{0, 100 * time.Millisecond, 8 * time.Second} {
		t.Run(takes.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShared()
				var filters, overviews, refused atomic.Int64
				var atOnce, most atomic.Int64
				filter := func() (*view, []byte, error) {
					filters.Add(1)
					most.Store(max(most.Load(), atOnce.Add(1)))
					time.Sleep(takes)
					atOnce.Add(-1)
					return &view{}, nil, nil
				}
				overview := func() (*view, []byte, error) {
					overviews.Add(1)
					time.Sleep(100 * time.Millisecond)
					return &view{}, nil, nil
				}
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), long)
				defer cancel()
				var all sync.WaitGroup
				follow := func(look func()) {
					all.Go(func() {
						for ctx.Err() == nil {
							look()
							time.Sleep(2 * time.Second)
						}
					})
				}
				for i := range browsers {
					follow(func() {
						began := time.Now()
						_, _, err := s.read(context.Background(), fmt.Sprintf("/tasks?type=%d", i), true, filter)
						require.LessOrEqual(t, time.Since(began), waitFor+takes, "who waits is told so in time")
						if err != nil {
							spent, ok := errors.AsType[*spentError](err)
							require.True(t, ok, err)
							require.Positive(t, spent.seconds())
							refused.Add(1)
						}
					})
					follow(func() {
						began := time.Now()
						_, _, err := s.read(context.Background(), "/", false, overview)
						require.NoError(t, err)
						require.LessOrEqual(t, time.Since(began), 100*time.Millisecond, "the overview waits for no filter")
					})
				}
				all.Wait()
				each := max(takes, ownLeast)
				took := time.Since(start)
				budget := int64((ownSaved+took/ownShare)/each) + ownAtOnce + 1
				require.LessOrEqual(t, filters.Load(), budget, "pages with a filter")
				if takes > 0 { // where pages take no time, those alone are refused that find too many waiting
					require.Positive(t, refused.Load())
				}
				require.Greater(t, filters.Load(), budget*9/10-10, "and they get what there is")
				require.LessOrEqual(t, most.Load(), int64(ownAtOnce))
				require.LessOrEqual(t, overviews.Load(), int64(took/freshFor)+1, "a hundred overviews are one")
				require.LessOrEqual(t, len(s.kept), mostKept+ownWaiting+1)
			})
		})
	}
}

// TestBudgetIsToldInTime says when to try again, and saves no more than it may.
func TestBudgetIsToldInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget()
		time.Sleep(time.Hour)
		leave, err := b.enter(t.Context())
		require.NoError(t, err)
		leave(ownSaved + time.Second) // a second more than there was
		wait, cancel := context.WithTimeout(t.Context(), waitFor)
		defer cancel()
		began := time.Now()
		_, err = b.enter(wait)
		spent, ok := errors.AsType[*spentError](err)
		require.True(t, ok)
		require.Equal(t, ownShare, spent.seconds())
		require.Equal(t, "4", retryAfter(err))
		require.Zero(t, time.Since(began), "nobody waits in vain")
		time.Sleep(2 * time.Second)
		wait, stop := context.WithTimeout(t.Context(), waitFor)
		defer stop()
		began = time.Now()
		leave, err = b.enter(wait)
		require.NoError(t, err)
		require.Equal(t, 2*time.Second, time.Since(began))
		leave(0)
		require.Equal(t, "1", retryAfter(errBusy))
	})
}

// TestPanickingPageIsReadAgain: what panics leaves no page that others wait for.
func TestPanickingPageIsReadAgain(t *testing.T) {
	s := newShared()
	require.Panics(t, func() {
		_, _, _ = s.read(t.Context(), "/", false, func() (*view, []byte, error) { panic("a mistake") })
	})
	_, main, err := s.read(t.Context(), "/", false, func() (*view, []byte, error) { return &view{}, []byte("well"), nil })
	require.NoError(t, err)
	require.Equal(t, "well", string(main))
}

// TestWhoGoesAwayKeepsNoOtherFromAPage: the one that reads a page for all who ask for it may go away while it waits for a place.
func TestWhoGoesAwayKeepsNoOtherFromAPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared()
		require.NoError(t, s.places.Acquire(t.Context(), mostAtOnce)) // by other pages
		page := func() (*view, []byte, error) { return &view{}, []byte("well"), nil }
		goes, leave := context.WithCancel(t.Context())
		var readers sync.WaitGroup
		readers.Go(func() { _, _, _ = s.read(goes, "/", false, page) })
		synctest.Wait()
		var main []byte
		var err error
		readers.Go(func() { _, main, err = s.read(t.Context(), "/", false, page) })
		synctest.Wait()
		leave()
		synctest.Wait()
		s.places.Release(mostAtOnce)
		readers.Wait()
		require.NoError(t, err)
		require.Equal(t, "well", string(main))

		require.NoError(t, s.places.Acquire(t.Context(), mostAtOnce))
		goes, leave = context.WithCancel(t.Context())
		began := time.Now()
		readers.Go(func() { _, _, err = s.read(goes, "/tasks?x", true, page) })
		synctest.Wait()
		leave()
		readers.Wait()
		require.Zero(t, time.Since(began), "no one waits for it any more")
		require.Error(t, err)
		s.places.Release(mostAtOnce)
	})
}
