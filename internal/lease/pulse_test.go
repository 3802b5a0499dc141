package lease_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/internal/telemetry"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// TestAStillProcessDoesNotBlameTheStore has the local clock go on while nothing of the agent runs, as after SIGSTOP and SIGCONT.
func TestAStillProcessDoesNotBlameTheStore(t *testing.T) {
	for name, c := range map[string]struct {
		cut    bool // the store is out of reach
		still  time.Duration
		reason string
		logs   []string
	}{
		"it stood still": {
			still: 20 * time.Second, reason: "the agent stood still for 19.5s",
			logs: []string{`msg="the process stood still: it was stopped, frozen or suspended, or got no CPU time" for=19.5`},
		},
		"the store was out of reach": {
			cut: true, reason: "the store was out of reach", logs: []string{"store calls fail", "the store has been out of reach for too long"},
		},
		"it stood still for a moment in an outage": {
			cut: true, still: 3 * time.Second, reason: "the store was out of reach",
			logs: []string{"the process stood still: ", "for=3s", "store calls fail", "the store has been out of reach for too long"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ahead atomic.Int64
				run := lease.RunClock()
				clock := lease.ClockFunc(func() time.Duration { return run.Now() + time.Duration(ahead.Load()) })
				p := &post{clock: clock, store: model.New(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })}
				var logs bytes.Buffer
				metrics := telemetry.NewMetrics(prometheus.NewRegistry())
				log := slog.New(slog.NewTextHandler(&logs, nil))
				p.Keeper = lease.NewKeeper(lease.KeeperOptions{
					Store: p, Clock: clock, Log: log, Metrics: metrics,
					Agent: store.Agent{
						Workers: 1, Name: "post", Presence: presence,
						Policies: map[task.PolicyHash]store.NamedPolicy{policy.Hash("a"): {Type: "a", Policy: policy}},
					},
				})
				require.NoError(t, p.Keeper.Join(t.Context()))
				ctx, cancel := context.WithCancel(t.Context())
				over := make(chan struct{})
				go func() {
					defer close(over)
					p.Run(ctx)
				}()
				held := p.hold(t, 1, 1)[0]
				pass(10*time.Second + time.Millisecond) // a heartbeat has just been written, and so has a beat
				p.cut.Store(c.cut)
				ahead.Store(int64(c.still))
				if c.cut {
					pass(presence)
					require.Equal(t, c.reason, held.Cause().Reason)
				} else {
					metrics.Outage.Failed(log, "claim", errors.New("context deadline exceeded"))
				}
				late := p.hold(t, 2, 1)[0]
				require.Equal(t, task.Drained, late.Cause().Verdict)
				require.Equal(t, c.reason, late.Cause().Reason)
				if !c.cut {
					pass(3 * time.Second)
					require.NotContains(t, logs.String(), "store calls fail")
					metrics.Outage.Failed(log, "claim", errors.New("context deadline exceeded"))
					require.Contains(t, logs.String(), "store calls fail", "the pause is no excuse for long")
				}
				for _, text := range c.logs {
					require.Contains(t, logs.String(), text)
				}
				p.cut.Store(false)
				cancel()
				<-over
				require.NoError(t, p.Keeper.Leave(context.Background()))
			})
		})
	}
}
