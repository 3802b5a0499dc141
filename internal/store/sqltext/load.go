package sqltext

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// Queries are the statements of a folder, by name.
type Queries struct {
	all   map[string]Query
	taken map[string]bool
}

// marker starts a statement in a file of several.
const marker = "-- name: "

// Load compiles the statements of all files that match the pattern. A file holds one statement, which has the file's name
// (queries/claim.sql: claim); or several, each below a line "-- name: claim" of its own. It may include pieces of shared.
func Load(files fs.FS, pattern string, d Dialect, shared Shared) (*Queries, error) {
	found, err := fs.Glob(files, pattern)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no file matches %s", pattern)
	}
	q := &Queries{all: map[string]Query{}, taken: map[string]bool{}}
	for _, file := range found {
		text, err := fs.ReadFile(files, file)
		if err != nil {
			return nil, err
		}
		if err := q.file(file, shared.Expand(string(text)), d); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return q, nil
}

func (q *Queries) file(file, text string, d Dialect) error {
	if !strings.Contains("\n"+text, "\n"+marker) {
		return q.add(strings.TrimSuffix(path.Base(file), ".sql"), text, d)
	}
	head, rest, _ := strings.Cut("\n"+text, "\n"+marker)
	if _, err := Compile("head", head, d); err == nil {
		return errors.New("a statement stands before the first name")
	}
	for part := range strings.SplitSeq(rest, "\n"+marker) {
		name, text, _ := strings.Cut(part, "\n")
		if err := q.add(strings.TrimSpace(name), text, d); err != nil {
			return err
		}
	}
	return nil
}

func (q *Queries) add(name, text string, d Dialect) error {
	if _, twice := q.all[name]; twice {
		return fmt.Errorf("query %s stands here a second time", name)
	}
	compiled, err := Compile(name, text, d)
	if err != nil {
		return err
	}
	q.all[name] = compiled
	return nil
}

// Take returns a statement. It panics where there is none of the name: the names are constants of the program.
func (q *Queries) Take(name string) *Query {
	one, ok := q.all[name]
	if !ok {
		panic("sqltext: no query " + name)
	}
	q.taken[name] = true
	return &one
}

// Untaken lists the statements that were never taken, sorted: files that no code uses.
func (q *Queries) Untaken() []string {
	names := slices.Sorted(maps.Keys(q.all))
	return slices.DeleteFunc(names, func(name string) bool { return q.taken[name] })
}
