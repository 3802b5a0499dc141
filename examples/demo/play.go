package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

//go:embed files
var files embed.FS

// demo is one play of it.
type demo struct {
	dir    string
	binary string   // of the agent
	listen string   // where the shop listens
	env    []string // for agent and shop
	began  time.Time
	colour bool

	agents      int // that were started
	agent, shop *process
	wanted      []wanted // what should come of each task
}

// wanted is what should come of a task.
type wanted struct {
	id      int64
	state   string
	attempt int      // attempts that count
	ends    []string // how its attempts ended; "undelivered" is left out where it may come any number of times
}

// newDemo writes the demo's files.
func newDemo(ctx context.Context, dir, binary string) (*demo, error) {
	root, err := fs.Sub(files, "files")
	if err != nil {
		return nil, err
	}
	if err := os.CopyFS(dir, root); err != nil {
		return nil, err
	}
	free, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	if err := free.Close(); err != nil { // the shop takes it over, several times
		return nil, err
	}
	secret := make([]byte, 24)
	_, _ = rand.Read(secret) // never fails
	d := &demo{dir: dir, binary: binary, listen: free.Addr().String(), began: time.Now(), colour: hasColour()}
	d.env = []string{
		"SHOP_URL=http://" + d.listen, "WEBHOOK_SECRET=whsec_" + base64.StdEncoding.EncodeToString(secret),
		"LEASEHOLD_CONFIG=", "LEASEHOLD_STORE=", // of whoever runs the demo: not meant for it
	}
	return d, nil
}

// play plays all of it, and prints the table at the end.
func (d *demo) play(ctx context.Context) error {
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
	d.say("And this is what happened (leasehold task list):")
	return d.report(os.Stdout, tasks)
}

// close stops what still runs, the agent last.
func (d *demo) close() error {
	var errs []error
	for _, p := range []*process{d.shop, d.agent} {
		if p != nil {
			errs = append(errs, p.stop(20*time.Second))
		}
	}
	return errors.Join(errs...)
}

func (d *demo) startAgent(ctx context.Context) (err error) {
	d.agents++
	name := "agent"
	if d.agents == 1 {
		d.say("The agent starts, on its embedded store: leasehold run")
	} else {
		name = fmt.Sprintf("agent-%d", d.agents)
		d.line("Another agent starts: leasehold run")
	}
	if d.agent, err = start(ctx, d.dir, name, d.env, d.binary, "run"); err != nil {
		return err
	}
	return until(ctx, "the agent was ready", func() bool {
		return d.ended(d.agent) || strings.Contains(d.agent.tail(), "agent ready")
	})
}

func (d *demo) startShop(ctx context.Context) error {
	d.say("A small application starts beside it: a shop, on http://%s", d.listen)
	return d.openShop(ctx)
}

// openShop starts the shop and waits until it listens.
func (d *demo) openShop(ctx context.Context) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if d.shop, err = start(ctx, d.dir, "shop", d.env, self, "-shop", d.listen); err != nil {
		return err
	}
	return until(ctx, "the shop listened", func() bool {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", d.listen)
		if err == nil {
			err = conn.Close()
		}
		return err == nil || d.ended(d.shop)
	})
}

// ended tells whether a process is over that should not be. What waits for it then goes on and fails.
func (d *demo) ended(p *process) bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// takeOrders has the shop enqueue by plain SQL, in the transaction of each order.
func (d *demo) takeOrders(ctx context.Context) error {
	d.say("Orders. The shop writes each, and two tasks with it, in one transaction, by plain INSERTs:")
	for _, item := range []string{"lamp", "chair", "chair"} {
		status, tasks, err := d.order(ctx, item)
		switch {
		case err != nil:
			return err
		case status == http.StatusConflict:
			d.line("POST /orders  %-7s 409  sold out: the order is rolled back, and its tasks with it", item)
			continue
		case status != http.StatusCreated || len(tasks) != 2:
			return fmt.Errorf("the shop answered an order with status %d and %d tasks", status, len(tasks))
		}
		d.line("POST /orders  %-7s 201  tasks %d and %d", item, tasks[0], tasks[1])
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
	d.say("More of them, from the command line. One is awaited:")
	d.line("$ leasehold enqueue label.print --payload '{\"name\": \"Ada\"}' --wait")
	out, err := d.leasehold(ctx, "enqueue", "label.print", "--payload", `{"name": "Ada"}`, "--wait")
	if err != nil {
		return err
	}
	for line := range strings.Lines(out) {
		d.line("  %s", strings.TrimSpace(line))
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
	out, err := d.leasehold(ctx, "enqueue", typ, "-o", "json")
	if err != nil {
		return 0, err
	}
	var made struct {
		ID int64 `json:"id"`
	}
	if err := json.Unmarshal([]byte(out), &made); err != nil {
		return 0, fmt.Errorf("read what enqueue printed: %w", err)
	}
	d.line("$ leasehold enqueue %-13s task %-3d %s", typ, made.ID, what)
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
	_, err := d.leasehold(ctx, args...)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 4 { // one failed, as it should
		err = nil
	}
	return err
}

// showKilled shows that of the task that hung no process is left.
func (d *demo) showKilled(context.Context) error {
	pids, err := readPids(filepath.Join(d.dir, "encode.pids"))
	if err != nil {
		return err
	}
	left := slices.DeleteFunc(slices.Clone(pids), func(pid int) bool { return !alive(pid) })
	d.say("video.encode ran into its timeout. Its processes were %s; of these run now: %d.", join(pids), len(left))
	if len(pids) != 4 || len(left) > 0 {
		return fmt.Errorf("the task that hung had %d processes instead of 4, and %d are left", len(pids), len(left))
	}
	return nil
}

// whileTheShopIsDown sends a task to nobody.
func (d *demo) whileTheShopIsDown(ctx context.Context) error {
	d.say("The shop goes down, as if it were deployed anew:")
	if err := d.shop.stop(5 * time.Second); err != nil {
		return err
	}
	id, err := d.enqueue(ctx, "parcel.book", "nobody is there to take it")
	if err != nil {
		return err
	}
	d.want(id, "succeeded", 1, "succeeded") // undelivered attempts do not count
	err = until(ctx, "the task was given back", func() bool {
		t, err := d.task(ctx, id)
		return err == nil && slices.ContainsFunc(t.History, func(a attempt) bool { return a.Outcome == "undelivered" })
	})
	if err != nil {
		return err
	}
	d.line("task %d could not be delivered: it waits, and lost no attempt. The shop comes back.", id)
	return d.openShop(ctx)
}

// leasehold runs a command of the agent's binary and returns what it prints.
func (d *demo) leasehold(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, d.binary, args...)
	cmd.Dir, cmd.Env = d.dir, append(os.Environ(), d.env...)
	var out, problem bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problem
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("leasehold %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(problem.String()))
	}
	return out.String(), nil
}
