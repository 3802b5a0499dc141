package chunk

import (
	"context"
	"reflect"
)

// following is a goroutine that plans one plan.
type following struct {
	plan   Plan
	cancel context.CancelFunc
	ended  chan struct{}
}

// stop ends it, and waits for that.
func (f *following) stop() {
	f.cancel()
	<-f.ended
}

// change has those plans followed that are there, and no others.
func (l *Loop) change(ctx context.Context, now map[string]*following, plans []Plan) {
	wanted := make(map[string]*Plan, len(plans))
	for i := range plans {
		wanted[plans[i].Declaration.Spec.Name] = &plans[i]
	}
	for name, f := range now {
		if p := wanted[name]; p == nil || !p.same(&f.plan) {
			f.stop()
			delete(now, name)
			l.mu.Lock()
			delete(l.inForce, name) // until it is declared
			l.mu.Unlock()
		}
	}
	for name, p := range wanted {
		if now[name] != nil {
			continue
		}
		work, cancel := context.WithCancel(ctx)
		f := &following{plan: *p, cancel: cancel, ended: make(chan struct{})}
		now[name] = f
		go func() { // ends with stop
			defer close(f.ended)
			l.follow(work, &f.plan)
		}()
	}
}

// same reports whether two plans are one.
func (p *Plan) same(q *Plan) bool {
	return p.At == q.At && reflect.DeepEqual(p.Declaration, q.Declaration)
}
