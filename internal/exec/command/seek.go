package command

import (
	"log/slog"
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/exec/command/processes"
)

// seeker finds and kills what has left the groups of attempts that were stopped, by its mark. To look at every process
// takes milliseconds, and many attempts may stop at once, so one look serves all that wait when it begins.
type seeker struct {
	run  processes.Run
	kill func(r processes.Run, wanted func(uint64) bool) (map[uint64]int, error) // nil: processes.Kill

	mu      sync.Mutex
	waiting map[uint64][]chan<- int // by attempt: get how many were found
	looking bool
	looks   sync.WaitGroup
	blind   sync.Once
}

// clear kills what carries the attempt's mark until nothing does, for at most d. A look that takes longer than that, as
// one at a process that is stuck may, is not waited for, and the attempt taken to be gone: its group is.
func (s *seeker) clear(number uint64, d time.Duration, log *slog.Logger) (gone bool) {
	if !processes.Marks {
		return true
	}
	over := time.NewTimer(d)
	defer over.Stop()
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		select {
		case found := <-s.look(number):
			if found == 0 {
				return true
			}
		case <-over.C:
			s.blind.Do(func() { log.Error("searching for processes that left their group takes long", "than", d) })
			return true
		}
		wait := time.NewTimer(pause)
		select {
		case <-wait.C:
		case <-over.C:
			wait.Stop()
			return false
		}
	}
}

// look has all processes looked at, from now on. What it returns gets how many of the attempt's there were.
func (s *seeker) look(number uint64) <-chan int {
	answer := make(chan int, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == nil {
		s.waiting = make(map[uint64][]chan<- int)
	}
	s.waiting[number] = append(s.waiting[number], answer)
	if !s.looking {
		s.looking = true
		s.looks.Go(s.serve)
	}
	return answer
}

// serve looks until no caller waits.
func (s *seeker) serve() {
	for {
		s.mu.Lock()
		callers := s.waiting
		s.waiting = nil
		s.looking = len(callers) > 0
		s.mu.Unlock()
		if len(callers) == 0 {
			return
		}
		kill := s.kill
		if kill == nil {
			kill = processes.Kill
		}
		// An error says that /proc cannot be read: then nothing can be found, now or later.
		found, _ := kill(s.run, func(n uint64) bool { return callers[n] != nil })
		for number, answers := range callers {
			for _, a := range answers {
				a <- found[number]
			}
		}
	}
}
