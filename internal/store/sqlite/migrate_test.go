package sqlite

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
)

// empty opens a store on a new file without a schema.
func empty(t *testing.T) *harness {
	t.Helper()
	return openHarness(t, filepath.Join(t.TempDir(), "store.db"), nil)
}

// shape is the schema as it stands in the file.
func shape(t *testing.T, db *sql.DB) (all []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `SELECT type || ' ' || name || ' ' || ifnull(sql, '') FROM sqlite_schema
		WHERE name NOT LIKE 'sqlite_%' ORDER BY type, name`)
	require.NoError(t, err)
	require.NoError(t, eachRow(rows, func(r *sql.Rows) error {
		var text string
		err := r.Scan(&text)
		all = append(all, text)
		return err
	}))
	return all
}

func TestUpDownUp(t *testing.T) {
	t.Parallel()
	h := empty(t)
	m := h.Migrator()
	status, err := m.Status(t.Context())
	require.NoError(t, err)
	require.Len(t, status, version())
	require.Nil(t, status[0].Applied)

	applied, err := m.Up(t.Context())
	require.NoError(t, err)
	require.Len(t, applied, version())
	require.Equal(t, "schema", applied[0].Name)
	first := shape(t, h.app)
	applied, err = m.Up(t.Context())
	require.NoError(t, err)
	require.Empty(t, applied, "all was there")
	status, err = m.Status(t.Context())
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), *status[0].Applied, time.Minute)

	for v := version(); v > 0; v-- {
		reverted, err := m.Down(t.Context())
		require.NoError(t, err)
		require.Equal(t, v, reverted.Version)
		require.Equal(t, shapeAt(t, v-1), shape(t, h.app), "as if the step had never been")
	}
	require.Len(t, shape(t, h.app), 1, "only schema_version stays")
	_, err = m.Down(t.Context())
	require.ErrorAs(t, err, new(*store.SchemaError), "nothing to take back")

	_, err = m.Up(t.Context())
	require.NoError(t, err)
	require.Equal(t, first, shape(t, h.app))
}

// shapeAt is the schema of a file that has come to that version and never further.
func shapeAt(t *testing.T, version int) []string {
	t.Helper()
	h := empty(t)
	require.NoError(t, h.exec(t, createVersions))
	if version > 0 {
		f := readSchema(files)
		f.steps = f.steps[:version]
		_, err := migrator{h.Store, f}.Up(t.Context())
		require.NoError(t, err)
	}
	return shape(t, h.app)
}

func (h *harness) secret(t *testing.T) []byte {
	t.Helper()
	key, err := h.Secret(t.Context())
	require.NoError(t, err)
	require.Len(t, key, 32)
	return key
}

// migratedHarness is newHarness on a file that is no copy.
func migratedHarness(t *testing.T) *harness {
	t.Helper()
	h := openHarness(t, filepath.Join(t.TempDir(), "store.db"), nil)
	_, err := h.Migrator().Up(t.Context())
	require.NoError(t, err)
	return h
}

func TestEachFileHasASecretOfItsOwn(t *testing.T) {
	t.Parallel()
	h := migratedHarness(t)
	require.NotEqual(t, h.secret(t), migratedHarness(t).secret(t))
	require.Equal(t, h.secret(t), openHarness(t, h.path, nil).secret(t))
	require.Error(t, h.exec(t, "INSERT INTO secret (id, key) VALUES (2, x'00')"), "and only one")
}

func TestTheScriptDoesWhatUpDoes(t *testing.T) {
	t.Parallel()
	byUp, byHand := newHarness(t), empty(t)
	script, err := byHand.Migrator().SQL(0)
	require.NoError(t, err)
	require.NoError(t, byHand.exec(t, script))
	require.Equal(t, shape(t, byUp.app), shape(t, byHand.app))
	require.NoError(t, byHand.Ping(t.Context()))
	require.Error(t, byHand.exec(t, script), "it applies once")

	rest, err := byHand.Migrator().SQL(version())
	require.NoError(t, err)
	require.NotContains(t, rest, "CREATE TABLE task")
	for _, wrong := range []int{-1, version() + 1} {
		_, err = byHand.Migrator().SQL(wrong)
		require.ErrorContains(t, err, "there is no version")
	}
}

func TestDownRefusesWhileAgentsArePresent(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	session, err := h.Join(t.Context(), store.Agent{Name: "a", Presence: time.Hour})
	require.NoError(t, err)
	_, err = h.Migrator().Down(t.Context())
	require.ErrorContains(t, err, "agents are present (1): stop them first")
	require.NoError(t, h.Ping(t.Context()))
	require.NoError(t, h.Leave(t.Context(), session))
	_, err = h.Migrator().Down(t.Context())
	require.NoError(t, err)
}

func TestOtherSchemasAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, change string
		have         int
		remedy       string
	}{
		{"none", "DROP TABLE schema_version", 0, "leasehold migrate up"},
		{"older", "DELETE FROM schema_version", 0, "leasehold migrate up"},
		{"newer", "INSERT INTO schema_version (version, name, oldest) VALUES (99, 'future', 99)", 99, "use a newer leasehold"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			require.NoError(t, h.exec(t, c.change))
			_, joined := h.Join(t.Context(), store.Agent{Name: "a", Presence: time.Hour})
			for _, err := range []error{joined, h.Ping(t.Context())} {
				var schema *store.SchemaError
				require.ErrorAs(t, err, &schema)
				require.Equal(t, store.SchemaError{Have: c.have, Oldest: c.have, Want: version()}, *schema)
				require.ErrorContains(t, err, c.remedy)
			}
			require.Equal(t, 0, h.count(t, "SELECT count(*) FROM agent"))
			if c.have > version() {
				_, err := h.Migrator().Up(t.Context())
				require.ErrorAs(t, err, new(*store.SchemaError))
				_, err = h.Migrator().Down(t.Context())
				require.ErrorAs(t, err, new(*store.SchemaError))
			}
		})
	}
}

func TestCallsOnAFileWithoutSchemaNameTheRemedy(t *testing.T) {
	t.Parallel()
	h := empty(t)
	_, err := h.Get(t.Context(), 1)
	require.ErrorAs(t, err, new(*store.SchemaError))
	require.ErrorContains(t, err, "leasehold migrate up")
	require.ErrorAs(t, h.Listen(t.Context(), func(store.News) {}), new(*store.SchemaError))
}

// Ten stores in this process and ten processes meet on a file that is not there yet.
func TestAllMigrateAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	const each = 10
	var wg sync.WaitGroup
	start := make(chan struct{})
	failures := make(chan error, 2*each)
	brought := make(chan int, each)
	for range each {
		wg.Go(func() {
			<-start
			s, err := Open(t.Context(), Options{Path: path, Create: true, Busy: time.Minute})
			if err != nil {
				failures <- err
				return
			}
			applied, err := s.Migrator().Up(t.Context())
			brought <- len(applied)
			for _, err := range []error{err, s.Ping(t.Context()), s.Close()} {
				if err != nil {
					failures <- err
				}
			}
		})
		cmd := childCommand(t, "migrate", path)
		wg.Go(func() {
			<-start
			if out, err := cmd.CombinedOutput(); err != nil {
				failures <- fmt.Errorf("%w: %s", err, out)
			}
		})
	}
	close(start)
	wg.Wait()
	close(failures)
	for err := range failures {
		require.NoError(t, err)
	}
	close(brought)
	total := 0
	for n := range brought {
		total += n
	}
	require.Contains(t, []int{0, version()}, total, "by one of us, or by one of the processes")
	db := application(t, path)
	require.Equal(t, version(), countOn(t, db, "SELECT count(*) FROM schema_version"))
	require.Equal(t, 1, countOn(t, db, "SELECT count(*) FROM wakeup"))
}
