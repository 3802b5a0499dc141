package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/leasehold/leasehold/examples/internal/stage"
)

// demo is one play of it.
type demo struct {
	*stage.Stage
	listen string // where the shop listens

	agents      int // that were started
	agent, shop *stage.Process
	wanted      []wanted // what should come of each task
}

// wanted is what should come of a task.
type wanted struct {
	id      int64
	state   string
	attempt int      // attempts that count
	ends    []string // how its attempts ended; "undelivered" is left out where it may come any number of times
}

// run plays all of it, and prints the table at the end.
func (d *demo) run(ctx context.Context) error {
	for _, act := range []func(context.Context) error{
		d.startAgent, d.startShop, d.takeOrders, d.enqueueByCommand, d.awaitAll, d.showKilled, d.whileTheShopIsDown, d.awaitAll,
		d.hang, d.cutOff,
	} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	tasks, err := d.tasks(ctx)
	if err != nil {
		return err
	}
	d.Say("And this is what happened (leasehold task list):")
	return d.report(os.Stdout, tasks)
}

func (d *demo) startAgent(ctx context.Context) (err error) {
	d.agents++
	name := "agent"
	if d.agents == 1 {
		d.Say("The agent starts, on its embedded store: leasehold run")
	} else {
		name = fmt.Sprintf("agent-%d", d.agents)
		d.Line("Another agent starts: leasehold run")
	}
	d.agent, err = d.StartAgent(ctx, name)
	return err
}

func (d *demo) startShop(ctx context.Context) error {
	d.Say("A small application starts beside it: a shop, on http://%s", d.listen)
	return d.openShop(ctx)
}

// openShop starts the shop and waits until it listens.
func (d *demo) openShop(ctx context.Context) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if d.shop, err = d.Start(ctx, "shop", self, "-shop", d.listen); err != nil {
		return err
	}
	return d.shop.Listens(ctx, d.listen)
}

// takeOrders has the shop enqueue by plain SQL, in the transaction of each order.
func (d *demo) takeOrders(ctx context.Context) error {
	d.Say("Orders. The shop writes each, and two tasks with it, in one transaction, by plain INSERTs:")
	for _, item := range []string{"lamp", "chair", "chair"} {
		status, tasks, err := d.order(ctx, item)
		switch {
		case err != nil:
			return err
		case status == http.StatusConflict:
			d.Line("POST /orders  %-7s 409  sold out: the order is rolled back, and its tasks with it", item)
			continue
		case status != http.StatusCreated || len(tasks) != 2:
			return fmt.Errorf("the shop answered an order with status %d and %d tasks", status, len(tasks))
		}
		d.Line("POST /orders  %-7s 201  tasks %d and %d", item, tasks[0], tasks[1])
		d.want(tasks[0], "succeeded", 1, "succeeded")
		d.want(tasks[1], "succeeded", 2, "failed", "succeeded") // the shop answers 500 at first
	}
	if len(d.wanted) != 4 {
		return fmt.Errorf("%d tasks are there, and should be 4: two orders go through, and one is rolled back", len(d.wanted))
	}
	return nil
}

// order places one order.
func (d *demo) order(ctx context.Context, item string) (status int, tasks []int64, err error) {
	form := strings.NewReader(url.Values{"item": {item}}.Encode())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+d.listen+"/orders", form)
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	var content struct {
		Tasks []int64 `json:"tasks"`
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, nil, err
	}
	return response.StatusCode, content.Tasks, errors.Join(json.Unmarshal(body, &content), err)
}

// enqueueByCommand enqueues more from the command line.
func (d *demo) enqueueByCommand(ctx context.Context) error {
	d.Say("More of them, from the command line. One is awaited:")
	d.Line("$ leasehold enqueue label.print --payload '{\"name\": \"Ada\"}' --wait")
	out, err := d.Leasehold(ctx, "enqueue", "label.print", "--payload", `{"name": "Ada"}`, "--wait")
	if err != nil {
		return err
	}
	for line := range strings.Lines(out) {
		d.Line("  %s", strings.TrimSpace(line))
	}
	var id int64
	if _, err := fmt.Sscanf(out, "task %d enqueued", &id); err != nil {
		return fmt.Errorf("read what enqueue printed: %w", err)
	}
	d.want(id, "succeeded", 1, "succeeded")
	if id, err = d.enqueue(ctx, "card.charge", "the shop will answer 422: no use in trying again"); err != nil {
		return err
	}
	d.want(id, "failed", 1, "rejected")
	if id, err = d.enqueue(ctx, "video.encode", "will hang, with children that ignore SIGTERM"); err != nil {
		return err
	}
	d.want(id, "failed", 1, "timed_out")
	return nil
}

// enqueue enqueues one task; what will become of it is for those who watch.
func (d *demo) enqueue(ctx context.Context, typ, what string) (id int64, err error) {
	out, err := d.Leasehold(ctx, "enqueue", typ, "-o", "json")
	if err != nil {
		return 0, err
	}
	var made struct {
		ID int64 `json:"id"`
	}
	if err := json.Unmarshal([]byte(out), &made); err != nil {
		return 0, fmt.Errorf("read what enqueue printed: %w", err)
	}
	d.Line("$ leasehold enqueue %-13s task %-3d %s", typ, made.ID, what)
	return made.ID, nil
}

// want notes what should come of a task: its state, how many attempts count, and how its attempts ended.
func (d *demo) want(id int64, state string, attempt int, ends ...string) {
	d.wanted = append(d.wanted, wanted{id, state, attempt, ends})
}

// awaitAll waits until every task so far has finished.
func (d *demo) awaitAll(ctx context.Context) error {
	args := []string{"task", "wait", "-o", "json"}
	for _, w := range d.wanted {
		args = append(args, fmt.Sprint(w.id))
	}
	_, err := d.Leasehold(ctx, args...)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 4 { // one failed, as it should
		err = nil
	}
	return err
}

// showKilled shows that of the task that hung no process is left.
func (d *demo) showKilled(context.Context) error {
	pids, err := readPids(filepath.Join(d.Dir, "encode.pids"))
	if err != nil {
		return err
	}
	left := slices.DeleteFunc(slices.Clone(pids), func(pid int) bool { return !alive(pid) })
	d.Say("video.encode ran into its timeout. Its processes were %s; of these run now: %d.", join(pids), len(left))
	if len(pids) != 4 || len(left) > 0 {
		return fmt.Errorf("the task that hung had %d processes instead of 4, and %d are left", len(pids), len(left))
	}
	return nil
}

// whileTheShopIsDown enqueues a task whose target is down.
func (d *demo) whileTheShopIsDown(ctx context.Context) error {
	d.Say("The shop goes down, as if it were deployed anew:")
	if err := d.shop.Stop(5 * time.Second); err != nil {
		return err
	}
	id, err := d.enqueue(ctx, "parcel.book", "its target is down")
	if err != nil {
		return err
	}
	d.want(id, "succeeded", 1, "succeeded") // undelivered attempts do not count
	err = stage.Until(ctx, "the task was released", func() bool {
		t, err := d.task(ctx, id)
		return err == nil && slices.ContainsFunc(t.History, func(a attempt) bool { return a.Outcome == "undelivered" })
	})
	if err != nil {
		return err
	}
	d.Line("task %d could not be delivered: it waits, and lost no attempt. The shop comes back.", id)
	return d.openShop(ctx)
}
