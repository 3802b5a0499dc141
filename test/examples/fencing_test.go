package examples_test

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/harness"
)

// fenced is one of the programs in examples/fencing.
type fenced struct {
	language, program, ending string
}

func allFenced() []fenced {
	return []fenced{{"php", "php", ".php"}, {"python", "python3", ".py"}}
}

// TestFencing has every program work for attempts that hold their row and for some that do not any more, and wants each
// effect exactly once.
func TestFencing(t *testing.T) {
	for _, f := range allFenced() {
		if !usable(f.language) {
			continue
		}
		t.Run(f.language, func(t *testing.T) {
			t.Parallel()
			t.Run("postgres", func(t *testing.T) { newBank(t, f, onPostgres(t)).perform() })
			t.Run("sqlite", func(t *testing.T) { newBank(t, f, onSQLite(t)).perform() })
		})
	}
}

// TestFencingUnderAnAgent runs the programs as what they are: commands of an agent.
func TestFencingUnderAnAgent(t *testing.T) {
	if !usable("python") {
		t.Log("python is not there")
		return
	}
	for kind, on := range map[string]func(*testing.T) stores{"postgres": onPostgres, "sqlite": onSQLite} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := newBank(t, fenced{"python", "python3", ".py"}, on(t))
			agent := harness.StartAgent(t, harness.AgentOptions{
				Name: "agent", Store: b.s.agent, Env: b.env,
				Paths: []string{filepath.Join(harness.Root(), "examples/fencing", kind+".hcl")},
			})
			b.account("ada", "bob")
			for _, typ := range []string{"credit", "import", "mirror"} {
				done := b.wait(b.enqueue("points."+typ, `{"name": "ada", "points": 1, "credits": [["ada", 10], ["bob", 10]]}`))
				require.Equal(t, "succeeded", done.State, done.Error)
			}
			b.has(b.db, "ada", 11)
			b.has(b.other, "ada", 10)
			b.has(b.other, "bob", 10)
			agent.Drain(t)
		})
	}
}

// bank is the application's two databases, and attempts that go to the test itself.
type bank struct {
	*stage
	fenced
	file  string
	env   []string
	other *sql.DB
	tries chan try
}

// try is one attempt: a request that waits for its answer.
type try struct {
	envelope []byte
	answer   chan int // its status
}

func newBank(t *testing.T, f fenced, s stores) *bank {
	t.Helper()
	b := &bank{stage: &stage{t: t, s: s}, fenced: f, tries: make(chan try)}
	b.db = s.open(t)
	var other stores
	if s.driver == "pgx" {
		b.file, other = "postgres"+f.ending, onPostgres(t)
	} else {
		b.file, other = "sqlite"+f.ending, onSQLite(t)
	}
	b.other = other.open(t)
	b.env = append(os.Environ(), interpreters(), "DATABASE_URL="+s.app, "OTHER_DATABASE_URL="+other.app,
		"DATABASE_DSN="+dsn(t, s.app), "OTHER_DATABASE_DSN="+dsn(t, other.app))
	b.tables(b.db, s)
	b.tables(b.other, other)
	return b
}

// dsn is the address of a database as PHP wants it.
func dsn(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	if u.Scheme == "sqlite" {
		return address
	}
	password, _ := u.User.Password()
	return fmt.Sprintf("pgsql:host=%s;port=%s;dbname=%s;user=%s;password=%s",
		u.Hostname(), u.Port(), strings.TrimPrefix(u.Path, "/"), u.User.Username(), password)
}

// tables makes the application's tables as the application.
func (b *bank) tables(db *sql.DB, s stores) {
	b.t.Helper()
	schema, err := os.ReadFile(filepath.Join(harness.Root(), "examples/fencing/schema.sql"))
	require.NoError(b.t, err)
	if s.driver == "pgx" {
		db, err = sql.Open(s.driver, s.app)
		require.NoError(b.t, err)
		defer func() { require.NoError(b.t, db.Close()) }()
	}
	_, err = db.ExecContext(b.t.Context(), string(schema))
	require.NoError(b.t, err)
}

func (b *bank) perform() {
	server := httptest.NewServer(http.HandlerFunc(b.serve))
	b.t.Cleanup(server.Close)
	agent := harness.StartAgent(b.t, harness.AgentOptions{Name: "agent", Store: b.s.agent, Config: fmt.Sprintf(`
task "points" {
  timeout = "5m"
  retry {
    min = "10ms"
  }
  webhook {
    url = %q
  }
}`, server.URL)})
	b.account("ada", "bob")
	b.credit()
	b.importAll()
	b.mirror()
	agent.Drain(b.t)
}

// serve hands an attempt to the test.
func (b *bank) serve(w http.ResponseWriter, r *http.Request) {
	envelope, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	attempt := try{envelope, make(chan int, 1)}
	select {
	case b.tries <- attempt:
	case <-r.Context().Done():
		return
	}
	select {
	case status := <-attempt.answer:
		w.WriteHeader(status)
	case <-r.Context().Done():
	}
}

// credit is one effect that ends the task.
func (b *bank) credit() {
	id := b.enqueue("points", `{"name": "ada", "points": 100}`)
	stale := b.claimed()
	b.end(stale, http.StatusInternalServerError)
	holds := b.claimed()
	b.refused("credit", stale, "not held")
	b.has(b.db, "ada", 0)
	b.does("credit", holds)
	b.has(b.db, "ada", 100)
	done := b.wait(id) // while its request waits still
	require.Equal(b.t, "succeeded", done.State)
	require.JSONEq(b.t, `{"credited": true}`, string(done.Result))
	b.refused("credit", holds, "not held") // as who does not know whether the commit went through
	b.refused("credit", stale, "not held")
	b.end(holds, http.StatusOK)
	b.has(b.db, "ada", 100)
}

// importAll is many effects in the store's database.
func (b *bank) importAll() {
	id := b.enqueue("points", `{"credits": [["ada", 10], ["bob", 1], ["eve", 7], ["ada", 10]]}`)
	stale := b.claimed()
	b.refused("import", stale, "no account eve") // half of it is done by now
	b.has(b.db, "bob", 1)
	b.end(stale, http.StatusInternalServerError)
	holds := b.claimed()
	b.account("eve")
	b.refused("import", stale, "not held")
	b.has(b.db, "eve", 0)
	b.does("import", holds)
	b.does("import", holds) // nothing is left to do
	b.end(holds, http.StatusOK)
	require.Equal(b.t, "succeeded", b.wait(id).State)
	b.refused("import", holds, "not held")
	b.has(b.db, "ada", 120)
	b.has(b.db, "bob", 1)
	b.has(b.db, "eve", 7)
}

// mirror is many effects in another database.
func (b *bank) mirror() {
	id := b.enqueue("points", `{"credits": [["ada", 10], ["dan", 5], ["fay", 6], ["ada", 10]]}`)
	stale := b.claimed()
	b.refused("mirror", stale, "no account dan")
	b.end(stale, http.StatusInternalServerError)
	holds := b.claimed()
	b.account("dan")
	b.refused("mirror", holds, "no account fay")
	b.account("fay")
	b.refused("mirror", stale, "a later attempt has been here")
	b.has(b.other, "fay", 0)
	b.does("mirror", holds)
	b.end(holds, http.StatusOK)
	require.Equal(b.t, "succeeded", b.wait(id).State)
	b.does("mirror", holds) // nothing is left to do
	b.refused("mirror", stale, "a later attempt has been here")
	b.has(b.other, "ada", 20)
	b.has(b.other, "dan", 5)
	b.has(b.other, "fay", 6)
}

// claimed waits for the next attempt.
func (b *bank) claimed() try {
	b.t.Helper()
	select {
	case attempt := <-b.tries:
		return attempt
	case <-time.After(time.Minute):
		require.Fail(b.t, "no attempt has come")
		return try{}
	}
}

// end answers an attempt's request, if it still waits: where its task has completed itself it need not.
func (b *bank) end(attempt try, status int) { attempt.answer <- status }

// does has the program do the work for an attempt.
func (b *bank) does(what string, attempt try) {
	b.t.Helper()
	out, err := b.run(what, attempt)
	require.NoError(b.t, err, out)
}

// refused has the program try it, in vain and for that reason.
func (b *bank) refused(what string, attempt try, reason string) {
	b.t.Helper()
	out, err := b.run(what, attempt)
	var exit *exec.ExitError
	require.ErrorAs(b.t, err, &exit, out)
	require.Contains(b.t, out, reason)
}

func (b *bank) run(what string, attempt try) (out string, err error) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/usr/bin/env", b.program, b.file, what) // env finds it in the PATH of its environment
	cmd.Dir, cmd.Env = filepath.Join(harness.Root(), "examples/fencing"), b.env
	cmd.Stdin = strings.NewReader(string(attempt.envelope))
	printed, err := cmd.CombinedOutput()
	return string(printed), err
}

// account opens accounts in both databases.
func (b *bank) account(names ...string) {
	b.t.Helper()
	for _, db := range []*sql.DB{b.db, b.other} {
		for _, name := range names {
			_, err := db.ExecContext(b.t.Context(), `INSERT INTO account (name) VALUES ($1)`, name)
			require.NoError(b.t, err)
		}
	}
}

// has wants an account to have so many points.
func (b *bank) has(db *sql.DB, name string, points int) {
	b.t.Helper()
	var n int
	require.NoError(b.t, db.QueryRowContext(b.t.Context(), `SELECT points FROM account WHERE name = $1`, name).Scan(&n))
	require.Equal(b.t, points, n, name)
}

// TestFencingGuide wants the code in docs/fencing.md to be what the tests above run.
func TestFencingGuide(t *testing.T) {
	guide, err := os.ReadFile(filepath.Join(harness.Root(), "docs/fencing.md"))
	require.NoError(t, err)
	var sources string
	for _, pattern := range []string{"*.py", "*.php", "*.sql"} {
		files, err := filepath.Glob(filepath.Join(harness.Root(), "examples/fencing", pattern))
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			sources += string(text) + "\n"
		}
	}
	found := 0
	for i, part := range strings.Split(string(guide), "\n```") {
		language, code, _ := strings.Cut(part, "\n")
		if i%2 == 1 && (language == "python" || language == "php" || language == "sql") {
			found++
			if !strings.Contains(sources, "\n"+code+"\n") {
				require.Fail(t, "this is not in examples/fencing", code)
			}
		}
	}
	require.GreaterOrEqual(t, found, 6)
}
