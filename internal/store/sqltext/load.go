package sqltext

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// Queries are the statements of a folder, by name.
type Queries map[string]*Query

// marker starts a statement in a file of several.
const marker = "-- name: "

// Load compiles the statements of all files that match the pattern. A file holds one statement, which has the file's name
// (queries/claim.sql: claim); or several, each below a line "-- name: claim" of its own. It may include pieces of shared.
func Load(files fs.FS, pattern string, d Dialect, shared Shared) (Queries, error) {
	found, err := fs.Glob(files, pattern)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no file matches %s", pattern)
	}
	q := Queries{}
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

func (q Queries) file(file, text string, d Dialect) error {
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

func (q Queries) add(name, text string, d Dialect) error {
	if q[name] != nil {
		return fmt.Errorf("query %s stands here a second time", name)
	}
	compiled, err := Compile(name, text, d)
	if err != nil {
		return err
	}
	q[name] = compiled
	return nil
}

// Map applies f to the text of each statement, as Query.Map does.
func (q Queries) Map(f func(text string) string) {
	for name, one := range q {
		q[name] = one.Map(f)
	}
}

// Into fills a struct of *Query fields: each gets the statement of its name, ClaimDue that of claim_due. It is an error if there
// is no statement for a field, or no field for a statement, which no code could run then.
func (q Queries) Into(statements any) error {
	unused := maps.Clone(q)
	for field, value := range reflect.ValueOf(statements).Elem().Fields() {
		name := snakeCase(field.Name)
		if q[name] == nil {
			return fmt.Errorf("there is no query %s", name)
		}
		delete(unused, name)
		value.Set(reflect.ValueOf(q[name]))
	}
	if len(unused) > 0 {
		return fmt.Errorf("no code runs the queries %v", slices.Sorted(maps.Keys(unused)))
	}
	return nil
}

// snakeCase returns claim_due for ClaimDue.
func snakeCase(name string) string {
	var b strings.Builder
	for i, r := range name {
		if i > 0 && unicode.IsUpper(r) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
