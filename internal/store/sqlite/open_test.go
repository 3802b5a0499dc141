package sqlite

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
)

func TestParseURL(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ url, path, wrong string }{
		{url: "sqlite:leasehold.db", path: "leasehold.db"},
		{url: "sqlite:../my tasks #1 100%.db", path: "../my tasks #1 100%.db"},
		{url: "sqlite:/var/lib/leasehold.db", path: "/var/lib/leasehold.db"},
		{url: "sqlite:///var/lib/leasehold.db", path: "/var/lib/leasehold.db"},
		{url: "sqlite:", wrong: "has no path"},
		{url: "sqlite://", wrong: "names a host"},
		{url: "sqlite://leasehold.db", wrong: "as in sqlite:leasehold.db"},
		{url: "sqlite::memory:", wrong: "name a file"},
		{url: "sqlite:a.db?mode=ro", wrong: "write only the path"},
		{url: "postgres://db/x", wrong: "is not a SQLite file"},
		{url: "leasehold.db", wrong: "sqlite:leasehold.db"},
		{url: "", wrong: "sqlite:leasehold.db"},
	} {
		path, err := ParseURL(c.url)
		if c.wrong != "" {
			require.ErrorContains(t, err, c.wrong, c.url)
			continue
		}
		require.NoError(t, err, c.url)
		require.Equal(t, c.path, path)
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := filepath.Join(dir, "notes.txt")
	require.NoError(t, os.WriteFile(text, []byte("These are my notes, and not at all a database of any kind.\n"), 0o600))
	cut := filepath.Join(dir, "cut.db")
	require.NoError(t, os.WriteFile(cut, []byte("SQLite format 3\x00"+strings.Repeat("nonsense", 20)), 0o600))
	for _, c := range []struct {
		name, path string
		create     bool
		wrong      string
	}{
		{"no path", "", true, "write the store as sqlite:leasehold.db"},
		{"no file", filepath.Join(dir, "none.db"), false, "`leasehold dev` and `leasehold run` create it"},
		{"no directory", filepath.Join(dir, "none", "a.db"), true, "there is no directory " + filepath.Join(dir, "none")},
		{"a directory", dir, true, "it is a directory"},
		{"below a file", filepath.Join(text, "a.db"), true, "not a directory"},
		{"a text", text, false, "the file is not a SQLite database"},
		{"a text, to be made", text, true, "the file is not a SQLite database"},
		{"a damaged file", cut, true, "cut.db"},
	} {
		_, err := Open(t.Context(), Options{Path: c.path, Create: c.create})
		require.ErrorContains(t, err, c.wrong, c.name)
		require.ErrorContains(t, err, c.path, c.name)
	}
	require.NoFileExists(t, filepath.Join(dir, "none.db"))
	content, err := os.ReadFile(text)
	require.NoError(t, err)
	require.Contains(t, string(content), "my notes", "it is left as it was")
}

func TestOddNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"a b.db", "50%41.db", "a#b.db", "ä;ö&=.db", "-wal"} {
		h := openMigrated(t, filepath.Join(dir, name))
		require.FileExists(t, filepath.Join(dir, name))
		_, answer, err := h.Enqueue(t.Context(), store.EnqueueRequest{Type: "x"})
		require.NoError(t, err)
		require.Equal(t, store.EnqueuedInserted, answer)
	}
}

func openMigrated(t *testing.T, path string) *Store {
	t.Helper()
	s := open(t, Options{Path: path, Create: true})
	_, err := s.Migrator().Up(t.Context())
	require.NoError(t, err)
	return s
}

func TestTheFileKeepsWhatIsCommitted(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2"} {
		var got string
		require.NoError(t, h.write.conn.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got))
		require.Equal(t, want, got, pragma)
	}
	_, err := h.read.ExecContext(t.Context(), "DELETE FROM task")
	require.ErrorContains(t, err, "readonly", "reads cannot write")
}

func TestAClosedStoreSaysSo(t *testing.T) {
	t.Parallel()
	s := openMigrated(t, filepath.Join(t.TempDir(), "store.db"))
	_, _, err := s.Enqueue(t.Context(), store.EnqueueRequest{Type: "x"})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	_, _, err = s.Enqueue(t.Context(), store.EnqueueRequest{Type: "x"})
	require.ErrorContains(t, err, "is closed")
	require.ErrorContains(t, s.Ping(t.Context()), "is closed")
	require.NoError(t, s.Close(), "again")
}

func TestTheClockIsTheStores(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 2, 3, 4, 5, 678_912_345, time.FixedZone("", 8*60*60))
	s := open(t, Options{Path: filepath.Join(t.TempDir(), "store.db"), Create: true, Clock: func() time.Time { return now }})
	_, err := s.Migrator().Up(t.Context())
	require.NoError(t, err)
	st, err := s.Present(t.Context(), store.Heartbeat{Session: 5, Agent: store.Agent{Name: "a", Presence: time.Hour}})
	require.NoError(t, err)
	require.Equal(t, time.Date(2030, 1, 1, 19, 4, 5, 678e6, time.UTC), st.Now, "in UTC, to the millisecond")
	id, _, err := s.Enqueue(t.Context(), store.EnqueueRequest{Type: "x", In: time.Second})
	require.NoError(t, err)
	info, err := s.Get(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, st.Now, info.CreatedAt)
	require.Equal(t, st.Now.Add(time.Second), info.RunAt)
}

// What a subprocess prints may be anything.
func TestOddTextComesBack(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	session, err := h.Join(t.Context(), store.Agent{Name: "a", Presence: time.Hour})
	require.NoError(t, err)
	h.Insert(t, store.EnqueueRequest{Type: "x"})
	tasks, err := h.Claim(t.Context(), claimOf(session, 1))
	require.NoError(t, err)
	end := succeeded(tasks[0])
	end.Outcome.Output = "a\x00b\xff\u2028\r\n'"
	_, err = h.Settle(t.Context(), session, []store.Settlement{end})
	require.NoError(t, err)
	info, err := h.Get(t.Context(), tasks[0].ID)
	require.NoError(t, err)
	require.Equal(t, end.Outcome.Output, info.Output)
}
