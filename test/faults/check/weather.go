package check

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/leasehold/leasehold/test/faults/history"
)

// forever is the end of what has none.
const forever = time.Duration(math.MaxInt64)

// span is a stretch of time, both ends included.
type span struct{ from, to time.Duration }

// overlap is how long both last.
func (s span) overlap(o span) time.Duration {
	return max(min(s.to, o.to)-max(s.from, o.from), 0)
}

// meets reports whether they have a moment in common.
func (s span) meets(o span) bool { return s.from <= o.to && o.from <= s.to }

// agent is the life of one start of an agent.
type agent struct {
	up     time.Duration // forever: it was never seen
	killed time.Duration // forever: it was not. Known a little late: when its guardian has ended, too
	frozen []span
}

func (x *index) readAgents() {
	for i := range x.h.Events {
		e := &x.h.Events[i]
		if e.Who == "" {
			continue
		}
		switch e.What {
		case history.Up, history.Killed, history.Frozen, history.Thawed:
		default:
			continue
		}
		a := x.agents[e.Who]
		if a == nil {
			a = &agent{up: forever, killed: forever}
			x.agents[e.Who] = a
		}
		a.read(e)
	}
}

// read takes in one event of its life.
func (a *agent) read(e *history.Event) {
	n := len(a.frozen)
	still := n > 0 && a.frozen[n-1].to == forever
	switch e.What {
	case history.Up:
		a.up = min(a.up, e.At)
	case history.Killed:
		a.killed = min(a.killed, e.At)
		if still {
			a.frozen[n-1].to = e.At
		}
	case history.Frozen:
		if !still {
			a.frozen = append(a.frozen, span{e.At, forever})
		}
	case history.Thawed:
		if still {
			a.frozen[n-1].to = e.At
		}
	default:
	}
}

// agent finds an agent's life; one of which nothing is known was never up and never ended.
func (x *index) agent(who string) *agent {
	if a := x.agents[who]; a != nil {
		return a
	}
	return &agent{up: forever, killed: forever}
}

// stood is how much of the time it stood still.
func (a *agent) stood(in span) (sum time.Duration) {
	for _, f := range a.frozen {
		sum += f.overlap(in)
	}
	return sum
}

// shaken reports whether the agent stood still at some moment of the time, or not long before.
func (a *agent) shaken(in span) bool {
	return slices.ContainsFunc(a.frozen, func(f span) bool {
		if f.to < forever {
			f.to += wakeUp
		}
		return f.meets(in)
	})
}

// area is what the nemesis breaks something of: the first word of a fault's note.
type area string

const (
	ofAgents    area = "agent"
	ofNetwork   area = "network"
	ofServer    area = "server"
	ofClocks    area = "clock"
	ofEndpoints area = "endpoint"
	ofWorkers   area = "worker"
	ofDisks     area = "agent disk"
	ofMachine   area = "processor" // of all processes on it; not broken by the nemesis
	ofAll       area = ""          // something else: it concerns everything
)

// fault is something broken.
type fault struct {
	span
	area area
	note string
}

// weather is all that was broken, in the order in which it broke.
type weather []fault

func readWeather(events []history.Event) weather {
	var w weather
	for i := range events {
		e := &events[i]
		switch e.What {
		case history.Fault:
			w = append(w, fault{span{e.At, forever}, areaOf(e.Note), e.Note})
		case history.Heal:
			w.heal(e)
		default:
		}
	}
	return w
}

func areaOf(note string) area {
	word, _, _ := strings.Cut(note, " ")
	switch a := area(word); {
	case strings.HasPrefix(note, string(ofDisks)):
		return ofDisks
	case a == ofAgents || a == ofNetwork || a == ofServer || a == ofClocks || a == ofEndpoints || a == ofWorkers || a == ofMachine:
		return a
	}
	return ofAll
}

// heal ends the oldest fault with that note. A repair without a matching note ends nothing: faults excuse violations, and
// a fault too many hides less than one too few invents.
func (w weather) heal(e *history.Event) {
	for i := range w {
		if f := &w[i]; f.to == forever && f.note == e.Note {
			f.to = e.At
			return
		}
	}
}

// any reports whether at some moment of the time something in one of the areas was broken, or something that concerns all.
func (w weather) any(in span, areas ...area) bool {
	return slices.ContainsFunc(w, func(f fault) bool {
		return f.meets(in) && (f.area == ofAll || slices.Contains(areas, f.area))
	})
}

// calm is the time since which nothing in these areas was broken, as of the moment at; at itself where something is.
func (w weather) calm(at time.Duration, areas ...area) time.Duration {
	since := time.Duration(0)
	for _, f := range w {
		if f.from <= at && (f.area == ofAll || slices.Contains(areas, f.area)) {
			since = max(since, min(f.to, at))
		}
	}
	return since
}
