package worker

import (
	"log/slog"
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/exec/command"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"
)

// Pools are the pools of an agent, one for each target of workers and phase of its types. It is safe for use by many at once.
type Pools struct {
	runner *command.Runner
	log    *slog.Logger
	o      Options

	mu     sync.Mutex
	all    map[target]*Pool
	named  map[place]*Pool // those of the configuration that was declared last
	closed bool
}

// target is what a pool is of: a configuration that is loaded anew has other commands.
type target struct {
	command *task.Command
	phase   task.Phase
}

// place is what a pool is for.
type place struct {
	typ   string
	phase task.Phase
}

// Options are what pools have in common.
type Options struct {
	// Patient: an attempt waits for a process, however long that takes to be ready, and a start that comes to nothing ends it.
	// The attempt is the only one.
	Patient bool
	// Stray is called for each last line that is not of the attempt that runs, with the type's name. It must not block; nil: no
	// call.
	Stray func(typ string)
}

// NewPools makes pools that start nothing yet. Close comes before the runner's.
func NewPools(r *command.Runner, log *slog.Logger, o Options) *Pools {
	return &Pools{runner: r, log: log, o: o, all: make(map[target]*Pool)}
}

// Declare makes the pools of a configuration's types, and ends those of any other: processes that run an attempt end after
// it. It does not wait.
func (s *Pools) Declare(types []*task.Type) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.named = make(map[place]*Pool)
	keep := make(map[target]*Pool)
	for _, t := range types {
		for _, phase := range []task.Phase{task.Check, task.Run, task.Rollback} {
			c, ok := t.TargetOf(phase).(*task.Command)
			if !ok || c.Worker == nil {
				continue
			}
			p := s.of(t, c, phase)
			keep[target{c, phase}], s.named[place{t.Name, phase}] = p, p
		}
	}
	for of, p := range s.all {
		if keep[of] != nil {
			continue
		}
		if p.end(); p.isEmpty() { // else a later call forgets it, or Close waits for it
			delete(s.all, of)
		}
	}
}

// of finds or makes a pool. s.mu is held.
func (s *Pools) of(t *task.Type, c *task.Command, phase task.Phase) *Pool {
	p := s.all[target{c, phase}]
	if p == nil {
		p = NewPool(s.runner, s.log, t, c)
		p.Options = s.o
		s.all[target{c, phase}] = p
		if s.closed {
			p.end()
		}
	}
	return p
}

// Run runs one attempt, as Pool.Run.
func (s *Pools) Run(l *lease.Lease, t *task.Type, c *task.Command, reached func()) task.Outcome {
	s.mu.Lock()
	_, known := s.all[target{c, l.Phase()}]
	p := s.of(t, c, l.Phase())
	if !known && s.named != nil { // of a configuration that is not there any more
		p.end()
	}
	s.mu.Unlock()
	return p.Run(l, t, reached)
}

// Room returns how many attempts may begin, as Pool.Room; ok is false where the type has no workers in that phase.
func (s *Pools) Room(typ string, phase task.Phase) (n int, wait time.Duration, ok bool) {
	s.mu.Lock()
	p := s.named[place{typ, phase}]
	s.mu.Unlock()
	if p == nil {
		return 0, 0, false
	}
	n, wait = p.Room()
	return n, wait, true
}

// End ends all processes, those that run an attempt after it. It does not wait.
func (s *Pools) End() { s.end() }

func (s *Pools) end() (pools []*Pool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, p := range s.all {
		pools = append(pools, p)
		p.end()
	}
	return pools
}

// Close is End, and waits until they are gone. No attempt may run.
func (s *Pools) Close() {
	for _, p := range s.end() {
		p.Close()
	}
}
