package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
)

// migrator is our own rather than goose: the schema's name is a parameter of every file, the book of versions stands
// inside that schema, the steps are printed as one script, and the lock belongs to the transaction, so that it works
// through a pooler where goose's session lock would stay behind on some connection. All steps of an Up commit at once.
type migrator struct{ s *Store }

func (m migrator) layout() (*layout, error) { return readLayout(m.s.files, m.s.schema) }

// oldest is the least server version that the statements need, as server_version_num gives it.
const oldest = 140000

// The path of a session in which a script is run by hand, or of one through a pooler, may lead to impostors: what the
// steps name without a schema is pg_catalog's.
const pinPath = `SET LOCAL search_path = ` + searchPath

// Up brings the schema to the binary's version in one transaction. It takes no lock where there is nothing to do. Others that
// do the same wait for it, and find it done.
func (m migrator) Up(ctx context.Context) ([]store.Migration, error) {
	for again := 0; ; again++ {
		applied, err := m.up(ctx)
		// Who came first has made the schema, or its book, and with that everything else.
		if c := code(err); again < 10 && (c == codeUnique || c == codeSchema || c == codeTable) {
			continue
		}
		return applied, err
	}
}

func (m migrator) up(ctx context.Context) ([]store.Migration, error) {
	var applied []store.Migration
	look := func(ctx context.Context, q querier, l *layout) (bool, error) {
		n, err := m.missing(ctx, q, l)
		return n > 0, err
	}
	err := m.change(ctx, "migrate up", look, func(tx pgx.Tx, l *layout) error {
		n, err := m.missing(ctx, tx, l)
		if err != nil || n == 0 {
			return err
		}
		have := len(l.steps) - n
		for _, one := range l.from(have) {
			if _, err := tx.Exec(ctx, one.text); err != nil {
				return fmt.Errorf("%s: %w", one.name, err)
			}
		}
		for _, st := range l.steps[have:] {
			if _, err := tx.Exec(ctx, m.record(st)); err != nil {
				return err
			}
			now := time.Now().UTC()
			st.Applied = &now
			applied = append(applied, st.Migration)
		}
		return m.keepMaxPayload(ctx, tx)
	})
	if err != nil {
		return nil, err
	}
	return applied, nil
}

// missing returns how many steps are to be applied.
func (m migrator) missing(ctx context.Context, q querier, l *layout) (steps int, err error) {
	have, err := m.s.version(ctx, q)
	if err != nil {
		return 0, err
	}
	return have.Missing(len(l.steps))
}

// deadlocks is how many changes of the schema in a row may end in a deadlock. Each has waited for the server's
// deadlock_timeout, 1 s, and has changed nothing.
const deadlocks = 10

var errNothing = errors.New("there is nothing to take back")

// Down takes back the newest step, unless a session is present.
func (m migrator) Down(ctx context.Context) (store.Migration, error) {
	var taken store.Migration
	look := func(ctx context.Context, q querier, _ *layout) (bool, error) {
		have, err := m.s.version(ctx, q)
		if err == nil && have.Version == 0 {
			err = errNothing
		}
		return true, err
	}
	err := m.change(ctx, "migrate down", look, func(tx pgx.Tx, l *layout) error {
		have, err := m.s.version(ctx, tx)
		if err == nil {
			err = have.KnownTo(len(l.steps))
		}
		if err == nil && have.Version == 0 {
			err = errNothing
		}
		if err != nil {
			return err
		}
		var present int
		if err := exec(ctx, tx, m.s.sql.LockSessions); err != nil {
			return err
		}
		if err := queryRow(ctx, tx, m.s.sql.CountSessions).Scan(&present); err != nil {
			return err
		}
		if present > 0 {
			return fmt.Errorf("%d agents are present: stop them first", present)
		}
		newest := l.steps[have.Version-1]
		taken = newest.Migration
		if _, err := tx.Exec(ctx, newest.down); err != nil {
			return fmt.Errorf("version %d (%s): %w", taken.Version, taken.Name, err)
		}
		return queryRow(ctx, tx, m.s.sql.ForgetStep, arg("version", have.Version)).Scan(&taken.Applied)
	})
	return taken, err
}

// Schema reads the schema's version and range.
func (m migrator) Schema(ctx context.Context) (have store.Schema, err error) {
	err = m.s.do(ctx, "read the schema's version", func(ctx context.Context, c *pgx.Conn) error {
		have, err = m.s.version(ctx, c)
		return err
	})
	return have, err
}

// Status lists all steps that the binary knows.
func (m migrator) Status(ctx context.Context) ([]store.Migration, error) {
	l, err := m.layout()
	if err != nil {
		return nil, err
	}
	at := map[int]time.Time{}
	err = m.s.do(ctx, "read the schema's version", func(ctx context.Context, c *pgx.Conn) error {
		var v int
		var t time.Time
		return forEach(ctx, c, []any{&v, &t}, func() error { at[v] = t; return nil }, m.s.sql.AppliedSteps)
	})
	if err != nil && !missing(err) {
		return nil, err
	}
	list := make([]store.Migration, len(l.steps))
	for i, st := range l.steps {
		list[i] = st.Migration
		if t, there := at[st.Version]; there {
			list[i].Applied = &t
		}
	}
	return list, nil
}

// SQL is the text of the steps after version from, as one transaction.
func (m migrator) SQL(from int) (string, error) {
	l, err := m.layout()
	if err != nil {
		return "", err
	}
	if from < 0 || from > len(l.steps) {
		return "", fmt.Errorf("version %d is not within 0..%d", from, len(l.steps))
	}
	var b strings.Builder
	b.WriteString("BEGIN;\n" + pinPath + ";\n" + lockTimeout(m.s.waits.step) + ";\n")
	if from == 0 {
		b.WriteString(m.s.schema.fill("CREATE SCHEMA IF NOT EXISTS {schema};\n") + m.s.sql.CreateBook.Text + ";\n")
	}
	b.WriteString(m.s.sql.LockBook.Text + ";\n")
	for _, one := range l.from(from) {
		fmt.Fprintf(&b, "\n-- %s\n%s", one.name, one.text)
	}
	for _, st := range l.steps[from:] {
		b.WriteString("\n" + m.record(st) + ";\n")
	}
	b.WriteString("COMMIT;\n")
	return b.String(), nil
}

func (m migrator) record(st step) string {
	return strings.NewReplacer("{version}", strconv.Itoa(st.Version), "{name}", quoteLiteral(st.Name), "{oldest}", strconv.Itoa(st.Oldest)).
		Replace(m.s.sql.RecordStep.Text) // the schema's name has no braces
}

// change runs f in a transaction that is the only one to change the schema, unless look, which comes before any lock, finds
// that there is nothing to do. Each wait for a lock has a bound, and its error says who held it.
func (m migrator) change(
	ctx context.Context, what string, look func(context.Context, querier, *layout) (bool, error), f func(pgx.Tx, *layout) error,
) error {
	l, err := m.layout()
	if err != nil {
		return err
	}
	for again := 1; ; again++ {
		err = m.s.with(ctx, m.s.pool, what, migrateTimeout, func(ctx context.Context, c *pgx.Conn) error {
			if need, err := look(ctx, c, l); err != nil || !need {
				return err
			}
			return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
				var pid uint32
				if err := tx.QueryRow(ctx, "SELECT pg_catalog.pg_backend_pid()").Scan(&pid); err != nil {
					return err
				}
				return m.s.naming(ctx, pid, func() error {
					if err := m.alone(ctx, tx); err != nil {
						return err
					}
					return f(tx, l)
				})
			})
		})
		if code(err) != codeDeadlock || again == deadlocks {
			return m.explain(ctx, err)
		}
	}
}

// alone makes the schema and the book of versions where they are not there yet, and locks the book: of those that make
// either at once one does, and the others wait for it and fail.
func (m migrator) alone(ctx context.Context, tx pgx.Tx) error {
	// A step may take longer than a statement of the hot path.
	limit := fmt.Sprintf("SET LOCAL statement_timeout = '%ds'", int(migrateTimeout.Seconds()))
	if _, err := tx.Exec(ctx, limit+"; "+pinPath+"; "+lockTimeout(m.s.waits.schema)); err != nil {
		return err
	}
	if err := m.prepare(ctx, tx); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, m.s.sql.LockBook.Text+"; "+lockTimeout(m.s.waits.step))
	return err
}

// prepare makes the schema and the book of versions where they are not there yet. CREATE … IF NOT EXISTS asks for the right
// to create it even where it exists.
func (m migrator) prepare(ctx context.Context, tx pgx.Tx) error {
	var server int
	var there, book bool
	found := queryRow(ctx, tx, m.s.sql.Server,
		arg("schema", string(m.s.schema)), arg("book", m.s.schema.fill("{schema}.schema_version")))
	if err := found.Scan(&server, &there, &book); err != nil {
		return err
	}
	if server < oldest {
		return fmt.Errorf("the server is Postgres %d, and 14 is the oldest that will do", server/10000)
	}
	if !there {
		if _, err := tx.Exec(ctx, m.s.schema.fill("CREATE SCHEMA {schema}")); err != nil {
			return err
		}
	}
	if book {
		return nil
	}
	return exec(ctx, tx, m.s.sql.CreateBook)
}

// version reads the schema's version and range; the zero value where there is none.
func (s *Store) version(ctx context.Context, q querier) (have store.Schema, err error) {
	if !s.hasBook.Load() {
		var there bool
		err := queryRow(ctx, q, s.sql.IsBook, arg("book", s.schema.fill("{schema}.schema_version"))).Scan(&there)
		if err != nil || !there {
			return store.Schema{}, err
		}
	}
	err = queryRow(ctx, q, s.sql.SchemaVersion).Scan(&have.Version, &have.Oldest)
	if missing(err) {
		return store.Schema{}, nil
	}
	if err == nil {
		s.hasBook.Store(true)
	}
	return have, err
}
