package v1

import (
	"context"
	"database/sql"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/internal/activity"
	"github.com/leasehold/leasehold/internal/batch"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/poll"
	"github.com/leasehold/leasehold/internal/schedule"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
	"github.com/leasehold/leasehold/internal/store/sqlite"
	"github.com/leasehold/leasehold/internal/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answer is what the API said.
type answer struct {
	status int
	header http.Header
	body   string
}

// wholeStore is what tests need of a store, beside what the API does.
type wholeStore interface {
	Store
	lease.Store
	lease.Remote
	poll.Store
	batch.BulkStore
	activity.Store
	schedule.Declarations
	DeclareChunks(ctx context.Context, session task.Session, plans []store.ChunkDeclaration) (store.DeclaredChunks, error)
	ApplyChunks(ctx context.Context, step *store.ChunkStep) (applied bool, err error)
	Migrator() store.Migrator
}

// rig is an API on a store. Every answer is held against the document.
type rig struct {
	t        *testing.T
	api      *API
	store    wholeStore
	contract *contract
	file     string // of SQLite
}

func newRig(t *testing.T, s wholeStore) *rig {
	t.Helper()
	_, err := s.Migrator().Up(t.Context())
	require.NoError(t, err)
	r := &rig{t: t, store: s, contract: newContract(t)}
	r.api = New(Options{
		Store: s, Bulk: batch.NewBulk(s, ops.NamedSignature), Log: slog.New(slog.DiscardHandler),
		Checkups: ops.NewCheckups(s), Histories: &ops.Histories{},
		Configuration: func() ([]store.Block, func(string) string) {
			claims := func(typ string) string { return map[string]string{"invoice.send": "invoice.send"}[typ] }
			return []store.Block{{Kind: "task", Name: "invoice.send", Fields: map[string]string{"timeout": `"40s"`}}}, claims
		},
		CountChunks: func(context.Context, *ops.ChunkProof) (ops.ChunkLeft, error) {
			return ops.ChunkLeft{}, &store.RefusedError{Text: "this agent has no such plan"}
		},
		Trace: func(context.Context, task.ID) (string, error) {
			return "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", nil
		},
	})
	return r
}

// onSQLite makes a rig on a file.
func onSQLite(t *testing.T) *rig {
	t.Helper()
	file := filepath.Join(t.TempDir(), "leasehold.db")
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: file, Create: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	r := newRig(t, s)
	r.file = file
	return r
}

// onPostgres makes a rig on a schema of its own.
func onPostgres(t *testing.T) *rig {
	t.Helper()
	s, err := postgres.Open(t.Context(), postgres.Options{URL: pgtest.URL(t), Schema: pgtest.Schema(t), Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return newRig(t, s)
}

// ask sends a request and checks that the answer, and a body that was taken, are as the document has them. Header are names and
// values in turn.
func (r *rig) ask(method, path, body string, header ...string) answer {
	r.t.Helper()
	var from io.Reader = http.NoBody
	if body != "" {
		from = strings.NewReader(body)
	}
	req := httptest.NewRequestWithContext(r.t.Context(), method, "http://localhost"+Prefix+path, from)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	a := r.raw(req)
	described := req.URL.EscapedPath()
	r.contract.response(r.t, method, described, a)
	if a.status < 300 {
		r.contract.request(r.t, method, described, []byte(body), req.Header.Get("Content-Type"))
	}
	return a
}

// raw sends a request.
func (r *rig) raw(req *http.Request) answer {
	w := httptest.NewRecorder()
	r.api.ServeHTTP(w, req)
	return answer{w.Code, w.Header(), w.Body.String()}
}

// is asks, and checks the status and that the answer has these texts.
func (r *rig) is(status int, method, path, body string, texts ...string) answer {
	r.t.Helper()
	a := r.ask(method, path, body)
	require.Equal(r.t, status, a.status, "%s %s: %s", method, path, a.body)
	for _, text := range texts {
		require.Contains(r.t, a.body, text, "%s %s", method, path)
	}
	return a
}

// policy is that of every type here.
var policy = task.Policy{
	Timeout: time.Minute, Stop: time.Second, Rollback: &task.RollbackPolicy{Timeout: time.Minute, Stop: time.Second},
}

// join has an agent that declares these types.
func (r *rig) join(name string, types ...string) task.Session {
	r.t.Helper()
	a := store.Agent{
		Name: name, Version: "test", Config: "c0ffee", Workers: 4, Types: types, Presence: time.Minute,
		Policies: map[task.PolicyHash]store.NamedPolicy{}, Sequences: []store.TypeSequence{},
	}
	for i, typ := range types {
		a.Policies[task.PolicyHash(i+1)] = store.NamedPolicy{Type: typ, Policy: policy}
		a.Sequences = append(a.Sequences, store.TypeSequence{Type: typ, OnFailure: task.SequenceBlocks})
	}
	session, err := r.store.Join(r.t.Context(), a)
	require.NoError(r.t, err)
	return session
}

// end claims a task of a type, and ends it so.
func (r *rig) end(session task.Session, typ string, state task.State, verdict task.Verdict, reason string) task.ID {
	r.t.Helper()
	var got []task.Task
	require.Eventually(r.t, func() bool {
		var err error
		got, err = r.store.Claim(r.t.Context(), store.Claim{
			Session: session, Number: time.Now().UnixNano(), Pass: &store.Pass{Most: 100},
			Wants: []store.Want{{Type: typ, Phase: task.Run, N: 1, Window: time.Minute, Policy: 1}},
		})
		require.NoError(r.t, err)
		return len(got) == 1
	}, 20*time.Second, 10*time.Millisecond)
	answers, err := r.store.Settle(r.t.Context(), session, []store.Settlement{{
		ID: got[0].ID, Fence: got[0].Fence, RanFence: got[0].Fence, Phase: task.Run, Attempt: 1,
		Next:    task.Transition{State: state, Attempt: 1, EverStarted: true, Reason: reason},
		Outcome: task.Outcome{Verdict: verdict, Error: reason}, CancelKnown: true,
	}})
	require.NoError(r.t, err)
	require.Equal(r.t, []store.Answer{store.Applied}, answers)
	return got[0].ID
}

// openFile opens the file as another program does.
func openFile(t *testing.T, file string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(20000)")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}
