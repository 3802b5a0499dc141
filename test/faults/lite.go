//go:build linux

package faults

import (
	"context"
	"database/sql"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/faults/effect"
	"github.com/leasehold/leasehold/test/faults/script"
)

// lite is a SQLite file that takes statements written for PostgreSQL. Each error of it says that nothing has happened: there
// is no connection that could lose a reply.
type lite struct{ db *sql.DB }

func openLite(t testing.TB, path string) *lite {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(5000)") // the test imports the driver
	require.NoError(t, err)
	return &lite{db}
}

// Begin starts a transaction that may write.
func (l *lite) Begin(ctx context.Context) (pgx.Tx, error) {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, effect.Local{Err: err}
	}
	return liteTx{tx: tx}, nil
}

// Exec runs statements.
func (l *lite) Exec(ctx context.Context, text string, args ...any) (pgconn.CommandTag, error) {
	return liteExec(ctx, l.db, text, args)
}

// QueryRow returns one row: of a function its answer.
func (l *lite) QueryRow(ctx context.Context, text string, args ...any) pgx.Row {
	view := functionCall.FindStringSubmatch(text)
	if view == nil {
		return liteRow{l.db.QueryRowContext(ctx, liteSQL(text), liteArgs(args)...)}
	}
	tx, err := l.Begin(ctx)
	if err != nil {
		return failed{err}
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if _, err := tx.Exec(ctx, text, args...); err != nil {
		return failed{err}
	}
	var answer string
	if err := tx.QueryRow(ctx, `SELECT answer FROM `+view[1]+` WHERE id = $1`, args[0]).Scan(&answer); err != nil {
		return failed{err}
	}
	if err := tx.Commit(ctx); err != nil {
		return failed{err}
	}
	return answered(answer)
}

// Query returns rows.
func (l *lite) Query(ctx context.Context, text string, args ...any) (pgx.Rows, error) {
	rows, err := l.db.QueryContext(ctx, liteSQL(text), liteArgs(args)...) //nolint:rowserrcheck // the caller does
	if err != nil {
		return nil, effect.Local{Err: err}
	}
	return liteRows{rows: rows}, nil
}

// Close closes the file.
func (l *lite) Close() { _ = l.db.Close() } // what was committed is there

// liteTx is what the suite needs of a transaction.
type liteTx struct {
	pgx.Tx // nil
	tx     *sql.Tx
}

func (t liteTx) Exec(ctx context.Context, text string, args ...any) (pgconn.CommandTag, error) {
	return liteExec(ctx, t.tx, text, args)
}

func (t liteTx) QueryRow(ctx context.Context, text string, args ...any) pgx.Row {
	return liteRow{t.tx.QueryRowContext(ctx, liteSQL(text), liteArgs(args)...)}
}

func (t liteTx) Commit(context.Context) error   { return local(t.tx.Commit()) }
func (t liteTx) Rollback(context.Context) error { return local(t.tx.Rollback()) }

// liteRows is what the suite needs of rows.
type liteRows struct {
	pgx.Rows // nil
	rows     *sql.Rows
}

func (r liteRows) Next() bool           { return r.rows.Next() }
func (r liteRows) Err() error           { return local(r.rows.Err()) }
func (r liteRows) Close()               { _ = r.rows.Close() } // Err has what went wrong
func (r liteRows) Scan(to ...any) error { return local(r.rows.Scan(liteTargets(to)...)) }

type liteRow struct{ row *sql.Row }

func (r liteRow) Scan(to ...any) error { return local(r.row.Scan(liteTargets(to)...)) }

// failed is a row that could not be read.
type failed struct{ err error }

func (f failed) Scan(...any) error { return f.err }

// answered is the row of a function's answer.
type answered string

func (a answered) Scan(to ...any) error {
	*to[0].(*string) = string(a)
	return nil
}

func local(err error) error {
	if err != nil {
		err = effect.Local{Err: err}
	}
	return err
}

type liteConn interface {
	ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error)
}

func liteExec(ctx context.Context, c liteConn, text string, args []any) (tag pgconn.CommandTag, err error) {
	if strings.HasPrefix(text, "SET ") {
		return tag, nil // a setting of PostgreSQL's
	}
	done, err := c.ExecContext(ctx, liteSQL(text), liteArgs(args)...)
	if err != nil {
		return tag, effect.Local{Err: err}
	}
	if n, err := done.RowsAffected(); err == nil && n > 0 {
		tag = pgconn.NewCommandTag("INSERT 0 1")
	}
	return tag, nil
}

var (
	functionCall = regexp.MustCompile(`^SELECT leasehold\.(\w+)\(([^()]*)\)$`)
	cast         = regexp.MustCompile(`::\w+(\[\])?`)
)

// liteSQL translates a statement. The functions of PostgreSQL are views here.
func liteSQL(text string) string {
	if call := functionCall.FindStringSubmatch(text); call != nil {
		columns := []string{"id", "fence", map[string]string{"complete": "result", "ping": "message"}[call[1]]}
		return "INSERT INTO " + call[1] + " (" + strings.Join(columns[:strings.Count(call[2], "$")], ", ") + ") VALUES (" + call[2] + ")"
	}
	return strings.NewReplacer(
		"leasehold.", "", "SELECT FROM", "SELECT 1 FROM", "= ANY ($1)", "IN (SELECT value FROM json_each($1))",
	).Replace(cast.ReplaceAllString(text, ""))
}

// liteArgs are arguments as a SQLite store has them.
func liteArgs(args []any) []any {
	all := make([]any, len(args))
	for i, a := range args {
		switch v := a.(type) {
		case *time.Time:
			if a = nil; v != nil {
				a = v.UTC().Format("2006-01-02T15:04:05.000Z")
			}
		case time.Time:
			a = v.UTC().Format("2006-01-02T15:04:05.000Z")
		case []byte:
			if a = nil; v != nil {
				a = string(v)
			}
		case []int64:
			if a = nil; len(v) > 0 {
				a = jsonText(v)
			}
		case []string, script.Payload:
			a = jsonText(v)
		}
		all[i] = a
	}
	return all
}

func jsonText(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // these are strings and numbers
	}
	return string(text)
}

// liteTargets are what database/sql can scan into.
func liteTargets(to []any) []any {
	all := make([]any, len(to))
	for i, v := range to {
		if raw, ok := v.(*json.RawMessage); ok {
			v = (*[]byte)(raw)
		}
		all[i] = v
	}
	return all
}

// liteTables are the tables of effect.Table and journalSQL.
const liteTables = `
CREATE TABLE fired (schedule TEXT, slot TEXT) STRICT;
CREATE TRIGGER fired AFTER INSERT ON task WHEN NEW.type = '` + kindTick + `' BEGIN
    INSERT INTO fired SELECT substr(NEW.created_by, 10), json_extract(NEW.payload, '$.slot');
    DELETE FROM task WHERE id = NEW.id;
END;
CREATE TABLE grave (serial INTEGER PRIMARY KEY AUTOINCREMENT, id INTEGER, state TEXT) STRICT;
CREATE TRIGGER grave AFTER INSERT ON task WHEN NEW.type = '` + kindGrave + `' BEGIN
    INSERT INTO grave (id, state) VALUES (json_extract(NEW.payload, '$.id'), json_extract(NEW.payload, '$.state'));
    DELETE FROM task WHERE id = NEW.id;
END;
CREATE TABLE effect (
    serial INTEGER PRIMARY KEY AUTOINCREMENT, id INTEGER NOT NULL, fence INTEGER NOT NULL, phase TEXT NOT NULL,
    rolls_back INTEGER NOT NULL, who TEXT NOT NULL) STRICT;
CREATE INDEX effect_id ON effect (id);
CREATE TABLE step (serial INTEGER NOT NULL);
INSERT INTO step VALUES (0);
CREATE TABLE journal (
    serial INTEGER PRIMARY KEY, id INTEGER, batch INTEGER, state TEXT, fence INTEGER, attempt INTEGER, round INTEGER,
    ever_started INTEGER, outcome TEXT, cause TEXT, archived INTEGER, type TEXT) STRICT;
CREATE TABLE journal_batch (
    serial INTEGER PRIMARY KEY, id INTEGER, round INTEGER, sealed INTEGER, stopping INTEGER, ended INTEGER,
    requested TEXT, by_failure INTEGER) STRICT;

CREATE TRIGGER journal_new AFTER INSERT ON task
    WHEN NEW.type NOT IN ('` + kindTick + `', '` + kindGrave + `') AND NOT (NEW.type = '` + kindFollow + `' AND NEW.key IS NULL) BEGIN -- what enqueue checks
    UPDATE step SET serial = serial + 1;
    INSERT INTO journal SELECT serial, NEW.id, NEW.batch_id, NEW.state, NEW.fence, NEW.attempt, NEW.round, NEW.ever_started, NEW.outcome,
        NEW.cause, 0, NEW.type FROM step;
END;
CREATE TRIGGER journal_moved AFTER UPDATE ON task WHEN OLD.state <> NEW.state OR OLD.fence <> NEW.fence BEGIN
    UPDATE step SET serial = serial + 1;
    INSERT INTO journal SELECT serial, NEW.id, NEW.batch_id, NEW.state, NEW.fence, NEW.attempt, NEW.round, NEW.ever_started, NEW.outcome,
        NEW.cause, 0, NEW.type FROM step;
END;
CREATE TRIGGER journal_ended AFTER INSERT ON task_archive BEGIN
    UPDATE step SET serial = serial + 1;
    INSERT INTO journal SELECT serial, NEW.id, NEW.batch_id, NEW.state, NEW.fence, NEW.attempt, NEW.round, NEW.ever_started, NEW.outcome,
        NEW.cause, 1, NEW.type FROM step;
END;
CREATE TABLE journal_type (serial INTEGER PRIMARY KEY, id INTEGER, old TEXT, new TEXT) STRICT;
CREATE TRIGGER journal_type AFTER UPDATE OF type ON task WHEN OLD.type <> NEW.type BEGIN
    UPDATE step SET serial = serial + 1;
    INSERT INTO journal_type SELECT serial, NEW.id, OLD.type, NEW.type FROM step;
END;
CREATE TABLE journal_limit (serial INTEGER PRIMARY KEY, type TEXT, name TEXT, most INTEGER) STRICT;
CREATE TRIGGER journal_limit_new AFTER INSERT ON type_limit BEGIN
    UPDATE step SET serial = serial + 1;
    INSERT INTO journal_limit SELECT serial, NEW.type, NEW.name, NEW.most FROM step;
END;
CREATE TRIGGER journal_limit_moved AFTER UPDATE ON type_limit WHEN (OLD.name, OLD.most) IS NOT (NEW.name, NEW.most) BEGIN
    UPDATE step SET serial = serial + 1;
    INSERT INTO journal_limit SELECT serial, NEW.type, NEW.name, NEW.most FROM step;
END;
CREATE TRIGGER journal_limit_gone AFTER DELETE ON type_limit BEGIN
    UPDATE step SET serial = serial + 1;
    INSERT INTO journal_limit SELECT serial, OLD.type, NULL, NULL FROM step;
END;
CREATE TABLE lease_step (serial INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, fence INTEGER, holder TEXT, what TEXT) STRICT;
CREATE TRIGGER lease_step_taken AFTER INSERT ON lease BEGIN
    INSERT INTO lease_step (name, fence, holder, what) VALUES (NEW.name, NEW.fence, NEW.holder, 'taken');
END;
CREATE TRIGGER lease_step_moved AFTER UPDATE ON lease WHEN (OLD.fence, OLD.holder) IS NOT (NEW.fence, NEW.holder) BEGIN
    INSERT INTO lease_step (name, fence, holder, what) VALUES (NEW.name, NEW.fence, NEW.holder, 'taken');
END;
CREATE TRIGGER lease_step_free AFTER DELETE ON lease BEGIN
    INSERT INTO lease_step (name, fence, holder, what) VALUES (OLD.name, OLD.fence, OLD.holder, 'free');
END;
CREATE TRIGGER journal_batch_new AFTER INSERT ON batch BEGIN
    UPDATE step SET serial = serial + 1;
    INSERT INTO journal_batch SELECT serial, NEW.id, NEW.round, NEW.sealed, NEW.stopping, NEW.ended_at IS NOT NULL, NEW.requested,
        NEW.by_failure FROM step;
END;
CREATE TRIGGER journal_batch_moved AFTER UPDATE ON batch
    WHEN (OLD.round, OLD.sealed, OLD.stopping, OLD.ended_at, OLD.requested) IS NOT
         (NEW.round, NEW.sealed, NEW.stopping, NEW.ended_at, NEW.requested) BEGIN
    UPDATE step SET serial = serial + 1;
    INSERT INTO journal_batch SELECT serial, NEW.id, NEW.round, NEW.sealed, NEW.stopping, NEW.ended_at IS NOT NULL, NEW.requested,
        NEW.by_failure FROM step;
END;
`
