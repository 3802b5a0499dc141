package rig

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/leasehold/leasehold/bench/work"
)

// file is a SQLite file in a directory of its own. There is no server to ask for counters.
type file struct{ dir string }

func newFile() (*file, error) {
	dir, err := os.MkdirTemp("", "leasehold-bench-")
	return &file{dir}, err
}

// URL is sqlite: and its path.
func (f *file) URL() string { return "sqlite:" + filepath.Join(f.dir, "bench.db") }

// Read gives nothing.
func (*file) Read(context.Context) (Counters, error) { return Counters{Statements: -1}, nil }

// Count counts.
func (f *file) Count(ctx context.Context, sql string, args ...any) (n int64, err error) {
	db, err := work.OpenFile(f.URL())
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return db.Count(ctx, sql, args...)
}

// Drop removes the file.
func (f *file) Drop(context.Context) error { return os.RemoveAll(f.dir) }

// fileProducer inserts as an application does.
type fileProducer struct{ db *work.File }

// FileProducer makes producers for a SQLite file's table task.
func FileProducer(ctx context.Context, url string) (Producer, error) {
	db, err := work.OpenFile(url)
	if err != nil {
		return nil, err
	}
	return fileProducer{db}, db.DB.PingContext(ctx)
}

// Insert inserts one row.
func (p fileProducer) Insert(ctx context.Context, payload string) error {
	_, err := p.db.DB.ExecContext(ctx, `INSERT INTO task (type, payload) VALUES (?, ?)`, work.TaskType, payload)
	return err
}

// Close closes it.
func (p fileProducer) Close() { _ = p.db.Close() } // nothing is lost with it
