package poll

import (
	"maps"
	"sync/atomic"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// pauser knows the types that operators have paused. The loop claims no rows of these, and releases those that it has queued. If the
// store cannot be asked, what was known last goes on to hold.
type pauser struct {
	e      *Engine
	paused atomic.Pointer[map[string]store.TypePause]
}

func newPauser(e *Engine) *pauser {
	p := &pauser{e: e}
	p.paused.Store(&map[string]store.TypePause{})
	return p
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

// learn takes over which types are paused. Only one goroutine may call it at a time.
func (p *pauser) learn(list []store.TypePause) {
	paused := make(map[string]store.TypePause, len(list))
	for _, t := range list {
		paused[t.Type] = t
	}
	before := *p.paused.Load()
	if !maps.Equal(before, paused) {
		p.paused.Store(&paused)
		p.tell(before, paused)
	}
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
