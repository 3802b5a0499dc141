package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/leasehold/leasehold/examples/internal/stage"
)

// scenario is one play of the move.
type scenario struct {
	*stage.Stage
	address string // of the application
	db      *database
	app     *stage.Process

	before state // of the application, when the first batch was made
	lost   int   // answers, before this batch
	wrong  int   // checks that failed
}

const (
	from, to = "az1", "az2"
	services = 200
	large    = "svc-160" // has no room there
	workers  = 8         // in leasehold.hcl
)

// byHand returns the services that an operator moves before the batch does, and where to.
func byHand() map[string]place {
	return map[string]place{"svc-042": {to, "10.2.7.1"}, "svc-137": {to, "10.2.7.2"}}
}

// all plays all of it.
func (p *scenario) all(ctx context.Context) (err error) {
	if p.db, err = openDatabase("sqlite:" + filepath.Join(p.Dir, "leasehold.db")); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.db.Close()) }()
	for _, act := range []func(context.Context) error{p.start, p.plan, p.first, p.second, p.list} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	if p.wrong > 0 {
		return fmt.Errorf("%d of the checks above failed", p.wrong)
	}
	p.Say("All was as it should be, in %s. What an agent needs for it: examples/move/leasehold.hcl", p.Took())
	return nil
}

// start starts an agent, and the application beside it.
func (p *scenario) start(ctx context.Context) error {
	p.Say("An agent starts, on its embedded store, and an application beside it that knows where %d services stand.", services)
	// A file of its own has the listen address: any free port.
	if err := os.WriteFile(filepath.Join(p.Dir, "agent.hcl"), []byte("agent { listen = \"127.0.0.1:0\" }\n"), 0o600); err != nil {
		return err
	}
	if _, err := p.StartAgent(ctx, "agent", "leasehold.hcl", "agent.hcl"); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	// Of every 25 answers to tasks one is lost, after its effect was committed.
	if p.app, err = p.Start(ctx, "application", self, "-serve", "-work", "80ms", "-lose", "25"); err != nil {
		return err
	}
	return p.app.Listens(ctx, p.address)
}

// plan makes the plan; and two services are moved by hand before it is carried out.
func (p *scenario) plan(ctx context.Context) error {
	p.Say("All of them are to leave zone %s. The plan says where each stands now:", from)
	var made struct{ Services int }
	if err := p.post(ctx, "/plans", url.Values{"to": {to}}, &made); err != nil {
		return err
	}
	p.asked("/plans", "to="+to, fmt.Sprintf("%d services", made.Services))
	if made.Services != services {
		return fmt.Errorf("the plan has %d services, and should have %d", made.Services, services)
	}
	for _, service := range slices.Sorted(maps.Keys(byHand())) {
		there := byHand()[service]
		err := p.post(ctx, "/services/"+service, url.Values{"to": {there.Zone}, "address": {there.Address}}, nil)
		if err != nil {
			return err
		}
		p.asked("/services/"+service, "to="+to, "moved by hand, meanwhile")
	}
	return nil
}

// first is the move that fails, and is taken back.
func (p *scenario) first(ctx context.Context) (err error) {
	if p.before, err = p.state(ctx); err != nil {
		return err
	}
	p.Say("Now the move: one batch with a task for each, made by two INSERTs in the transaction of the application's own:")
	batch, err := p.startMove(ctx)
	if err != nil {
		return err
	}
	if err := p.watch(ctx, batch); err != nil {
		return err
	}
	if err := p.whatFailed(ctx, batch); err != nil {
		return err
	}
	p.Say("What became of the tasks of batch %d:", batch)
	j, err := p.journal(ctx, batch)
	if err != nil {
		return err
	}
	moved := j.services("run")
	var started int
	err = p.db.QueryRowContext(ctx, `SELECT count(*) FROM tasks WHERE batch_id = $1 AND ever_started`, batch).Scan(&started)
	if err != nil {
		return err
	}
	err = p.counts(ctx, batch, "rolled_back", []expected{
		{"rolled_back", started, "moved, and moved back; and " + large + ", which failed"},
		{"cancelled", services - started - len(byHand()), "never started"},
		{"succeeded", len(byHand()), "were there before: the check said so, and nothing ran"},
	})
	if err != nil {
		return err
	}
	after, err := p.state(ctx)
	if err != nil {
		return err
	}
	p.check(len(moved) >= services/2 && len(moved) < started, "%d services had been moved before the batch turned around", len(moved))
	p.check(maps.Equal(p.before, after), "services and zones are as before, each row and column: %s", p.before.differ(after))
	if err := p.onceEach(ctx, j, true); err != nil {
		return err
	}
	p.newestFirst(j)
	p.leftAlone(j, after)
	return p.notified(ctx, batch, "rolled_back")
}

// second is the same move when there is room.
func (p *scenario) second(ctx context.Context) error {
	p.Say("Zone %s gets another rack, and the plan is carried out once more:", to)
	if err := p.post(ctx, "/zones/"+to, url.Values{"room": {"320"}}, nil); err != nil {
		return err
	}
	p.asked("/zones/"+to, "room=320", "")
	batch, err := p.startMove(ctx)
	if err != nil {
		return err
	}
	if err := p.watch(ctx, batch); err != nil {
		return err
	}
	p.Say("What became of the tasks of batch %d:", batch)
	err = p.counts(ctx, batch, "succeeded", []expected{
		{"succeeded", services, fmt.Sprintf("%d were moved; of %d the check said that they are there", services-len(byHand()), len(byHand()))},
	})
	if err != nil {
		return err
	}
	j, err := p.journal(ctx, batch)
	if err != nil {
		return err
	}
	after, err := p.state(ctx)
	if err != nil {
		return err
	}
	p.check(after.in(to) == services, "%d services stand in zone %s", after.in(to), to)
	if err := p.onceEach(ctx, j, false); err != nil {
		return err
	}
	p.leftAlone(j, after)
	return p.notified(ctx, batch, "succeeded")
}

// list shows what an operator sees of both.
func (p *scenario) list(ctx context.Context) error {
	p.Say("And what an operator sees of it:")
	p.Line("$ leasehold batch list")
	out, err := p.Leasehold(ctx, "batch", "list")
	for line := range strings.Lines(out) {
		p.Line("%s", strings.TrimRight(line, " \n"))
	}
	return err
}

// startMove has the application make a batch of the plan.
func (p *scenario) startMove(ctx context.Context) (batch int64, err error) {
	var made struct{ Batch, Services int64 }
	if err := p.post(ctx, "/moves", url.Values{"to": {to}}, &made); err != nil {
		return 0, err
	}
	p.asked("/moves", "to="+to, fmt.Sprintf("batch %d with %d tasks", made.Batch, made.Services))
	if made.Services != services {
		return 0, fmt.Errorf("the batch has %d tasks, and should have %d", made.Services, services)
	}
	return made.Batch, nil
}

// asked prints what the application was asked for, and what it answered.
func (p *scenario) asked(path, form, answer string) {
	p.Line("POST %-20s %-9s %s", path, form, answer)
}

// post asks the application to do something.
func (p *scenario) post(ctx context.Context, path string, form url.Values, into any) error {
	return p.ask(ctx, http.MethodPost, path, form, into)
}

// ask asks the application for something.
func (p *scenario) ask(ctx context.Context, method, path string, form url.Values, into any) error {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+p.address+path, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	client := http.Client{Timeout: 20 * time.Second}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("the application answered %s %s with %s: %s", method, path, response.Status, body)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(body, into)
}
