package poll_test

import (
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// said returns what a log has about catching up, from its message on.
func said(log *lines) (all []string) {
	for line := range strings.Lines(log.String()) {
		if m := regexp.MustCompile(`msg="?(ca.*)`).FindStringSubmatch(line); m != nil {
			all = append(all, m[1])
		}
	}
	return all
}

// logs has an agent log there.
func logs(log *lines) func(*rig) {
	return func(r *rig) { r.opts.Log = slog.New(slog.NewTextHandler(log, nil)) }
}

// overdue has a row due an hour ago.
func overdue(r *store.EnqueueRequest) { r.RunAt = time.Now().Add(-time.Hour) }

// An agent that comes back to many rows that are overdue says so, how far it is, and that it is over.
func TestCatchingUpIsSaid(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		var log lines
		quiet := &rig{t: t, store: db}
		quiet.insert(1200, overdue)
		r := newRig(t, db, logs(&log), alone, doing(takes(time.Second)))
		left := func() float64 { return testutil.ToFloat64(r.opts.Metrics.CatchUpRows) }
		after(5 * time.Second)
		require.Equal(t, []string{`catching up: rows are overdue" due=1196 late=1h0m0s`}, said(&log))
		require.InDelta(t, 1196, left(), 0)
		after(66 * time.Second)
		require.Len(t, said(&log), 2)
		require.Regexp(t, `^catching up" due=9\d\d for=1m0s started=2\d\d left=[34]m\d+s$`, said(&log)[1])
		require.InDelta(t, 900, left(), 70)
		after(5 * time.Minute)
		require.Len(t, said(&log), 4)
		require.Regexp(t, `^caught up" took=5m\ds started=1\d\d\d$`, said(&log)[3])
		require.Zero(t, left())
		r.drain()
	})
}

// Nothing is said of a few rows, of what is only a little late, nor where rows are always late because they are many.
func TestNothingIsSaidWithoutAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		var log lines
		r := newRig(t, db, logs(&log), alone, doing(takes(time.Second)))
		r.insert(50, overdue)
		after(time.Minute)
		r.insert(1200) // which takes five minutes
		after(6 * time.Minute)
		require.Empty(t, said(&log))
		r.insert(1200, overdue)
		after(time.Second)
		require.Len(t, said(&log), 1, "nothing had started for a while")
		r.drain()
	})
}

// Where the store does not say how many are left, the agent goes on, and says that it is over when it is.
func TestCatchingUpThroughAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		var log lines
		r := newRig(t, db, logs(&log), alone, doing(takes(time.Second)))
		r.insert(400, overdue)
		after(5 * time.Second)
		r.wire.setHook(func(op string) fault {
			if op == "stats" {
				return lostCall
			}
			return none
		})
		after(3 * time.Minute)
		require.Len(t, said(&log), 1)
		r.wire.setHook(nil)
		after(10 * time.Second)
		require.Len(t, said(&log), 2)
		require.Contains(t, said(&log)[1], "caught up")
		r.drain()
	})
}
