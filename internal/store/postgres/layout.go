package postgres

import (
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/leasehold/leasehold/internal/store"
)

//go:embed schema.sql functions/*.sql triggers.sql drop.sql migrations
var schemaFiles embed.FS

// layout is the schema as files: what makes it, and the steps that lead to it from an older version.
type layout struct {
	schema    string // tables, indexes and views
	functions string // all of them, re-creatable
	triggers  string
	steps     []step // version 1, which is all of the above, and what follows it; from version 1 on without gaps
}

type step struct {
	store.Migration
	up, down string // up of version 1 is empty: no store is older
}

// readLayout reads the files, with the schema's name filled in.
func readLayout(files fs.FS, sc schema) (*layout, error) {
	shared, failed := sharedText()
	read := func(name string) string {
		text, err := fs.ReadFile(files, name)
		if err != nil && failed == nil {
			failed = err
		}
		return sc.fill(shared.Expand(strings.TrimSpace(string(text)))) + "\n"
	}
	functions, err := fs.Glob(files, "functions/*.sql") // sorted
	if err != nil {
		return nil, err
	}
	later, err := fs.Glob(files, "migrations/*.up.sql")
	if err != nil {
		return nil, err
	}
	l := &layout{schema: read("schema.sql"), triggers: read("triggers.sql")}
	texts := make([]string, len(functions))
	for i, name := range functions {
		texts[i] = read(name)
	}
	l.functions = strings.Join(texts, "\n")
	l.steps = []step{{Migration: store.Migration{Version: 1, Name: "schema", Oldest: 1}, down: read("drop.sql")}}
	for _, file := range later {
		base := strings.TrimSuffix(file, ".up.sql")
		version := len(l.steps) + 1
		number, name, _ := strings.Cut(strings.TrimPrefix(base, "migrations/"), "_")
		if v, err := strconv.Atoi(number); err != nil || v != version {
			return nil, fmt.Errorf("migration %s: the number should be %04d", file, version)
		}
		up := read(file)
		oldest, err := store.DeclaredOldest(up, version, l.steps[version-2].Oldest)
		if err != nil {
			return nil, fmt.Errorf("migration %s: %w", file, cmp.Or(failed, err))
		}
		l.steps = append(l.steps, step{store.Migration{Version: version, Name: name, Oldest: oldest}, up, read(base + ".down.sql")})
	}
	return l, failed
}

// newest returns the version that the files lead to.
func newest(files fs.FS) (int, error) {
	later, err := fs.Glob(files, "migrations/*.up.sql")
	return 1 + len(later), err
}

// from returns what brings a schema from a version to the newest: the texts to run, in order, each with what it is called in
// errors. A new schema is made as it is now; an older one goes through the steps, and gets all functions anew.
func (l *layout) from(version int) []script {
	functions := script{"functions", l.functions}
	switch {
	case version == len(l.steps):
		return nil
	case version == 0:
		return []script{{"schema", l.schema}, functions, {"triggers", l.triggers}}
	}
	var all []script
	for _, st := range l.steps[version:] {
		all = append(all, script{fmt.Sprintf("version %d: %s", st.Version, st.Name), st.up})
	}
	return slices.Concat(all, []script{functions})
}

type script struct{ name, text string }
