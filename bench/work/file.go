package work

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	_ "modernc.org/sqlite" // the driver that the product has
)

// File is a SQLite file as an application has it open: with write-ahead logging, and with as much care for what is
// committed as the product takes.
type File struct{ DB *sql.DB }

// OpenFile opens the file of a URL like sqlite:PATH, with one connection, and makes it where there is none.
func OpenFile(url string) (*File, error) {
	path, ok := strings.CutPrefix(url, "sqlite:")
	if !ok {
		return nil, fmt.Errorf("%q is no sqlite:PATH", url)
	}
	db, err := sql.Open("sqlite", "file:"+path+"?mode=rwc&_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)"+
		"&_pragma=synchronous(full)&_pragma=temp_store(memory)&_pragma=cache_size(-16000)&_pragma=journal_size_limit(67108864)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return &File{db}, nil
}

// Insert inserts rows into the table task.
func (f *File) Insert(ctx context.Context, rows int) error {
	_, err := f.DB.ExecContext(ctx, `WITH RECURSIVE n (i) AS (SELECT 1 WHERE ?1 > 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
		INSERT INTO task (type, payload) SELECT ?2, ?3 FROM n`, rows, TaskType, Payload)
	if err == nil {
		_, err = f.DB.ExecContext(ctx, `PRAGMA wal_checkpoint(truncate)`)
	}
	return err
}

// Count runs a query that gives one number.
func (f *File) Count(ctx context.Context, query string, args ...any) (n int64, err error) {
	err = f.DB.QueryRowContext(ctx, query, args...).Scan(&n)
	return n, err
}

// Close closes it.
func (f *File) Close() error { return f.DB.Close() }
