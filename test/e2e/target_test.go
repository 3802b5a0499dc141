package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // a driver
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // the other

	"github.com/leasehold/leasehold/test/harness"
)

// slowAnswer is how long a slow answer takes.
const slowAnswer = 300 * time.Millisecond

// fakeTarget is an endpoint whose answers stand in the tasks' payloads, by phase: {"check": "done", "run": "reject"}. What a list
// says is said one after the other, the last for good.
type fakeTarget struct {
	t     *testing.T
	store string
	url   string
	stop  chan struct{} // closed: requests that hang end

	env          []string // added to the environment of agents
	listen, more string   // where an agent listens, and further blocks; "": as usual

	mu   sync.Mutex
	came []call
	next chan struct{} // closed and made anew with each call
}

// call is one request as it came.
type call struct {
	Phase, ID string // Leasehold-Phase, webhook-id
	Trace     string // traceparent
	Data      json.RawMessage
	Task      struct {
		ID, Fence int64
		Attempt   int
		PingURL   *string `json:"ping_url"`
		Outcome   string
		Result    json.RawMessage
	}
}

// onEachStore runs a test on every store, beside the other tests that wait most of the time.
func onEachStore(t *testing.T, test func(*testing.T, *fakeTarget)) {
	t.Parallel()
	onEachStoreAlone(t, func(t *testing.T, d *fakeTarget) {
		t.Parallel()
		test(t, d)
	})
}

// onEachStoreAlone runs a test on every store, one at a time: it has bounds that a busy machine breaks.
func onEachStoreAlone(t *testing.T, test func(*testing.T, *fakeTarget)) {
	for name, store := range failStopStores(t) {
		t.Run(name, func(t *testing.T) {
			test(t, newTarget(t, store))
		})
	}
}

// newTarget starts a fake target for agents on that store.
func newTarget(t *testing.T, store string) *fakeTarget {
	d := &fakeTarget{t: t, store: store, stop: make(chan struct{}), next: make(chan struct{})}
	server := httptest.NewServer(d)
	d.url = server.URL
	t.Cleanup(func() {
		close(d.stop)
		server.CloseClientConnections()
		server.Close()
	})
	return d
}

func (d *fakeTarget) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := call{Phase: r.Header.Get("Leasehold-Phase"), ID: r.Header.Get("Webhook-Id"), Trace: r.Header.Get("Traceparent")}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &c)
	}
	if err != nil {
		panic(err) // the connection is cut, the task not done
	}
	d.mu.Lock()
	nth := 0
	for _, before := range d.came {
		if before.Task.ID == c.Task.ID && before.Phase == c.Phase {
			nth++
		}
	}
	d.came = append(d.came, c)
	close(d.next)
	d.next = make(chan struct{})
	d.mu.Unlock()
	var script map[string][]string
	say := "ok"
	if json.Unmarshal(c.Data, &script) != nil {
		script = nil // what is none has nothing to say
	}
	if said := script[c.Phase]; len(said) > 0 {
		say = said[min(nth, len(said)-1)]
	}
	switch say {
	case "ok":
		w.WriteHeader(http.StatusNoContent)
	case "hang":
		select {
		case <-r.Context().Done():
		case <-d.stop:
		}
	case "slow":
		timer := time.NewTimer(slowAnswer)
		defer timer.Stop()
		select {
		case <-timer.C:
			w.WriteHeader(http.StatusNoContent)
		case <-r.Context().Done():
		case <-d.stop:
		}
	case "fail":
		w.WriteHeader(http.StatusInternalServerError)
	case "reject":
		w.WriteHeader(http.StatusUnprocessableEntity)
	case "stream":
		w.Header().Set("Content-Type", "application/x-ndjson")
		_, _ = io.WriteString(w, "{\"progress\": 0.5}\n{\"result\": {\"reverted\": true}}\n")
	case "accept": // and complete at once, be that before the 202 has been read
		w.WriteHeader(http.StatusAccepted)
		client := http.Client{Timeout: sqlWithin}
		resp, err := client.Post(*c.Task.PingURL+"/complete", "application/json", strings.NewReader(`{"result": {"reverted": true}}`)) //nolint:noctx // it has a time limit
		if err != nil {
			panic(err)
		}
		_ = resp.Body.Close()
	default:
		_, _ = io.WriteString(w, say)
	}
}

// calls lists what came for a task.
func (d *fakeTarget) calls(id int64) (of []call) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.came {
		if c.Task.ID == id {
			of = append(of, c)
		}
	}
	return of
}

// phases lists for what they came.
func (d *fakeTarget) phases(id int64) (of []string) {
	for _, c := range d.calls(id) {
		of = append(of, c.Phase)
	}
	return of
}

// agent starts an agent whose type "work" is asked, run and rolled back by the fake target.
func (d *fakeTarget) agent(name string) *harness.Agent {
	d.t.Helper()
	target := fmt.Sprintf("webhook {\n    url = %q\n    cancel_grace = \"0s\"\n  }", d.url)
	return d.declare(name, fmt.Sprintf(`timeout = "6s"
  check {
    timeout = "6s"
    %s
  }
  %s
  rollback {
    timeout   = "30s"
    heartbeat = "2s"
    retry {
      limit = 1
      min   = "10ms"
    }
    %s
  }`, target, target, strings.Replace(target, "cancel_grace", "async = true\n    cancel_grace", 1)))
}

// declare starts an agent with a type "work".
func (d *fakeTarget) declare(name, work string) *harness.Agent {
	d.t.Helper()
	return harness.StartAgent(d.t, harness.AgentOptions{
		Name: name, Store: d.store, Agent: fmt.Sprintf("  presence = %q\n  poll = \"200ms\"\n  drain = \"1s\"", presence),
		Config: "task \"work\" {\n  retry {\n    limit = 1\n    min = \"10ms\"\n  }\n  " + work + "\n}\n" + d.more,
		Listen: d.listen, Env: d.env,
	})
}

// enqueue makes a task.
func (d *fakeTarget) enqueue(payload string) (id int64) {
	d.t.Helper()
	var made struct{ ID int64 }
	text := harness.MustRun(d.t, nil, "enqueue", "work", "--payload", payload, "-o", "json", "--store", d.store)
	require.NoError(d.t, json.Unmarshal([]byte(text), &made), text)
	return made.ID
}

// request has an operator's request done to a task by SQL.
func (d *fakeTarget) request(verb string, id int64) {
	d.t.Helper()
	if d.onSQLite() {
		d.exec(`INSERT INTO ` + verb + ` (id) VALUES (` + strconv.FormatInt(id, 10) + `)`)
		return
	}
	d.exec(`SELECT leasehold.` + verb + `(` + strconv.FormatInt(id, 10) + `)`)
}

func (d *fakeTarget) onSQLite() bool { return strings.HasPrefix(d.store, "sqlite:") }

// exec runs SQL in the store.
func (d *fakeTarget) exec(query string) {
	d.t.Helper()
	db := d.open()
	defer func() { require.NoError(d.t, db.Close()) }()
	_, err := db.ExecContext(d.t.Context(), query)
	require.NoError(d.t, err, query)
}

// shown is a task as `task show` has it.
type shown struct {
	State, Error string
	Traceparent  string
	Fence        int64
	Result       json.RawMessage
	History      []struct {
		Phase, Outcome, Error string
		Attempt               int
		Result                json.RawMessage
	}
}

func (d *fakeTarget) show(id int64) (s shown) {
	d.t.Helper()
	text := harness.MustRun(d.t, nil, "task", "show", strconv.FormatInt(id, 10), "-o", "json", "--store", d.store)
	require.NoError(d.t, json.Unmarshal([]byte(text), &s), text)
	return s
}

// outcomes lists how the task's attempts have ended.
func (d *fakeTarget) outcomes(id int64) (all []string) {
	for _, a := range d.show(id).History {
		all = append(all, a.Outcome)
	}
	return all
}

// becomes waits until the task is in that state.
func (d *fakeTarget) becomes(id int64, state string) (s shown) {
	d.t.Helper()
	harness.Until(d.t, workWithin, fmt.Sprintf("task %d is %s", id, state), func() bool {
		s = d.show(id)
		return s.State == state
	})
	return s
}

// awaits waits until so many requests of that phase have come for the task.
func (d *fakeTarget) awaits(id int64, phase string, n int) {
	d.t.Helper()
	harness.Until(d.t, workWithin, fmt.Sprintf("task %d is at its %s", id, phase), func() bool {
		return strings.Count(strings.Join(d.phases(id), " "), phase) >= n
	})
}
