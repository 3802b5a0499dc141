// Package examples_test runs the applications of examples/ beside a real agent, on both stores.
package examples_test

import (
	"bytes"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // the driver

	"github.com/leasehold/leasehold/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// application is how an example is started. PORT and DATABASE_URL are in its environment.
type application struct {
	dir    string
	argv   []string
	prefix string // of its paths
}

func applications() []application {
	return []application{
		{dir: "node", argv: []string{"node", "app.js"}},
		{dir: "php", argv: []string{"php", "-S", "127.0.0.1:{port}", "app.php"}},
		{dir: "python", argv: []string{"python3", "app.py"}},
		{dir: "shell", argv: []string{"./app.sh"}, prefix: "/cgi-bin"},
	}
}

// TestExamples takes every application through the same: what it enqueues in its own transaction is done, what it
// rolls back is not there, what makes no sense is rejected.
func TestExamples(t *testing.T) {
	for _, app := range applications() {
		if !usable(app.dir) {
			continue
		}
		t.Run(app.dir, func(t *testing.T) {
			t.Parallel() // they wait, most of the time
			t.Run("postgres", func(t *testing.T) { perform(t, app, onPostgres(t)) })
			t.Run("sqlite", func(t *testing.T) { perform(t, app, onSQLite(t)) })
		})
	}
}

// usable reports whether a language's examples can run here: test/examples/prepare finds out, and test/all names those that
// cannot.
func usable(language string) bool {
	all, limited := os.LookupEnv("LEASEHOLD_EXAMPLES")
	return !limited || strings.Contains(" "+all+" ", " "+language+" ")
}

// stores are the addresses of one store.
type stores struct {
	agent, app     string // for the agent, and for the application
	driver, source string // for the test
	schema         string
}

func onPostgres(t *testing.T) stores {
	t.Helper()
	url := harness.Database(t)
	return stores{agent: url, app: harness.Application(t, url), driver: "pgx", source: url, schema: "leasehold."}
}

func onSQLite(t *testing.T) stores {
	t.Helper()
	file := filepath.Join(t.TempDir(), "leasehold.db")
	return stores{
		agent: "sqlite:" + file, app: "sqlite:" + file,
		driver: "sqlite", source: "file:" + file + "?_pragma=busy_timeout(5000)",
	}
}

// open connects to the store, as the test's own.
func (s stores) open(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open(s.driver, s.source)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// interpreters is where the examples find their interpreters: Debian's packages of drivers belong to Debian's.
func interpreters() string {
	if runtime.GOOS == "linux" {
		return "PATH=/usr/bin:/bin:" + os.Getenv("PATH")
	}
	return "PATH=" + os.Getenv("PATH")
}

// stage is one application with its agent.
type stage struct {
	t    *testing.T
	s    stores
	base string // URL of the application
	db   *sql.DB
}

func perform(t *testing.T, app application, s stores) {
	st := start(t, app, s)
	first, second := "Ada", `Grace O'Hara "ü" \ %s $1`

	status, tasks := st.post("/greetings", map[string]any{"names": []string{first, second}})
	require.Equal(t, http.StatusCreated, status)
	require.Len(t, tasks, 2)
	for i, name := range []string{first, second} {
		done := st.wait(tasks[i])
		require.Equal(t, "succeeded", done.State)
		require.Equal(t, 1, done.Attempt)
		require.JSONEq(t, string(marshal(t, map[string]string{"greeting": "Hello, " + name + "!"})), string(done.Result))
		require.Equal(t, tasks[i], st.number(`SELECT greeted_by FROM greeting WHERE name = $1`, name))
	}

	// The second name is taken, so neither it nor the first, nor their tasks, are there.
	status, _ = st.post("/greetings", map[string]any{"names": []string{"Alan", first}})
	require.Equal(t, http.StatusConflict, status)
	require.EqualValues(t, 2, st.number(`SELECT count(*) FROM greeting`))
	require.EqualValues(t, 2, st.number(`SELECT count(*) FROM `+s.schema+`tasks`))

	status, tasks = st.post("/reports", map[string]any{"name": "November"})
	require.Equal(t, http.StatusCreated, status)
	require.Len(t, tasks, 1)
	done := st.wait(tasks[0])
	require.Equal(t, "succeeded", done.State)
	require.JSONEq(t, `{"greetings": 2}`, string(done.Result))
	require.EqualValues(t, 2, st.number(`SELECT greetings FROM report WHERE name = $1`, "November"))

	for _, typ := range []string{"greeting.send", "report.build"} {
		done := st.wait(st.enqueue(typ, `{"name": "unknown"}`))
		require.Equal(t, "failed", done.State, typ)
		require.Equal(t, "rejected", done.Outcome, typ)
		require.Equal(t, 1, done.Attempt, typ)
	}

	status, _ = st.post("/greet", map[string]any{"data": map[string]any{"name": first}, "task": map[string]any{"id": 99}})
	require.Equal(t, http.StatusUnauthorized, status, "it was not signed")
}

// start starts the agent, which makes the embedded store, and then the application.
func start(t *testing.T, app application, s stores) *stage {
	t.Helper()
	port := harness.FreePort(t)
	st := &stage{t: t, s: s, base: fmt.Sprintf("http://127.0.0.1:%d", port)}
	env := []string{
		"DATABASE_URL=" + s.app, "APP_URL=" + st.base, fmt.Sprintf("PORT=%d", port), "LEASEHOLD_STORE=" + s.agent,
		"WEBHOOK_SECRET=whsec_" + base64.StdEncoding.EncodeToString([]byte("the test's own secret, 32 bytes!")),
		interpreters(),
	}
	st.base += app.prefix
	dir := filepath.Join(harness.Root(), "examples", app.dir)
	agent := harness.StartAgent(t, harness.AgentOptions{
		Name: "agent", Store: s.agent, Paths: []string{filepath.Join(dir, "leasehold.hcl")}, Env: env,
	})
	t.Cleanup(func() { agent.Drain(t) })

	var argv []string
	for _, arg := range app.argv {
		argv = append(argv, strings.ReplaceAll(arg, "{port}", fmt.Sprint(port)))
	}
	cmd := exec.Command("/usr/bin/env", argv...) // env finds it in the PATH above
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	harness.StartProcess(t, app.dir, cmd)
	untilListens(t, port)
	st.db = s.open(t)
	return st
}

// untilListens waits until an application takes connections.
func untilListens(t *testing.T, port int) {
	t.Helper()
	harness.Until(t, 2*time.Minute, "the application listens", func() bool {
		conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), time.Second)
		if err != nil {
			return false
		}
		return conn.Close() == nil
	})
}

// post asks the application for something and returns the tasks that it has enqueued.
func (st *stage) post(path string, content any) (status int, tasks []int64) {
	st.t.Helper()
	client := http.Client{Timeout: 20 * time.Second}
	request, err := http.NewRequestWithContext(st.t.Context(), http.MethodPost, st.base+path, bytes.NewReader(marshal(st.t, content)))
	require.NoError(st.t, err)
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	require.NoError(st.t, err)
	defer func() { require.NoError(st.t, response.Body.Close()) }()
	body, err := io.ReadAll(response.Body)
	require.NoError(st.t, err)
	var answer struct {
		Tasks []int64 `json:"tasks"`
	}
	require.NoError(st.t, json.Unmarshal(body, &answer), "%s", body)
	st.t.Logf("POST %s: %d %s", path, response.StatusCode, body)
	return response.StatusCode, answer.Tasks
}

// info is what the test reads of a task.
type info struct {
	ID      int64           `json:"id"`
	State   string          `json:"state"`
	Outcome string          `json:"outcome"`
	Attempt int             `json:"attempt"`
	Error   string          `json:"error"`
	Result  json.RawMessage `json:"result"`
}

// wait waits for a task to finish.
func (st *stage) wait(id int64) info {
	st.t.Helper()
	out, exit := harness.Run(st.t, nil, "task", "wait", fmt.Sprint(id), "--timeout", "60s", "-o", "json", "--store", st.s.agent)
	require.Contains(st.t, []int{0, 4}, exit, "task %d has not finished", id)
	var i info
	require.NoError(st.t, json.Unmarshal([]byte(out), &i), "%s", out)
	st.t.Logf("task %d: %s %s", id, i.State, i.Error)
	return i
}

// enqueue enqueues by the command line.
func (st *stage) enqueue(typ, payload string) int64 {
	st.t.Helper()
	out := harness.MustRun(st.t, nil, "enqueue", typ, "--payload", payload, "-o", "json", "--store", st.s.agent)
	var made info
	require.NoError(st.t, json.Unmarshal([]byte(out), &made), "%s", out)
	return made.ID
}

// number asks the database for a number.
func (st *stage) number(query string, args ...any) (n int64) {
	st.t.Helper()
	require.NoError(st.t, st.db.QueryRowContext(st.t.Context(), query, args...).Scan(&n), query)
	return n
}

func marshal(t *testing.T, v any) []byte {
	t.Helper()
	body, err := json.Marshal(v)
	require.NoError(t, err)
	return body
}
