package worker

import (
	"log/slog"
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/exec/command"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"
)

// Pools are the pools of an agent, one for each target and phase. It is safe for use by many at once.
type Pools struct {
	runner *command.Runner
	log    *slog.Logger

	mu     sync.Mutex
	all    map[target]*Pool
	closed bool
}

// target is what a pool is of: a configuration that is loaded anew has other commands.
type target struct {
	command *task.Command
	phase   task.Phase
}

// NewPools makes pools that start nothing yet. Close comes before the runner's.
func NewPools(r *command.Runner, log *slog.Logger) *Pools {
	return &Pools{runner: r, log: log, all: make(map[target]*Pool)}
}

// of finds or makes a pool.
func (s *Pools) of(t *task.Type, c *task.Command, phase task.Phase) *Pool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.all[target{c, phase}]
	if p == nil {
		p = NewPool(s.runner, s.log, t, c)
		s.all[target{c, phase}] = p
		if s.closed {
			p.Close()
		}
	}
	return p
}

// Run runs one attempt, as Pool.Run.
func (s *Pools) Run(l *lease.Lease, t *task.Type, c *task.Command, reached func()) task.Outcome {
	return s.of(t, c, l.Phase()).Run(l, t, reached)
}

// Room returns how many attempts may begin, as Pool.Room.
func (s *Pools) Room(t *task.Type, c *task.Command, phase task.Phase) (n int, wait time.Duration) {
	return s.of(t, c, phase).Room()
}

// Keep ends the pools of all targets but those of these types, and does not wait for it: a configuration that was loaded anew
// has its own.
func (s *Pools) Keep(types []*task.Type) {
	keep := make(map[*task.Command]bool)
	for _, t := range types {
		for _, x := range t.Targets() {
			if c, ok := x.(*task.Command); ok {
				keep[c] = true
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for of, p := range s.all {
		if !keep[of.command] {
			p.end()
		}
	}
}

// Close ends all processes and waits until they are gone. No attempt may run.
func (s *Pools) Close() {
	s.mu.Lock()
	s.closed = true
	pools := make([]*Pool, 0, len(s.all))
	for _, p := range s.all {
		pools = append(pools, p)
		p.end()
	}
	s.mu.Unlock()
	for _, p := range pools {
		p.Close()
	}
}
