package command

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/exec/command/processes"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/store"
)

// What is looked at for people who ask what a task does: it goes into the store with each heartbeat, every two seconds or so.
const (
	silentFor     = 2 * time.Second // attempts that have said nothing for so long
	mostObserved  = 20              // of these, those that have been silent longest
	mostProcesses = 32              // of an attempt
)

// observed is an attempt that runs in a process.
type observed struct {
	lease *lease.Lease
	pid   int
	alone bool // the process was started for this attempt

	looked bool
	since  time.Duration // Silence.Since, when it was looked at last
	from   time.Duration // local time from which CPU time is counted
	base   time.Duration // CPU time used until then
}

// observer knows the attempts that run in processes.
type observer struct {
	mu  sync.Mutex
	all map[*observed]struct{}

	looking sync.Mutex
	known   []store.RunningProcess // guarded by mu: what was seen last
}

// begin says that an attempt runs in a process, until the function that it returns is called. alone: the process was started for it.
func (o *observer) begin(l *lease.Lease, pid int, alone bool) (end func()) {
	a := &observed{lease: l, pid: pid, alone: alone}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all == nil {
		o.all = map[*observed]struct{}{}
	}
	o.all[a] = struct{}{}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.all, a)
	}
}

// Processes returns what the processes of attempts do that have said nothing for a while. A call beside another one returns what was seen
// before.
func (r *Runner) Processes() []store.RunningProcess {
	o := &r.observer
	if o.looking.TryLock() {
		defer o.looking.Unlock()
		seen := o.look()
		o.mu.Lock()
		defer o.mu.Unlock()
		o.known = seen
		return seen
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.known
}

// silent is an attempt that has said nothing for a while.
type silent struct {
	*observed
	lease.Silence
}

// mostSilent returns the attempts that are looked at.
func (o *observer) mostSilent() []silent {
	o.mu.Lock()
	defer o.mu.Unlock()
	var all []silent
	for a := range o.all {
		if s, ok := a.lease.Silence(); ok && s.For >= silentFor {
			all = append(all, silent{a, s})
		}
	}
	slices.SortFunc(all, func(a, b silent) int { return cmp.Compare(b.For, a.For) })
	return all[:min(len(all), mostObserved)]
}

func (o *observer) look() (seen []store.RunningProcess) {
	for _, a := range o.mostSilent() {
		does, ok := processes.Look(a.pid, mostProcesses)
		if !ok {
			continue
		}
		cpu, over := a.used(does.CPU, a.Silence)
		seen = append(seen, store.RunningProcess{
			Task: a.lease.Task().ID, State: does.State, Processes: does.Count, CPU: cpu.Milliseconds(), Over: over.Milliseconds(),
		})
	}
	return seen
}

// used returns how much CPU time an attempt's processes, which have used so much in all, have used since its last ping, and in what time:
// since the start of a process of its own, or since the first look after that ping.
func (a *observed) used(cpu time.Duration, s lease.Silence) (used, over time.Duration) {
	now := s.Since + s.For
	switch {
	case a.looked && a.since == s.Since:
	case a.alone && !s.Pinged:
		a.base, a.from = 0, s.Since
	default:
		a.base, a.from = cpu, now
	}
	a.looked, a.since = true, s.Since
	return max(cpu-a.base, 0), now - a.from
}
