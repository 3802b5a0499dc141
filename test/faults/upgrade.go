//go:build linux

package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/faults/history"
	"github.com/leasehold/leasehold/test/harness"
)

// Agents of an upgrade: those of the present version come first, and those of the next version join them.
const (
	presentAgents = 3
	nextAgents    = 2
)

// Bounds of an upgrade's steps, on a busy machine.
const (
	stepWithin    = time.Minute
	unreadyWithin = 10 * time.Second // from the end of a range to the 503: an agent asks its store once a second
	enough        = 2                // attempts of an agent that has work
)

// upgrade replaces the agents of one version by those of the next.
type upgrade struct {
	*world

	t      testing.TB
	prober *prober
	tail   history.Tail
	before int // the schema's version
	began  time.Time
	away   map[*agent]string // agents that were ended and have no successor yet, with the note of that fault
	r      *rand.Rand
	crowds int
	noted  []string // declarations of what is in force
}

// Upgrade runs agents of the present version under load, migrates the store with the next version's binary, and replaces them
// one by one, binary and configuration. It fails the test if one of them is not ready at any moment, or ends although nothing asked it to. At the end the
// schema admits the next version only. What happened is for the checker.
func Upgrade(t testing.TB, programs Programs, o Options) *history.History {
	t.Helper()
	o.Agents, o.later = presentAgents+nextAgents, nextAgents
	w := newWorld(t, programs, nil, o)
	u := &upgrade{world: w, t: t, prober: newProber(w), tail: history.Tail{Path: w.logPath}, began: time.Now(), away: map[*agent]string{},
		r: rand.New(rand.NewPCG(o.Seed, 9))}
	probing, stop := context.WithCancel(t.Context())
	var probes sync.WaitGroup
	defer probes.Wait()
	defer stop()
	for _, a := range w.agents {
		probes.Go(func() { u.prober.run(probing, a) })
	}
	w.underLoad(t, func() {
		u.steps()
		u.endOfRange()
	})
	stop()
	probes.Wait()
	t.Logf("agents said that they were ready %d times", u.prober.asked.Load())
	return w.end(t)
}

// steps is the upgrade.
func (u *upgrade) steps() {
	present, next := u.agents[:presentAgents], u.agents[presentAgents:]
	u.work(present...)
	u.before = u.version()
	if !u.o.SQLite { // a SQLite store is migrated by every agent that starts
		u.refused(next[0], u.programs.Next, "run `leasehold migrate up`")
	}
	u.migrate()
	u.work(present...)
	u.comesIntoForce(atFirst())
	u.crowd()

	for _, a := range next {
		a.become(u.programs.Next, true)
		u.start(a)
	}
	u.comesIntoForce(afterwards())
	u.names.Store(eitherName)
	u.crowd()
	u.work(u.agents...)

	for _, a := range []*agent{present[1], next[0]} { // others take over what it held
		u.kill(a)
		a.become(u.programs.Next, true)
		u.start(a)
	}
	u.drain(present[0]) // a version that knows less starts on the schema, and leaves it alone, and what others declare
	present[0].become(u.programs.Agent, false, "--migrate")
	u.start(present[0])
	require.Equal(u.t, u.before+1, u.version())
	u.stays(afterwards())
	u.crowd()
	u.work(u.agents...)
	u.stays(afterwards())

	for _, a := range []*agent{present[0], present[2]} {
		u.drain(a)
		a.become(u.programs.Next, true)
		u.start(a)
	}
	u.names.Store(newName)
	u.drain(next[1]) // and back
	next[1].become(u.programs.Agent, true)
	u.start(next[1])
	u.work(u.agents...)
	u.stays(afterwards())
}

// endOfRange has the schema admit the next version only, which a later step may declare.
func (u *upgrade) endOfRange() {
	last := u.agents[len(u.agents)-1]
	who, addr := last.unwatch()
	harness.Until(u.t, stepWithin, "the range is changed", func() bool { // other writers of a SQLite file may come first
		_, err := u.app.Exec(u.t.Context(), `UPDATE leasehold.schema_version SET oldest = version`)
		return err == nil
	})
	since := history.Now()
	const remedy = "use a newer leasehold"
	harness.Until(u.t, unreadyWithin, who+" is not ready", func() bool {
		status, text := u.prober.ask(u.t.Context(), addr)
		return status == 503 && strings.Contains(text, remedy)
	})
	u.done("%s is not ready, after %s", who, (history.Now() - since).Round(time.Millisecond))
	u.refused(last, u.programs.Agent, remedy)
	u.refused(last, u.programs.Agent, remedy, "--migrate")
	u.settles(who)
	u.drain(last)
	last.become(u.programs.Next, true)
	u.start(last)
}

// become says what the next process of the agent is to be, and whether its configuration is that of the next version.
func (a *agent) become(program string, revised bool, flags ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.program, a.revised, a.flags = program, revised, flags
}

// unwatch ends the watch over the present process, and returns what it is and where it listens.
func (a *agent) unwatch() (who, addr string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.leaving = a.round
	return a.who(), a.addr
}

// start starts an agent and waits until it is ready.
func (u *upgrade) start(a *agent) {
	require.NoError(u.t, a.start())
	harness.Until(u.t, stepWithin, a.name+" is ready", func() bool { return a.isReady() || u.broken() != nil })
	require.NoError(u.t, u.broken())
	if note := u.away[a]; note != "" {
		u.log.Add(history.Event{What: history.Heal, Note: note})
		delete(u.away, a)
	}
	u.done("%s starts %s %v", a.name, filepath.Base(a.program), a.flags)
}

// done logs a step with its time.
func (u *upgrade) done(format string, args ...any) {
	u.t.Logf("%7s  "+format, append([]any{time.Since(u.began).Round(time.Millisecond)}, args...)...)
}

// drain ends an agent as a deployment does.
func (u *upgrade) drain(a *agent) {
	u.leaves(a, "agent drained "+a.name)
	require.True(u.t, a.signal(syscall.SIGTERM).await(harness.StopWithin), "%s does not drain", a.name)
	require.NoError(u.t, a.exit, a.name)
	u.done("%s is drained", a.name)
}

func (u *upgrade) kill(a *agent) {
	u.leaves(a, "agent killed "+a.name)
	require.True(u.t, a.signal(syscall.SIGKILL).await(harness.StopWithin), "%s does not die", a.name)
	u.done("%s is killed", a.name)
}

// leaves notes that an agent is about to end, as the nemesis does.
func (u *upgrade) leaves(a *agent, note string) {
	u.away[a] = note
	u.log.Add(history.Event{What: history.Fault, Note: note})
}

// work waits until each of the agents has begun some attempts from now on.
func (u *upgrade) work(agents ...*agent) {
	begun := map[string]int{}
	u.events()
	harness.Until(u.t, stepWithin, "all agents have work", func() bool {
		for _, e := range u.events() {
			if e.What == history.Start {
				name, _, _ := strings.Cut(e.Who, ".")
				begun[name]++
			}
		}
		for _, a := range agents {
			if begun[a.name] < enough {
				return u.broken() != nil
			}
		}
		return true
	})
	require.NoError(u.t, u.broken())
	u.done("%d agents have work", len(agents))
}

// broken returns why the run has failed already, so that nothing has to be waited for.
func (u *upgrade) broken() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return errors.Join(u.errs...)
}

// events returns what has happened since the last call.
func (u *upgrade) events() []history.Event {
	some, err := u.tail.Next()
	require.NoError(u.t, err)
	return some
}

// settles waits until an attempt of the agent that ends well from now on has ended its task.
func (u *upgrade) settles(who string) {
	var ended []history.Event
	u.events()
	harness.Until(u.t, stepWithin, who+" settles what it holds", func() (yes bool) {
		for _, e := range u.events() {
			if e.Who == who && e.What == history.End && e.Note == "succeeded" && e.Phase == "" {
				ended = append(ended, e)
			}
		}
		for _, e := range ended {
			const sql = `SELECT count(*) > 0 FROM leasehold.task_archive WHERE id = $1 AND fence = $2 AND state = 'succeeded'`
			require.NoError(u.t, u.app.QueryRow(u.t.Context(), sql, e.ID, e.Fence+1).Scan(&yes))
			if yes {
				return true
			}
		}
		return u.broken() != nil
	})
	require.NoError(u.t, u.broken())
	u.done("%s has settled what it held", who)
}

// version returns that of the schema.
func (u *upgrade) version() (version int) {
	require.NoError(u.t, u.app.QueryRow(u.t.Context(), `SELECT max(version) FROM leasehold.schema_version`).Scan(&version))
	return version
}

// migrate migrates the store, by two processes at the same time, and once more. A migration that waited too long for a table
// has changed nothing, and is repeated.
func (u *upgrade) migrate() {
	began := time.Now()
	u.log.Add(history.Event{What: history.Fault, Note: "server migrated"}) // the hot table is locked for a moment
	var all sync.WaitGroup
	var errs [2]error
	for i := range errs {
		all.Go(func() { errs[i] = u.migrateOnce(began.Add(stepWithin)) })
	}
	all.Wait()
	u.log.Add(history.Event{What: history.Heal, Note: "server migrated"})
	require.NoError(u.t, errors.Join(errs[0], errs[1], u.migrateOnce(began.Add(stepWithin))))
	require.Equal(u.t, u.before+1, u.version())
	u.done("the store is migrated, in %s", time.Since(began).Round(time.Millisecond))
}

func (u *upgrade) migrateOnce(deadline time.Time) error {
	for {
		text, exit, err := u.command(u.programs.Next, "migrate", "up", "--store", u.direct)
		if err != nil || exit == 0 {
			return err
		}
		if !strings.Contains(text, "waited too long") || time.Now().After(deadline) {
			return fmt.Errorf("migrate up: exit %d: %s", exit, text)
		}
	}
}

// refused checks that a binary does not start in an agent's place, and says what to do.
func (u *upgrade) refused(a *agent, program, remedy string, flags ...string) {
	file := filepath.Join(u.dir, a.name+".refused.hcl")
	require.NoError(u.t, os.WriteFile(file, []byte(a.declaration(a.name)), 0o600))
	text, exit, err := u.command(program, append(append([]string{"run", "--store", u.direct}, flags...), file)...)
	require.NoError(u.t, err)
	require.Equal(u.t, 1, exit, text)
	require.Contains(u.t, text, remedy)
}

// command runs a program and returns what it printed and its exit code.
func (u *upgrade) command(program string, args ...string) (text string, exit int, err error) {
	ctx, cancel := context.WithTimeout(u.t.Context(), stepWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = u.dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + u.dir}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); cmd.ProcessState == nil || !cmd.ProcessState.Exited() {
		return "", 0, fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out.String())
	}
	return out.String(), cmd.ProcessState.ExitCode(), nil
}
