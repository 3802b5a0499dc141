//go:build linux

package faults

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leasehold/leasehold/test/faults/history"
)

const (
	machineTick    = 50 * time.Millisecond  // how often a thread looks at the clocks
	processorStill = 500 * time.Millisecond // a processor that runs nothing for so long stands still
	clockJump      = 200 * time.Millisecond // a clock that moves by so much against the monotonic one has been set
)

// watchMachine notes as faults what happens to the machine and is no work of the nemesis, until ctx ends: a virtual machine that is
// moved to another host stands still for seconds, and its clock is set afterwards.
func (w *world) watchMachine(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { w.watchProcessors(ctx) })
	all.Go(func() { w.watchClock(ctx) })
}

// watchClock notes as a fault that the machine's clock was set.
func (w *world) watchClock(ctx context.Context) {
	tick := time.NewTicker(machineTick)
	defer tick.Stop()
	last, set := readClocks()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now, offset := readClocks()
		if by := offset - set; by.Abs() > clockJump {
			note := fmt.Sprintf("clock of the machine set by %s", by.Round(time.Millisecond))
			w.log.AddAt(last, history.Event{What: history.Fault, Note: note})
			w.log.AddAt(now, history.Event{What: history.Heal, Note: note})
			set += by
		}
		last = now
	}
}

// readClocks returns the monotonic time and how far the wall clock is ahead of it, read without an interruption in between.
func readClocks() (now, offset time.Duration) {
	for {
		before := history.Now()
		wall := time.Now().UnixNano()
		if now = history.Now(); now-before < clockJump/4 {
			return now, time.Duration(wall) - now
		}
	}
}

// watchProcessors notes as a fault each processor that stands still, and all processes on it together. Each has a thread of its
// own, of the highest priority that this process may give it, so that a busy processor is not taken for one that stands still.
func (w *world) watchProcessors(ctx context.Context) {
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		w.fail(fmt.Errorf("read which processors there are: %w", err))
		return
	}
	var all sync.WaitGroup
	defer all.Wait()
	for cpu, left := 0, allowed.Count(); left > 0; cpu++ {
		if allowed.IsSet(cpu) {
			left--
			all.Go(func() { w.watchProcessor(ctx, cpu) })
		}
	}
}

func (w *world) watchProcessor(ctx context.Context, cpu int) {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	var only unix.CPUSet
	only.Set(cpu)
	if err := unix.SchedSetaffinity(0, &only); err != nil {
		w.fail(fmt.Errorf("bind a thread to processor %d: %w", cpu, err))
		return
	}
	_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), -20) // only root may
	note := fmt.Sprintf("processor %d stands still", cpu)
	for last := history.Now(); ctx.Err() == nil; {
		tick := unix.NsecToTimespec(int64(machineTick)) // no timer of the runtime, which other threads serve
		_ = unix.Nanosleep(&tick, nil)                  // interrupted: it looks sooner
		now := history.Now()
		if now-last > processorStill {
			w.log.AddAt(last, history.Event{What: history.Fault, Note: note})
			w.log.AddAt(now, history.Event{What: history.Heal, Note: note})
		}
		last = now
	}
}
