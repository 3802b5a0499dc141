package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/leasehold/leasehold/examples/internal/stage"
)

const followFor = 4 * time.Second // events are added for so long after those of the beginning are processed

// scenario is one play.
type scenario struct {
	*stage.Stage
	python  string // the interpreter
	address string // of the processor
	rows    int    // of the table at first

	app     *database
	store   *sql.DB // for reading
	adds    *adding
	program *stage.Process // the processor
	agents  []*stage.Process
	alone   float64 // events a second that one agent processes
	wrong   int     // checks that failed
}

// all plays all of it.
func (p *scenario) all(ctx context.Context, file string) (err error) {
	db, err := openFile(file)
	if err != nil {
		return err
	}
	p.app = &database{DB: db}
	defer func() { err = errors.Join(err, db.Close()) }()
	if p.store, err = openFile(filepath.Join(p.Dir, "leasehold.db")); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.store.Close()) }()
	defer func() {
		if p.adds != nil {
			err = errors.Join(err, p.adds.stop())
		}
	}()
	for _, act := range []func(context.Context) error{p.table, p.processor, p.one, p.three, p.kill, p.more, p.follow, p.verify, p.list} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	if p.wrong > 0 {
		return fmt.Errorf("%d of the checks above failed", p.wrong)
	}
	p.Say("All was as it should be, in %s. What an agent needs for it: examples/chunks/leasehold.hcl", p.Took())
	return nil
}

// table makes the application's table.
func (p *scenario) table(ctx context.Context) error {
	p.Say("The application has a table of %s events. Their ids have gaps, and none is processed yet.", thousands(int64(p.rows)))
	if err := p.app.fill(ctx, p.rows); err != nil {
		return err
	}
	p.adds = p.app.startAdding(ctx)
	p.Line("From now on it adds %s events a second.", thousands(int64(addRows*time.Second/addEvery)))
	return nil
}

// processor starts the program that processes chunks.
func (p *scenario) processor(ctx context.Context) error {
	p.Say("A processor in Python: it gets ranges of ids, works 0.3 ms on each event, and marks the range.")
	p.Line("$ python3 events.py")
	var err error
	if p.program, err = p.Start(ctx, "processor", p.python, "events.py"); err != nil {
		return err
	}
	return p.program.Listens(ctx, p.address)
}

// start starts one agent more.
func (p *scenario) start(ctx context.Context) error {
	name := fmt.Sprintf("agent-%d", len(p.agents)+1)
	// A file of its own has its name, and the listen address: any free port.
	own := fmt.Sprintf("agent {\n  name     = %q\n  listen   = \"127.0.0.1:0\"\n  presence = \"3s\"\n}\n", name)
	if err := os.WriteFile(filepath.Join(p.Dir, name+".hcl"), []byte(own), 0o600); err != nil {
		return err
	}
	agent, err := p.StartAgent(ctx, name, "leasehold.hcl", name+".hcl")
	if err == nil && agent.Ended() {
		err = fmt.Errorf("%s has ended", name)
	}
	p.agents = append(p.agents, agent)
	return err
}

// running is how many agents run.
func (p *scenario) running() (n int) {
	for _, a := range p.agents {
		if !a.Ended() {
			n++
		}
	}
	return n
}

// share returns a condition: that share of the events that were there at first is processed.
func (p *scenario) share(of float64) func(moment) bool {
	return func(m moment) bool { return float64(m.done) >= of*float64(p.rows) }
}

// one is one agent alone.
func (p *scenario) one(ctx context.Context) (err error) {
	p.Say("One agent. It plans the chunks, and processes four at once. They grow until each takes half a second:")
	if err := p.start(ctx); err != nil {
		return err
	}
	if _, err := p.watch(ctx, p.share(0.03)); err != nil { // chunks are small at first
		return err
	}
	p.alone, err = p.watch(ctx, p.share(0.15))
	p.Line("%s events a second.", thousands(int64(p.alone)))
	return err
}

// three adds two agents.
func (p *scenario) three(ctx context.Context) error {
	p.Say("Two agents more, which share nothing with the first but the store:")
	for range 2 {
		if err := p.start(ctx); err != nil {
			return err
		}
	}
	rate, err := p.watch(ctx, p.share(0.5))
	p.compare(rate)
	return err
}

// kill kills one agent. The others wait for its session to expire, and then process its chunks.
func (p *scenario) kill(ctx context.Context) error {
	err := stage.Until(ctx, "agent-2 processed chunks", func() bool {
		n, err := number(ctx, p.store, `SELECT count(*) FROM task JOIN agent USING (session) WHERE agent.name = 'agent-2' AND task.state = 'running'`)
		return err == nil && n > 0
	})
	if err != nil {
		return err
	}
	if err := p.agents[1].Kill(ctx); err != nil {
		return err
	}
	p.Say("kill -9 of agent-2, as it processes chunks. Its session expires after 3 s, and the others take them over:")
	rate, err := p.watch(ctx, p.share(0.7))
	p.compare(rate)
	return err
}

// more adds agents again.
func (p *scenario) more(ctx context.Context) error {
	p.Say("Two agents more:")
	for range 2 {
		if err := p.start(ctx); err != nil {
			return err
		}
	}
	rate, err := p.watch(ctx, p.share(1))
	p.compare(rate)
	return err
}

// compare prints a rate beside that of one agent.
func (p *scenario) compare(rate float64) {
	p.Line("%s events a second: %.1f times as many as one agent.", thousands(int64(rate)), rate/max(p.alone, 1))
}

// follow has the plan catch up with what was added.
func (p *scenario) follow(ctx context.Context) error {
	p.Say("What was there at first is processed. The plan follows the events that are still added:")
	begin := time.Now()
	if _, err := p.watch(ctx, func(m moment) bool { return m.at.Sub(begin) > followFor }); err != nil {
		return err
	}
	adds := p.adds
	p.adds = nil
	if err := adds.stop(); err != nil {
		return err
	}
	if err := p.app.addLate(ctx); err != nil {
		return err
	}
	p.Line("No more are added behind the others. %d come late, with ids in a gap that was passed:", lateRows)
	_, err := p.watch(ctx, func(m moment) bool { return m.done >= m.total })
	return err
}
