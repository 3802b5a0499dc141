package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	"github.com/leasehold/leasehold/internal/poll"
)

// supervised is what is reported to the service manager.
type supervised interface {
	Joined() bool   // the session is open
	Draining() bool // it is about to end
	Fit() bool      // the session is present in the store
	Held() int      // tasks
	Pulse() bool    // the loop turns, or waits for the store; for one caller, who asks again and again
}

var _ supervised = (*poll.Engine)(nil)

const (
	mostNotes = 16 // that wait to be sent
	// A service manager with a watchdog gets four messages an interval, so that three messages may be late.
	beatsPerInterval = 4
	statusEvery      = 5 * time.Second // and without one this often, where there is something to report
	// While an agent starts or ends, each message asks for so much time again: it waits for its store as long as it takes,
	// and drains as long as its configuration says, whatever the unit does.
	extendBy = 6 * statusEvery
)

// manager reports the agent's state to the service manager (sd_notify(3)): READY once the session is open, WATCHDOG while the
// loop turns, STOPPING when draining begins, and what it does in STATUS.
type manager struct {
	of    supervised
	log   *slog.Logger
	send  func(state string) error
	beat  time.Duration // between two messages
	watch bool          // it has a watchdog

	notes chan string // of other goroutines, to be sent

	ready, stopping bool   // has been said
	status          string // that was said last
	mute            bool   // what was to be sent last could not be
}

// newManager makes a manager for the process; nil where no service manager listens.
func newManager(of supervised, log *slog.Logger) *manager {
	if os.Getenv("NOTIFY_SOCKET") == "" {
		return nil
	}
	m := &manager{of: of, log: log, beat: statusEvery, notes: make(chan string, mostNotes), send: func(state string) error {
		_, err := daemon.SdNotify(false, state) // tasks get an environment of their own, without that socket
		return err
	}}
	interval, err := daemon.SdWatchdogEnabled(false)
	switch {
	case err != nil:
		log.Warn("cannot serve the service manager's watchdog", "err", err)
	case interval > 0:
		m.watch, m.beat = true, min(interval/beatsPerInterval, statusEvery)
	}
	return m
}

// run reports to the service manager until ctx ends, and then that the agent ends. joined is closed once the session is
// open, draining once it drains.
func (m *manager) run(ctx context.Context, joined, draining <-chan struct{}) error {
	ticker := time.NewTicker(m.beat)
	defer ticker.Stop()
	for {
		m.sendState()
		select {
		case <-ctx.Done():
			m.say(m.stops())
			return nil
		case <-joined:
			joined = nil
		case <-draining:
			draining = nil
		case note := <-m.notes:
			if m.ready && !m.stopping { // else it is not what is to be said
				m.say(note)
			}
		case <-ticker.C:
		}
	}
}

// reloads says that the agent loads its configuration anew, or that it has come to an end with that. It never blocks.
func (m *manager) reloads(begins bool) {
	if m == nil {
		return
	}
	note := daemon.SdNotifyReady + "\n"
	if begins {
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
			m.log.Warn("cannot read the clock", "err", err)
			return
		}
		note = fmt.Sprintf("%s\nMONOTONIC_USEC=%d\n", daemon.SdNotifyReloading, now.Nano()/int64(time.Microsecond))
	}
	select {
	case m.notes <- note:
	default: // it gets the next one
	}
}

// sendState sends the present state.
func (m *manager) sendState() {
	alive := m.of.Pulse()
	var state string
	switch {
	case m.of.Draining():
		state = m.stops() + extension()
	case !m.of.Joined():
		state = extension()
	case !m.ready:
		m.ready = true
		state = daemon.SdNotifyReady + "\n"
	}
	if m.watch && alive {
		state += daemon.SdNotifyWatchdog + "\n"
	}
	if status := m.words(); status != m.status {
		m.status = status
		state += "STATUS=" + status + "\n"
	}
	m.say(state)
}

// stops says that the agent ends, the first time.
func (m *manager) stops() string {
	if m.stopping {
		return ""
	}
	m.stopping = true
	return daemon.SdNotifyStopping + "\n"
}

func extension() string { return fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d\n", extendBy.Microseconds()) }

// words say what the agent does. Every user of the machine can read them, so no address is among them.
func (m *manager) words() string {
	switch held := m.of.Held(); {
	case m.of.Draining():
		return fmt.Sprintf("draining, %s left", count(held, "task"))
	case !m.of.Joined():
		return "waiting for the store"
	case !m.of.Fit():
		return "the store is out of reach"
	default:
		return fmt.Sprintf("running, %s in hand", count(held, "task"))
	}
}

// say sends one message. That it cannot be sent is logged once, until one can be.
func (m *manager) say(state string) {
	if state == "" {
		return
	}
	err := m.send(state)
	if err != nil && !m.mute {
		m.log.Warn("cannot notify the service manager", "state", state, "err", err)
	}
	m.mute = err != nil
}
