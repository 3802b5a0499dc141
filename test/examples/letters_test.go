package examples_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/harness"
)

// letters is one of the programs in examples/letters.
type letters struct {
	language, file string
	server         []string // how the application is started that the task is a request to; nil: the agent starts the file
	detached       bool     // it goes on without a connection, and so without an agent
}

func allLetters() []letters {
	return []letters{
		{language: "java", file: "Letters.java"},
		{language: "node", file: "letters.js", server: []string{"node", "letters.js"}, detached: true},
		{language: "perl", file: "letters.pl"},
		{language: "php", file: "letters.php", server: []string{"php", "-S", "127.0.0.1:{port}", "letters.php"}},
		{language: "python", file: "letters.py"},
		{language: "shell", file: "letters.sh"},
	}
}

// TestLetters cuts each of the long tasks off half-way: on PostgreSQL by killing what works on it (the application, or
// the agent, and with it what that has started), on SQLite by replacing the agent, as a deploy does. The next attempt
// goes on after the checkpoint. Another one is cancelled, and stops.
func TestLetters(t *testing.T) {
	t.Parallel()
	for _, l := range allLetters() {
		if !usable(l.language) {
			continue
		}
		t.Run(l.language, func(t *testing.T) {
			t.Parallel() // they wait, most of the time
			t.Run("postgres", func(t *testing.T) {
				t.Parallel()
				p := newPost(t, l, onPostgres(t))
				p.resumes(p.kill)
				p.stops()
			})
			t.Run("sqlite", func(t *testing.T) {
				t.Parallel()
				p := newPost(t, l, onSQLite(t))
				if l.detached {
					p.goesOn(p.replace)
				} else {
					p.resumes(p.replace)
				}
				p.stops()
			})
		})
	}
}

// TestLettersAreShort keeps the examples what they are for: something to read at a glance.
func TestLettersAreShort(t *testing.T) {
	for _, l := range allLetters() {
		text, err := os.ReadFile(filepath.Join(harness.Root(), "examples/letters", l.file))
		require.NoError(t, err)
		require.Less(t, strings.Count(string(text), "\n"), 40, l.file)
	}
}

// manyLetters take 5 s: what cuts them off half-way may take so long.
const manyLetters = 100

// post is one of the programs at work.
type post struct {
	*stage
	letters
	dir, outbox string
	port        int    // of the application
	listen      string // of the agent
	env         []string
	agent       *harness.Agent
	app         *harness.Process // nil: there is none
}

func newPost(t *testing.T, l letters, s stores) *post {
	t.Helper()
	p := &post{stage: &stage{t: t, s: s}, letters: l, port: harness.FreePort(t)}
	if l.detached { // its ping URL has to lead to the next agent, too
		p.listen = fmt.Sprintf("127.0.0.1:%d", harness.FreePort(t))
	}
	p.dir = filepath.Join(harness.Root(), "examples/letters")
	p.outbox = filepath.Join(t.TempDir(), "outbox.txt")
	base := fmt.Sprintf("http://127.0.0.1:%d", p.port)
	p.env = []string{
		"OUTBOX=" + p.outbox, fmt.Sprintf("PORT=%d", p.port), "NODE_URL=" + base, "PHP_URL=" + base,
		"LEASEHOLD_STORE=" + s.agent, interpreters(),
	}
	p.startAgent()
	if l.server != nil {
		p.startServer()
	}
	p.db = s.open(t)
	return p
}

func (p *post) startAgent() {
	p.t.Helper()
	p.agent = harness.StartAgent(p.t, harness.AgentOptions{
		Name: "agent", Store: p.s.agent, Listen: p.listen,
		Agent: "presence = \"6s\"\ndrain = \"0s\"",
		Paths: []string{filepath.Join(p.dir, "leasehold.hcl")}, Env: p.env,
	})
}

func (p *post) startServer() {
	p.t.Helper()
	var argv []string
	for _, arg := range p.server {
		argv = append(argv, strings.ReplaceAll(arg, "{port}", strconv.Itoa(p.port)))
	}
	cmd := exec.Command("/usr/bin/env", argv...) // env finds it in the PATH of its environment
	cmd.Dir, cmd.Env = p.dir, append(os.Environ(), p.env...)
	p.app = harness.StartProcess(p.t, p.language, cmd)
	untilListens(p.t, p.port)
}

// kill kills what works on the task, without a warning, and starts it anew.
func (p *post) kill() {
	p.t.Helper()
	if p.app == nil {
		p.agent.Kill(p.t)
		p.startAgent()
		return
	}
	p.app.Kill(p.t)
	p.startServer()
}

// replace ends the agent as a deploy does, and starts the next.
func (p *post) replace() {
	p.t.Helper()
	p.agent.Drain(p.t)
	p.startAgent()
}

// post enqueues a task, and returns with the first checkpoint that the store has of it.
func (p *post) post(many int) (id, noted int64) {
	p.t.Helper()
	id = p.enqueue("letters."+p.language, fmt.Sprintf(`{"letters": %d}`, many))
	harness.Until(p.t, 2*time.Minute, "there is a checkpoint", func() bool {
		var checkpoint sql.NullInt64
		var state string
		err := p.db.QueryRowContext(p.t.Context(), `SELECT state, checkpoint FROM `+p.s.schema+`tasks WHERE id = $1`, id).
			Scan(&state, &checkpoint)
		require.NoError(p.t, err)
		require.Contains(p.t, []string{"pending", "running"}, state)
		noted = checkpoint.Int64
		return checkpoint.Valid
	})
	return id, noted
}

// resumes cuts a task off, and wants all letters sent: each once from the checkpoint on.
func (p *post) resumes(cut func()) {
	p.t.Helper()
	id, noted := p.post(manyLetters)
	cut()
	after := p.finishes(id)
	require.Less(p.t, after, manyLetters)
	require.GreaterOrEqual(p.t, int64(after), noted, "it was cut off when letter %d had been noted", noted)
	sent := p.sent()
	first := len(sent) - (manyLetters - after) // so many did the attempt before send: those after the checkpoint come again
	require.GreaterOrEqual(p.t, first, after)
	require.Equal(p.t, consecutive(1, first), sent[:first])
	require.Equal(p.t, consecutive(after+1, manyLetters), sent[first:])
}

// goesOn replaces the agent of a task that it is no concern of.
func (p *post) goesOn(replace func()) {
	p.t.Helper()
	id, _ := p.post(manyLetters)
	replace()
	require.Zero(p.t, p.finishes(id))
	require.Equal(p.t, consecutive(1, manyLetters), p.sent())
}

// finishes waits until a task has succeeded, and gives the letter after which its last attempt began.
func (p *post) finishes(id int64) (after int) {
	p.t.Helper()
	done := p.wait(id)
	require.Equal(p.t, "succeeded", done.State, done.Error)
	var result struct{ Letters, After int }
	require.NoError(p.t, json.Unmarshal(done.Result, &result))
	require.Equal(p.t, manyLetters, result.Letters)
	return result.After
}

// stops cancels a task, and wants no more letters of it.
func (p *post) stops() {
	p.t.Helper()
	require.NoError(p.t, os.Remove(p.outbox))
	id, _ := p.post(100_000)
	harness.MustRun(p.t, nil, "task", "cancel", fmt.Sprint(id), "--store", p.s.agent)
	out, exit := harness.Run(p.t, nil, "task", "wait", fmt.Sprint(id), "--timeout", "60s", "-o", "json", "--store", p.s.agent)
	require.Equal(p.t, 5, exit)
	require.Contains(p.t, out, `"cancelled"`)
	still, since := p.sent(), time.Now()
	harness.Until(p.t, 20*time.Second, "no letter is sent any more", func() bool {
		if sent := p.sent(); len(sent) > len(still) {
			still, since = sent, time.Now()
		}
		return time.Since(since) > time.Second // it was 50 ms
	})
}

// sent lists the letters in the order in which they went out.
func (p *post) sent() (numbers []int) {
	p.t.Helper()
	text, err := os.ReadFile(p.outbox)
	require.NoError(p.t, err)
	for line := range strings.Lines(string(text)) {
		var n, attempt int
		_, err := fmt.Sscanf(line, "letter %d, attempt %d", &n, &attempt)
		require.NoError(p.t, err, line)
		numbers = append(numbers, n)
	}
	return numbers
}

// consecutive lists the numbers from first to last.
func consecutive(first, last int) (numbers []int) {
	for n := first; n <= last; n++ {
		numbers = append(numbers, n)
	}
	return numbers
}
