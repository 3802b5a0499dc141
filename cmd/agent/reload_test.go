package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/harness"
)

// reloads is an agent whose configuration changes.
type reloads struct {
	*rig
	config string // its file
	head   string // of the file
}

// startReloading starts an agent that can reload. head is what its file begins with beside its listener, body the rest.
func startReloading(t *testing.T, head, body string, change ...func(*reloader)) *reloads {
	t.Helper()
	r := &reloads{config: filepath.Join(t.TempDir(), "leasehold.hcl"), head: "agent {\n  listen = \"127.0.0.1:0\"\n" + head + "\n}\n"}
	r.write(t, body)
	load := func() (*config.Config, error) { return config.Load([]string{r.config}, config.Options{}) }
	r.rig = startLoaded(t, load, quiet(), func(rig *rig) {
		rig.agent.reloads = newReloader(rig.agent, reloading{
			load: load, place: func(c *config.Config) (place, error) { return placeOf(c.Store) },
			guardian: func(...*task.Type) []string { return nil },
		})
		for _, c := range change {
			c(rig.agent.reloads)
		}
	})
	return r
}

func (r *reloads) write(t *testing.T, body string) {
	t.Helper()
	require.NoError(t, os.WriteFile(r.config, []byte(r.head+body), 0o600))
}

// reload reloads as a signal does, and returns what became of it.
func (r *reloads) reload(t *testing.T, body string) reloadReport {
	t.Helper()
	return <-r.ask(t, body).answer
}

// ask is reload for those who do not wait.
func (r *reloads) ask(t *testing.T, body string) *asking {
	t.Helper()
	r.write(t, body)
	q := &asking{by: "a test", answer: make(chan reloadReport, 1)}
	r.agent.reloads.asked <- q
	return q
}

// descriptors counts the open files of this process.
func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/dev/fd")
	require.NoError(t, err)
	return len(list)
}

// heapInUse is what is in use of the heap, in bytes, once all garbage is collected.
func heapInUse() int {
	runtime.GC()
	runtime.GC() // finalizers of the first
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// many is a configuration that differs from any other of its kind in types, limits, schedules, chunk plans and settings.
func many(n int, dir, endpoint string) string {
	var b strings.Builder
	webhook := fmt.Sprintf("webhook {\n    url = %q\n  }\n", endpoint)
	fmt.Fprintf(&b, "store {\n  retention = \"%dh\"\n}\n", 24+n)
	fmt.Fprintf(&b, "task \"steady\" {\n  timeout = \"%ds\"\n  limit = %d\n  %s}\n", 10+n, 3+n%7, webhook)
	fmt.Fprintf(&b, "task \"once-%d\" {\n  rate = \"%d/s\"\n  %s}\n", n, 100+n, webhook)
	fmt.Fprintf(&b, "schedule \"at-%d\" {\n  task = \"steady\"\n  every = \"24h\"\n}\n", n%2)
	fmt.Fprintf(&b, "chunks \"plan-%d\" {\n  task = \"steady\"\n  source {\n    url = \"sqlite:%s\"\n    table = \"event\"\n    key = \"id\"\n  }\n}\n",
		n%3, filepath.Join(dir, "source.db"))
	return b.String()
}

// However often the configuration is loaded, nothing of the earlier ones is left, and every task runs once. Most are replaced by the next one
// before the store knows of them.
func TestManyReloadsUnderLoadLeakNothing(t *testing.T) {
	reloads, waits := harness.Sized(200, 1000), harness.Sized(100, 10)
	var served atomic.Int64
	endpoint := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		served.Add(1)
	}))
	defer endpoint.Close()
	dir := t.TempDir()
	r := startReloading(t, "  workers = 8", many(0, dir, endpoint.URL))
	r.eventually(t, "/-/ready", "ok")

	var ids []task.ID
	var goroutines, files, heap int
	const warm = 2
	for n := 1; n <= warm+reloads; n++ {
		for range 2 {
			id, _, err := ops.Enqueue(t.Context(), r.agent.store, store.EnqueueRequest{Type: "steady"})
			require.NoError(t, err)
			ids = append(ids, id)
		}
		q := r.ask(t, many(n, dir, endpoint.URL))
		if n <= warm || n%waits == 0 || n == warm+reloads {
			report := <-q.answer
			require.Equal(t, reloadLoaded, report.Result, "%v", report.Problems)
			require.NotEmpty(t, report.Changes)
		}
		if n == warm {
			goroutines, files, heap = runtime.NumGoroutine(), descriptors(t), heapInUse()
		}
	}
	infos, err := ops.Wait(t.Context(), r.agent.store, ids, ops.Watch{})
	require.NoError(t, err)
	for _, info := range infos {
		require.Equal(t, task.StateSucceeded, info.State)
		require.Equal(t, 1, info.Attempt)
	}
	require.EqualValues(t, len(ids), served.Load())
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= goroutines+10 }, 20*time.Second, 10*time.Millisecond)
	require.Eventually(t, func() bool { return descriptors(t) <= files+20 }, 20*time.Second, 10*time.Millisecond)
	require.Less(t, heapInUse()-heap, reloads*(6<<10), "a configuration alone takes more")
	r.stop(t)
}

const target = "webhook {\n    url = \"http://127.0.0.1:9/\"\n  }\n"

// What cannot change while the agent runs is refused, all of it at once, with its place and what to do.
func TestAReloadRefusesWhatNeedsARestart(t *testing.T) {
	r := startReloading(t, "  name = \"a\"", "task \"x\" {\n  "+target+"}\n")
	r.eventually(t, "/-/ready", "ok")
	hash := r.agent.cfg.Load().Hash
	report := r.reload(t, "task \"x\" {\n  "+target+"}\ntask \"y\" {\n  "+target+"}\nstore {\n  schema = \"other\"\n  connections = 5\n"+
		"  notify = false\n  url = \"sqlite:other.db\"\n  group = \"g\"\n}\n")
	require.Equal(t, reloadRestart, report.Result)
	require.Equal(t, hash, report.Config)
	var texts []string
	for _, p := range report.Problems {
		texts = append(texts, strings.TrimPrefix(p.Place, r.config)+" "+p.Text)
	}
	const remedy = ": restart the agent, or undo the change and reload"
	require.Len(t, texts, 5)
	require.Regexp(t, `^:19 store\.url cannot change while the agent runs \("sqlite:.*leasehold\.db" -> "sqlite:.*other\.db"\)`+remedy+"$", texts[0])
	require.Equal(t, []string{
		`:16 store.schema cannot change while the agent runs ("leasehold" -> "other")` + remedy,
		`:17 store.connections cannot change while the agent runs (4 -> 5)` + remedy,
		`:18 store.notify cannot change while the agent runs (true -> false)` + remedy,
		`:20 store.group cannot change while the agent runs (null -> "g")` + remedy,
	}, texts[1:])
	require.Nil(t, r.agent.cfg.Load().Type("y"), "and nothing else has changed")

	r.head = "agent {\n  listen = \"127.0.0.1:1\"\n  name = \"b\"\n  presence = \"20s\"\n  workers = 3\n}\n"
	report = r.reload(t, "")
	require.Len(t, report.Problems, 3)
	require.Equal(t, r.config+":3", report.Problems[0].Place)
	require.Equal(t, `agent.name cannot change while the agent runs ("a" -> "b")`+remedy, report.Problems[0].Text)
	require.Contains(t, report.Problems[1].Text, "agent.listen")
	require.Contains(t, report.Problems[2].Text, "agent.presence")
	r.eventually(t, "/metrics", "leasehold_reload_failed 1")
	r.eventually(t, "/metrics", `leasehold_reloads_total{result="restart"} 2`)
	r.eventually(t, "/metrics", `leasehold_workers 32`)
	r.stop(t)
}

// All that the agent block has otherwise is live: the new value counts as soon as the reload is answered.
func TestAReloadChangesSettingsOfTheAgent(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(secret, []byte("one"), 0o600))
	head := func(rest string) string {
		return "agent {\n  listen = \"127.0.0.1:0\"\n  token = file(\"" + secret + "\")\n" + rest + "}\n"
	}
	r := startReloading(t, "  token = file(\""+secret+"\")", "")
	r.eventually(t, "/-/ready", "ok")
	require.NoError(t, os.WriteFile(secret, []byte("two"), 0o600))
	r.head = head("  workers = 0\n  drain = \"1s\"\n  region = \"sg\"\n  poll = \"2s\"\n  advertise = \"http://here.example:80\"\n  read_only = true\n")
	report := r.reload(t, "task \"x\" {\n  "+target+"}\n")
	require.Equal(t, reloadLoaded, report.Result)
	require.Equal(t, []string{"agent", "task"}, []string{report.Changes[0].Kind, report.Changes[1].Kind})
	require.Len(t, report.Changes[0].Fields, 6, "no secret is among them: %v", report.Changes[0].Fields)
	require.Equal(t, "two", r.agent.cfg.Load().Agent.Token)
	require.Equal(t, "http://here.example:80", *r.agent.pings.base.Load())
	r.eventually(t, "/metrics", "leasehold_workers 0")
	pause, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/api/v1/pauses/x/pause", http.NoBody)
	require.NoError(t, err)
	refused, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}).Do(pause)
	require.NoError(t, err)
	require.NoError(t, refused.Body.Close())
	require.Equal(t, http.StatusForbidden, refused.StatusCode, "it is read-only now")
	works, _ := r.agent.settings.batches.get()
	require.Equal(t, batching{false, 2 * time.Second}, works)
	require.Equal(t, time.Second+settleMargin, r.agent.longestDrain()-r.agent.engine.LongestStop())
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		list, err := r.agent.store.ListAgents(t.Context(), false)
		require.NoError(c, err)
		require.Equal(c, "sg", list[0].Region)
		require.Equal(c, report.Config, list[0].Config)
	}, 20*time.Second, 10*time.Millisecond)

	r.head = head("")
	report = r.reload(t, "task \"x\" {\n  "+target+"}\n")
	require.Equal(t, reloadLoaded, report.Result)
	works, _ = r.agent.settings.batches.get()
	require.True(t, works.works)
	r.stop(t)
}

// A chunk plan whose source cannot be opened is a mistake like any other: nothing is changed.
func TestAReloadOpensWhatItCanBeforeItChangesAnything(t *testing.T) {
	r := startReloading(t, "", "")
	r.eventually(t, "/-/ready", "ok")
	report := r.reload(t, "task \"x\" {\n  "+target+"}\nchunks \"c\" {\n  task = \"x\"\n  source {\n"+
		"    url = \"postgres://u:hidden@localhost/db?sslmode=nonsense\"\n    table = \"t\"\n    key = \"id\"\n  }\n}\n")
	require.Equal(t, reloadInvalid, report.Result)
	require.Len(t, report.Problems, 1)
	require.Equal(t, r.config+":10", report.Problems[0].Place)
	require.Contains(t, report.Problems[0].Text, "sslmode")
	require.NotContains(t, report.Problems[0].Text, "hidden")
	require.Empty(t, r.agent.cfg.Load().Tasks)
	r.stop(t)
}

// While the store is out of reach the earlier configuration stays in force, which is said. The last of several is in force soon after.
func TestAReloadWaitsForTheStore(t *testing.T) {
	r := startReloading(t, "  presence = \"1h\"", "", func(r *reloader) { r.within = time.Millisecond })
	r.eventually(t, "/-/ready", "ok")
	release := keepStore(t, r.rig)
	require.Equal(t, reloadWaits, r.reload(t, "task \"a\" {\n  "+target+"}\n").Result)
	require.Equal(t, reloadWaits, r.reload(t, "task \"b\" {\n  "+target+"}\n").Result)
	require.Equal(t, reloadInvalid, r.reload(t, "nonsense {").Result)
	require.Equal(t, reloadWaits, r.reload(t, "task \"c\" {\n  "+target+"}\n").Result)
	require.Empty(t, r.agent.cfg.Load().Tasks)
	r.eventually(t, "/metrics", "leasehold_reload_failed 1")
	release()
	r.eventually(t, "/metrics", "leasehold_reload_failed 0")
	require.Len(t, r.agent.cfg.Load().Tasks, 1)
	require.NotNil(t, r.agent.cfg.Load().Type("c"))
	r.stop(t)
}

// An agent that is about to end reloads nothing, and says so.
func TestAnAgentThatDrainsDoesNotReload(t *testing.T) {
	r := startReloading(t, "", "")
	r.eventually(t, "/-/ready", "ok")
	r.agent.engine.Drain()
	require.EventuallyWithT(t, func(c *assert.CollectT) { require.True(c, r.agent.engine.Draining()) }, 20*time.Second, time.Millisecond)
	_, _, report := r.agent.reloads.prepare()
	require.Equal(t, reloadNot, report.Result)
	require.NoError(t, <-r.ended)
}

// The service manager is told when a reload begins and when it is over, also where it is refused.
func TestTheServiceManagerKnowsOfReloads(t *testing.T) {
	m := newServiceManager(t)
	r := startReloading(t, "", "")
	m.until("READY=1")
	for _, body := range []string{"task \"x\" {\n  " + target + "}\n", "nonsense {"} {
		r.reload(t, body)
		require.Regexp(t, `^\[RELOADING=1 MONOTONIC_USEC=[1-9][0-9]+\]$`, fmt.Sprint(m.until("RELOADING=1", "READY=1")))
		m.until("READY=1")
	}
	r.stop(t)
	m.until("STOPPING=1", "READY=1")
}
