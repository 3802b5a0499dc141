//go:build linux

// Package faults runs real agents against a real PostgreSQL while a nemesis breaks them, the network between them, the
// server, the application and the clocks, and returns the history of that, which package check checks.
package faults

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/faults/history"
	"github.com/leasehold/leasehold/test/faults/script"
	"github.com/leasehold/leasehold/test/harness"
)

// Options say what a run is.
type Options struct {
	Seed     uint64
	Lasts    time.Duration // of the faults; what is left to do is done afterwards
	Agents   int
	Rate     int           // transactions of the producer a second; 0: there are none
	Faults   []Fault       // what may happen; empty: nothing does
	Schedule []Planned     // what happens, in the place of a schedule from the seed
	Env      []string      // of the agents
	Slack    time.Duration // how late things may be that nothing is promised of; 0: as a busy machine needs
	Kinds    []string      // types of rows; empty: all
	Workers  int           // of a type, in each agent; 0: a few
	Script   []script.Deed // of every row; nil: by chance

	Batches   time.Duration // a batch is begun each time it passes; 0: there are none
	Operators int           // how many people ask for this and that
	Items     int           // how many rows at most are inserted at a time into a table that is cut into chunks; 0: there is none
	Holders   int           // processes that take named leases
	Followers int           // how many rows a second are enqueued with a key that is mostly taken
	Orphans   int           // how many times a second rows are inserted of types that no agent declares
	Graph     int           // how many rows wait for one another at random, some of which fail
	Caught    bool          // batches are cancelled, one after another, while many of their rows are claimed ahead

	SQL      string        // changes Leasehold's functions
	SQLite   bool          // the store is a SQLite file
	Open     time.Duration // how long the transaction of a batch stays open at most; 0: openMost
	Presence time.Duration // of the agents; 0: Presence
	later    int           // how many of the agents are not started at first
}

// calmWithin bounds the time until all is done once the faults have ended: a row may have to wait for its leases and its
// backoff many times. planWithin bounds it where rows of the table are left over that only passes over the whole of it find: each
// rests for 19 times as long as the one before took, which is long where faults or a busy machine held its reading up.
// queryTimeout bounds one query.
const (
	calmWithin   = 3 * time.Minute
	planWithin   = 8 * time.Minute
	queryTimeout = 10 * time.Second
)

// world is all that takes part.
type world struct {
	o        Options
	dir      string
	logPath  string
	locks    string
	log      *history.Log
	programs Programs
	cluster  *harness.Cluster // nil: nothing is to break the server or the network, and agents connect without a proxy
	server   *control
	direct   string // URL of the database, without a proxy
	app      base
	endpoint *endpoint
	agents   []*agent
	holders  []*holder
	env      []string

	all  sync.WaitGroup // processes
	load sync.WaitGroup // who gives them work

	names         atomic.Int32 // under which name producers insert rows of the type that an upgrade renames
	mu            sync.Mutex
	errs          []error
	said          []history.Said
	leaseSamples  []history.LeaseSample
	limitSamples  []history.LimitSample
	tenantSamples []history.TenantSample
	rows          []history.Enqueued
	anyEnd        map[int64]bool // rows, by id, that may end in any state
	crashes       []time.Duration
	followed      []history.Followed

	ops             []history.Op
	orphanOps       []history.OrphanOp
	made            []history.MadeBatch
	lastBatchSample map[int64]history.BatchSample // by batch
	batchSamples    []history.BatchSample
}

// fail notes that the run itself does not work.
func (w *world) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.errs = append(w.errs, err)
}

func (w *world) say(s history.Said) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, s)
}

// Run makes a world, lets the nemesis loose on it, waits until all is done and gives what happened. A run that could not
// be made fails the test; a run in which something is left unfinished does not: that is for the checker to say.
func Run(t testing.TB, programs Programs, cluster *harness.Cluster, o Options) *history.History {
	t.Helper()
	w := newWorld(t, programs, cluster, o)
	w.underLoad(t, func() {
		nemesis := newNemesis(w)
		nemesis.run(t, w.plan())
		nemesis.healAll()
	})
	return w.end(t)
}

// underLoad does something while there is work for the agents.
func (w *world) underLoad(t testing.TB, do func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer w.load.Wait()
	defer cancel()
	w.load.Go(func() { w.produce(ctx) })
	w.load.Go(func() { w.produceGroups(ctx) })
	w.load.Go(func() { w.catch(ctx) })
	w.load.Go(func() { w.sampleLeases(ctx) })
	w.load.Go(func() { w.sampleBatches(ctx) })
	w.load.Go(func() { w.watchMachine(ctx) })
	w.load.Go(func() { w.disturb(ctx) })
	w.load.Go(func() { w.insertItems(ctx) })
	w.load.Go(func() { w.produceFollowers(ctx) })
	w.load.Go(func() { w.produceOrphans(ctx) })
	if w.o.Orphans > 0 {
		for who := range orphanOperators {
			w.load.Go(func() { w.operateOrphans(ctx, who) })
		}
	}
	if w.o.Graph > 0 {
		w.load.Go(func() { w.produceGraph(ctx) })
		w.load.Go(func() { w.operateGraph(ctx) })
	}
	for who := range w.o.Operators {
		w.load.Go(func() { w.operate(ctx, who) })
	}
	do()
}

// end waits until all is done and gives what happened.
func (w *world) end(t testing.TB) *history.History {
	t.Helper()
	w.settleDown(t)
	h := w.collect(t)
	w.mu.Lock()
	defer w.mu.Unlock()
	require.NoError(t, errors.Join(w.errs...), "seed %d", w.o.Seed)
	return h
}

// newWorld starts everything.
func newWorld(t testing.TB, programs Programs, cluster *harness.Cluster, o Options) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "leasehold-faults-") //nolint:usetesting // short, as a notify socket's path has to fit
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("what was left behind: %s", dir)
			return
		}
		_ = os.RemoveAll(dir)
	})
	w := &world{
		o: o, dir: dir, logPath: filepath.Join(dir, "events"), locks: filepath.Join(dir, "locks"), programs: programs,
		cluster: cluster, env: o.Env, lastBatchSample: map[int64]history.BatchSample{},
	}
	require.NoError(t, os.Mkdir(w.locks, 0o755))
	w.log, err = history.OpenLog(w.logPath)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.log.Close()) })

	w.server, err = newControl(filepath.Join(dir, "server"))
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	w.openBase(t)
	w.endpoint, err = newEndpoint(w.log, w.app, w.addresses, w.fail)
	require.NoError(t, err)
	w.startAgents(t)
	w.startHolders(t)
	return w
}

func (w *world) startAgents(t testing.TB) {
	t.Helper()
	registerToxics()
	for i := range w.o.Agents {
		a := &agent{w: w, name: fmt.Sprintf("a%d", i+1), store: parse(w.direct), program: w.programs.Agent}
		w.agents = append(w.agents, a)
		var err error
		a.clock, err = newControl(filepath.Join(w.dir, a.name+".clock"))
		require.NoError(t, err)
		if w.cluster == nil {
			continue
		}
		if i == w.o.Agents-1 && w.cluster.Pooled != "" { // the last one goes by way of the pooler
			a.store = parse(w.cluster.Pooled)
			a.store.Path = parse(w.direct).Path
			t.Logf("%s goes by way of PgBouncer", a.name)
		} else if i == w.o.Agents-1 { // there is none: without prepared statements, as if there were
			a.store.RawQuery += "&default_query_exec_mode=exec"
		}
		a.proxy, err = newProxy(a.name, a.store.Host)
		require.NoError(t, err)
		a.store.Host = a.proxy.Listen
		if a.disk, err = newSmallDisk(filepath.Join(w.dir, a.name)); err != nil {
			t.Logf("no small disks: %v", err)
			a.disk = nil
		}
	}
	t.Cleanup(func() { w.endAll(t) })
	w.all.Go(func() { w.watchChildren(t.Context()) })
	for _, a := range w.agents[:w.o.Agents-w.o.later] {
		require.NoError(t, a.start())
	}
}

// endAll ends what is there.
func (w *world) endAll(t testing.TB) {
	t.Helper()
	for _, a := range w.agents {
		a.signal(syscall.SIGCONT)
		a.signal(syscall.SIGKILL)
	}
	w.all.Wait()
	w.endpoint.close()
	w.app.Close()
	for _, a := range w.agents {
		if a.proxy != nil {
			a.proxy.Stop()
		}
		require.NoError(t, a.clock.close())
		if a.disk != nil {
			require.NoError(t, a.disk.close())
		}
	}
	require.NoError(t, w.server.close())
}

// addresses are where agents listen that are there.
func (w *world) addresses() (all []string) {
	for _, a := range w.agents {
		if addr := a.address(); addr != "" {
			all = append(all, addr)
		}
	}
	return all
}

func parse(text string) *url.URL {
	u, err := url.Parse(text)
	if err != nil {
		panic(err) // it has been in use
	}
	return u
}

// settleDown waits until nothing is left to do, or nothing happens any more.
func (w *world) settleDown(t testing.TB) {
	t.Helper()
	for _, a := range w.agents {
		require.NoError(t, a.start())
	}
	w.awaitHolders(t)
	start := time.Now()
	deadline := start.Add(calmWithin)
	for tick := time.NewTicker(200 * time.Millisecond); ; <-tick.C {
		ctx, cancel := context.WithTimeout(t.Context(), queryTimeout)
		left := -1
		err := w.app.QueryRow(ctx, `SELECT (SELECT count(*) FROM leasehold.task)
			+ (SELECT count(*) FROM leasehold.batch WHERE sealed AND ended_at IS NULL)
			+ (SELECT count(*) FROM leasehold.operation WHERE ended_at IS NULL)`).Scan(&left)
		if planned := 0; err == nil && w.o.Items > 0 {
			err = w.app.QueryRow(ctx, chunksLeft).Scan(&planned)
			if left += planned; planned > 0 {
				deadline = start.Add(min(time.Since(start)+calmWithin, planWithin))
			}
		}
		cancel()
		if err == nil && left > 0 {
			w.resolveAll(t.Context())
			w.moveAll(t.Context())
		}
		if err == nil && left == 0 {
			t.Logf("all is done %s after the last fault", time.Since(start).Round(time.Millisecond))
			tick.Stop()
			break
		}
		if time.Now().After(deadline) {
			t.Logf("%d rows, batches and operations are left after %s (%v)", left, time.Since(start).Round(time.Second), err)
			return
		}
	}
	drained := make([]running, len(w.agents))
	for i, a := range w.agents { // so that each agent logs what it still has to
		drained[i] = a.signal(syscall.SIGTERM)
	}
	for i, a := range w.agents {
		if !drained[i].await(harness.StopWithin) {
			w.fail(fmt.Errorf("%s does not drain", a.name))
		}
	}
	if !w.noWorkers() {
		w.fail(errors.New("workers are left behind"))
	}
}

// preload is the environment in which the server's clock and disk are what its control says.
func (w *world) preload() []string {
	return []string{"LD_PRELOAD=" + w.programs.Shim, "LEASEHOLD_FAULT_CONTROL=" + w.server.path}
}
