package poll

import (
	"context"
	"maps"
	"sync/atomic"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// pauseEvery is how often a session looks which types are paused, where no notification comes: with the time that the look takes it is less
// than the second that operators are promised.
const pauseEvery = 700 * time.Millisecond

// pauser knows the types that operators have paused. The loop claims no rows of these, and releases those that it has queued. If the
// store cannot be asked, what was known last goes on to hold.
type pauser struct {
	e      *Engine
	now    chan struct{} // has an element when a type may have been paused or resumed
	paused atomic.Pointer[map[string]store.TypePause]
}

func newPauser(e *Engine) *pauser {
	p := &pauser{e: e, now: make(chan struct{}, 1)}
	p.paused.Store(&map[string]store.TypePause{})
	return p
}

// call has the pauser look at once. It never blocks.
func (p *pauser) call() {
	select {
	case p.now <- struct{}{}:
	default:
	}
}

// has reports whether a type is paused, by its name or one of its aliases.
func (p *pauser) has(t *task.Type) bool {
	paused := *p.paused.Load()
	if len(paused) == 0 {
		return false
	}
	_, is := paused[t.Name]
	for _, alias := range t.Aliases {
		if _, also := paused[alias]; also {
			is = true
		}
	}
	return is
}

// run looks until ctx ends.
func (p *pauser) run(ctx context.Context) {
	var failed backoff
	for wait := pauseEvery; ; wait = pauseEvery {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-p.now:
			timer.Stop()
		case <-timer.C:
		}
		for p.look(ctx) != nil {
			if !pause(ctx, nil, failed.next()) {
				return
			}
		}
		failed.reset()
	}
}

// look reads which types are paused.
func (p *pauser) look(ctx context.Context) error {
	var list []store.TypePause
	err := p.e.call(ctx, "pauses", func(ctx context.Context) (err error) {
		list, err = p.e.o.Store.Pauses(ctx)
		return err
	})
	if err != nil {
		return err
	}
	paused := make(map[string]store.TypePause, len(list))
	for _, t := range list {
		paused[t.Type] = t
	}
	before := *p.paused.Load()
	if maps.Equal(before, paused) {
		return nil
	}
	p.paused.Store(&paused)
	p.tell(before, paused)
	return nil
}

// tell logs what has changed of the declared types, and has the loop turn.
func (p *pauser) tell(before, paused map[string]store.TypePause) {
	for _, t := range p.e.declarations().Types {
		for _, name := range t.Names() {
			was, had := before[name]
			is, has := paused[name]
			switch {
			case has && (!had || !was.At.Equal(is.At)):
				p.e.log.Info("paused: no task of the type is claimed until it is resumed; what runs goes on", "type", name, "by", is.By, "reason", is.Reason)
			case had && !has:
				p.e.log.Info("resumed: tasks of the type are claimed again", "type", name)
			}
		}
	}
	p.gauge()
	p.e.wake.call()
	p.e.wake.turn()
}

// gauge sets the metric of each declared type.
func (p *pauser) gauge() {
	for _, t := range p.e.declarations().Types {
		v := 0.0
		if p.has(t) {
			v = 1
		}
		p.e.o.Metrics.TypePaused.WithLabelValues(t.Name).Set(v)
	}
}
