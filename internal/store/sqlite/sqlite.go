// Package sqlite is the embedded store: one file, one host, no server. It holds all SQL for SQLite: schema.sql
// has the tables, functions/ the views that applications use like functions, queries/ the statements of this package.
//
// SQLite has one writer. Every call that writes is one short BEGIN IMMEDIATE transaction over many rows on one
// connection; reads have connections of their own and, with write-ahead logging, never wait. A transaction that an
// application leaves open for writing stalls every agent on the file; after a bound the calls fail with an error that
// says so, and go on working once it is over.
//
// A file has no roles: an application that inserts tasks could also update or delete rows of any table here, and
// nothing can stop it. It must not: only the inserts that docs/sql.md names keep the promises. It should set a busy
// timeout (PRAGMA busy_timeout = 5000), since PHP and the sqlite3 shell have none by default and fail at once while an
// agent writes.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	_ "modernc.org/sqlite" // the driver
)

// DefaultBusy is how long a call waits for its turn to write, and for the lock that another process holds.
const DefaultBusy = 5 * time.Second

// readers is how many reads run at once.
const readers = 4

// Options say which file to open and how.
type Options struct {
	Path   string // of the database file
	Create bool   // make the file where there is none, and see to its permissions
	Group  string // a group, by name or number, that may use the file beside its owner; "": none. Without Create nothing is changed
	Log    *slog.Logger
	Clock  func() time.Time // nil: time.Now
	Busy   time.Duration    // how long to wait for the lock that others hold; 0: DefaultBusy
	// Fail, if set, is called at each failpoint; its error has the effect of a crash at that point.
	Fail func(point string) error

	sql *statements // for tests; nil: Open compiles them
}

// Store is an open database file. It implements what the rooms need of a store (lease.Store, poll.Store, ops.Store and so on),
// and is safe for concurrent use.
type Store struct {
	path  string
	log   *slog.Logger
	clock func() time.Time
	busy  time.Duration
	fail  func(string) error
	room  func(path string) (free, size uint64) // of a file system
	file  fs.FileInfo                           // of what is open
	moved atomic.Pointer[error]                 // what has become of it, by the last look; nil: there was none

	access  access
	allowed access // likewise, also of one that has not made the file; its gid is not known

	sql   *statements
	turns *turns
	write *writer
	read  *sql.DB
}

// ParseURL gives the path in a store URL: "sqlite:leasehold.db" (relative to the working directory),
// "sqlite:/var/lib/leasehold.db" or "sqlite:///var/lib/leasehold.db". The path is taken as it stands, without escapes
// or parameters.
func ParseURL(text string) (string, error) {
	path, ok := strings.CutPrefix(text, "sqlite:")
	if !ok {
		return "", fmt.Errorf("store %q is not a SQLite file: write it as sqlite:leasehold.db", text)
	}
	if rest, ok := strings.CutPrefix(path, "//"); ok {
		if !strings.HasPrefix(rest, "/") {
			return "", fmt.Errorf("store %q names a host, and a SQLite store is a file of this one: "+
				"write sqlite: and its path, as in sqlite:leasehold.db", text)
		}
		path = rest
	}
	switch {
	case path == "":
		return "", fmt.Errorf("store %q has no path: write it as sqlite:leasehold.db", text)
	case path == ":memory:":
		return "", fmt.Errorf("store %q ends with its process, and agents share theirs: name a file (sqlite:leasehold.db)", text)
	case strings.ContainsAny(path, "?\x00"):
		return "", fmt.Errorf("store %q has parameters, and SQLite stores take none: write only the path", text)
	}
	return path, nil
}

// Open opens the file, and makes it where o.Create allows that. The schema may be missing: see Migrator. Its errors
// name the path and what is wrong with it.
func Open(ctx context.Context, o Options) (*Store, error) {
	s := &Store{path: o.Path, log: o.Log, clock: o.Clock, busy: o.Busy, fail: o.Fail, room: roomOf, sql: o.sql, turns: newTurns()}
	s.allowed = access{group: o.Group, gid: -1}
	if s.sql == nil {
		s.sql = compileStatements()
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.clock == nil {
		s.clock = time.Now
	}
	if s.busy <= 0 {
		s.busy = DefaultBusy
	}
	if s.fail == nil {
		s.fail = func(string) error { return nil }
	}
	if err := checkPath(o.Path, o.Create); err != nil {
		return nil, err
	}
	if o.Create {
		if err := s.prepareFile(o.Group); err != nil {
			return nil, fmt.Errorf("open store %s: %w", o.Path, err)
		}
	}
	w, err := s.openWriter(ctx)
	if err != nil {
		return nil, err
	}
	s.write = w
	if err := s.identify(); err != nil {
		return nil, errors.Join(fmt.Errorf("open store %s: %w", o.Path, err), w.close())
	}
	if o.Create {
		s.share() // what SQLite has just made, too
		s.warnOfOthers()
	}
	if s.read, err = s.openDB("ro"); err != nil {
		return nil, errors.Join(err, w.close())
	}
	s.read.SetMaxOpenConns(readers)
	s.read.SetMaxIdleConns(readers)
	return s, nil
}

// Close waits for the calls that write or wait to write, which all end within the bound, and closes the file. It fails,
// and leaves the file open, where they do not. A second Close does nothing.
func (s *Store) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*s.busy)
	defer cancel()
	p, err := s.write.enter(ctx, ordinary)
	if errors.Is(err, errClosed) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("close store %s: a call does not end: %w", s.path, err)
	}
	defer p.leave()
	if err := errors.Join(s.read.Close(), s.write.close()); err != nil {
		return fmt.Errorf("close store %s: %w", s.path, err)
	}
	return nil
}

// now is the store's clock, in the resolution that the file keeps.
func (s *Store) now() time.Time { return s.clock().UTC().Truncate(time.Millisecond) }

// checkPath says in plain words what SQLite would only call "unable to open database file".
func checkPath(path string, create bool) error {
	info, err := os.Stat(path)
	switch {
	case path == "":
		return errors.New("open store: no path given: write the store as sqlite:leasehold.db")
	case err == nil && info.IsDir():
		return fmt.Errorf("open store %s: it is a directory: name a file in it", path)
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("open store %s: %w", path, err)
	}
	if link, err := os.Lstat(path); err == nil {
		if link.Mode()&fs.ModeSymlink == 0 {
			return nil // another process has created it meanwhile
		}
		return fmt.Errorf("open store %s: it is a symbolic link to a file that does not exist: name that file", path)
	}
	dir := filepath.Dir(path)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Errorf("open store %s: there is no directory %s: create it first", path, dir)
	}
	if !create {
		return fmt.Errorf("open store %s: there is no such file: `leasehold dev` and `leasehold run` create it; "+
			"use --store for another store", path)
	}
	return nil
}

// prepareFile makes the file where there is none. SQLite itself never does: it would make it for everyone to read.
func (s *Store) prepareFile(group string) (err error) {
	if s.access, err = accessFor(group); err != nil {
		return err
	}
	return s.access.create(s.path)
}

// openDB makes a handle on the file; it connects when it is first used. mode is ro or rw
// (https://sqlite.org/uri.html).
func (s *Store) openDB(mode string, pragmas ...string) (*sql.DB, error) {
	path, err := filepath.Abs(s.path)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", s.path, err)
	}
	q := url.Values{"mode": {mode}, "_dqs": {"0"}, "_error_rc": {"1"}}
	q["_pragma"] = append([]string{
		fmt.Sprintf("busy_timeout(%d)", s.busy.Milliseconds()),
		"synchronous(full)", // a claim that a crash takes back would hand its fence out again
		"temp_store(memory)",
		"cache_size(-16000)", // KiB
	}, pragmas...)
	u := url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", s.path, err)
	}
	return db, nil
}
