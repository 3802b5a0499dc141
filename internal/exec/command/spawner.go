package command

import (
	"log/slog"
	"os"
	"sync"
	"time"
)

// spawner makes processes, and keeps what they have in common: the guardian process and the cgroups, the directories of
// results and of notify sockets, and the goroutines to be waited for.
type spawner struct {
	log     *slog.Logger
	dirs    dirs
	shared  shared
	closing chan struct{}

	// guard is replaced once, where there was no guardian process: before anything is started, so only what does not start anything
	// needs the lock.
	guard    *guard
	guarding sync.Mutex
	until    time.Duration // of the last presence

	sockets  sockets
	longPath sync.Once // it has been said that there are no notify sockets
}

// open comes first. guardian is the argument list that starts the guardian process; empty: there is none. now is the
// clock of all windows. From now on a process inherits nothing that the agent was started with, standard streams aside.
func (s *spawner) open(log *slog.Logger, guardian []string, cgroups bool, now func() time.Duration) {
	keepDescriptors()
	s.log, s.closing = log, make(chan struct{})
	s.shared.terminal = hasTerminal()
	s.dirs.parent, s.sockets.parent = newParent(os.TempDir()), socketParent()
	s.dirs.stays = func(path string, err error) {
		log.Warn("cannot remove a private directory", "directory", path, "err", err)
	}
	s.guard = newGuard(log, guardian, []string{s.dirs.parent, s.sockets.parent}, cgroups, now)
}

// close waits for what the ends of processes have left to be done, removes what is kept on disk between them, and ends
// the guardian process. A process that SIGKILL did not end is not waited for long: the guardian process goes on with it.
func (s *spawner) close() {
	close(s.closing)
	over := make(chan struct{})
	go func() {
		s.shared.stuck.Wait()
		s.shared.running.Wait()
		s.guard.seeker.looks.Wait()
		close(over)
	}()
	late := time.NewTimer(killFor)
	defer late.Stop()
	select {
	case <-over:
	case <-late.C:
		s.log.Error("a process did not end; the agent exits without it")
	}
	if err := s.dirs.close(); err != nil {
		s.log.Warn("cannot remove private directories of tasks", "err", err)
	}
	if err := s.sockets.close(); err != nil {
		s.log.Warn("cannot remove directories of notify sockets", "err", err)
	}
	s.guarding.Lock()
	defer s.guarding.Unlock()
	s.guard.close()
}

// protect starts a guardian process where there is none. Nothing has been started yet.
func (s *spawner) protect(guardian []string) {
	s.guarding.Lock()
	defer s.guarding.Unlock()
	if s.guard.guardian != nil || len(guardian) == 0 {
		return
	}
	now := s.guard.now
	s.guard.close()
	s.guard = newGuard(s.log, guardian, []string{s.dirs.parent, s.sockets.parent}, true, now)
	if s.until > 0 {
		s.guard.presence(s.until)
	}
}

// presence says until when, in local time, any process may live.
func (s *spawner) presence(until time.Duration) {
	s.guarding.Lock()
	defer s.guarding.Unlock()
	s.until = until
	s.guard.presence(until)
}
