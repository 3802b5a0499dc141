package telemetry

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Between lines while it lasts: the first pause is short, because a person may be waiting for the agent's start. Each is twice the one before.
	outageFirst   = 10 * time.Second
	outageSummary = 30 * time.Second // the longest
	// outageQuiet is how long after its last failure a kind of call no longer keeps the outage going: it may not be made
	// again soon. Longer than the longest pause between tries of the calls that are made all the time (6 s).
	outageQuiet = 8 * time.Second
)

// Outage is the one place that knows whether calls to the store fail, across all loops of an agent: it logs one line when
// they begin to fail, summaries while they do, after 10 s and then up to 30 s apart, and one line when they succeed again, with how long it took.
// Each failure is logged on its own at debug level only. The zero value is ready to use; nil does nothing.
type Outage struct {
	failing atomic.Bool // Worked costs no more than this while all is well

	mu     sync.Mutex
	excuse func() bool          // nil: there is none
	since  time.Time            // of the first failure
	worked time.Time            // of the first success since the last failure; zero: none
	logged time.Time            // when the last line was logged
	pause  time.Duration        // until the next summary
	last   map[string]time.Time // the last failure of each kind of call that has not succeeded since
	counts map[string]int       // failures of each kind
	total  int
}

// Excuse sets what reports whether a call that fails now may have failed because the process itself stood still. Such a failure begins no
// outage.
func (o *Outage) Excuse(excuse func() bool) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.excuse = excuse
}

// Failed notes that a call of the kind op failed. A call that was interrupted by its caller has not failed. args are for the
// debug line.
func (o *Outage) Failed(log *slog.Logger, op string, err error, args ...any) {
	if o == nil {
		return
	}
	log.Debug("store call failed", append([]any{"op", op, "err", err}, args...)...)
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if !o.failing.Load() && o.excuse != nil && o.excuse() {
		return
	}
	begins := !o.failing.Swap(true)
	if begins {
		o.since, o.logged, o.total, o.pause = now, now, 0, outageFirst
		o.last, o.counts = make(map[string]time.Time), make(map[string]int)
	}
	o.worked = time.Time{}
	o.last[op] = now
	o.counts[op]++
	o.total++
	switch {
	case begins:
		log.Warn("store calls fail; the agent keeps trying", "op", op, "err", err)
	case now.Sub(o.logged) >= o.pause:
		o.logged, o.pause = now, min(2*o.pause, outageSummary)
		log.Warn("store calls still fail; the agent keeps trying", "for", now.Sub(o.since), "failed", o.total, "ops", o.list(), "op", op, "err", err)
	}
}

// Worked notes that a call of the kind op succeeded.
func (o *Outage) Worked(log *slog.Logger, op string) {
	if o == nil || !o.failing.Load() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.failing.Load() {
		return
	}
	now := time.Now()
	if o.worked.IsZero() {
		o.worked = now
	}
	delete(o.last, op)
	maps.DeleteFunc(o.last, func(_ string, at time.Time) bool { return now.Sub(at) > outageQuiet })
	if len(o.last) > 0 {
		return
	}
	o.failing.Store(false)
	log.Warn("store calls succeed again", "after", o.worked.Sub(o.since), "failed", o.total, "ops", o.list())
}

// list is which kinds of calls failed how often: "claim 3, present 2".
func (o *Outage) list() string {
	parts := make([]string, 0, len(o.counts))
	for _, op := range slices.Sorted(maps.Keys(o.counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", op, o.counts[op]))
	}
	return strings.Join(parts, ", ")
}
