//go:build linux

package faults

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/leasehold/leasehold/test/harness"
)

// BuildNext builds what an upgrade is made of into a directory: children, and the agent of the next version, which is this
// tree with one migration more in each store, out of testdata/upgrade. The agent of the present version is harness.Binary's.
func BuildNext(dir, present string) (Programs, error) {
	p := Programs{
		Agent: present, Next: filepath.Join(dir, "leasehold-next"), Child: filepath.Join(dir, "child"), Holder: filepath.Join(dir, "holder"),
	}
	replace := map[string]string{}
	for _, store := range []string{"postgres", "sqlite"} {
		if err := nextStep(dir, store, replace); err != nil {
			return p, err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return p, err
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		return p, err
	}
	for _, args := range [][]string{ // the first with harness.Main's flags: all packages but a few are in the cache
		{"go", "build", "-trimpath", "-buildvcs=false", "-overlay", overlay, "-o", p.Next, "./cmd/agent"},
		{"go", "build", "-trimpath", "-buildvcs=false", "-o", p.Child, "./test/faults/child"},
		{"go", "build", "-trimpath", "-buildvcs=false", "-o", p.Holder, "./test/faults/holder"},
	} {
		if err := run(harness.Root(), args...); err != nil {
			return p, err
		}
	}
	return p, nil
}

var (
	viewOfTasks = regexp.MustCompile(`(?s)CREATE VIEW (?:\S+\.)?tasks AS\n.*?;`)
	partOfView  = regexp.MustCompile(`(\n +)FROM `)
	ofFollowers = regexp.MustCompile(`, note(\n +FROM (\{schema\}\.)?follow)`) // which have no such column
)

// nextStep writes the additional migration of a store into dir, and adds it to what replaces files of the tree. In its text
// {before} is the version before, and {tasks} is the view with one column more at its end.
func nextStep(dir, store string, replace map[string]string) error {
	tree := filepath.Join(harness.Root(), "internal", "store", store)
	later, err := filepath.Glob(filepath.Join(tree, "migrations", "*.up.sql"))
	if err != nil {
		return err
	}
	before := 1 + len(later)
	schema, err := os.ReadFile(filepath.Join(tree, "testdata", "released", "0001.sql")) // schema.sql, with what it includes
	if err != nil {
		return err
	}
	view := strings.ReplaceAll(viewOfTasks.FindString(string(schema)), `"schema_of_a_release"`, "{schema}")
	want := map[string]int{"postgres": 4, "sqlite": 3}[store]
	if parts := partOfView.FindAllString(view, -1); len(parts) != want {
		return fmt.Errorf("the schema of %s: the view tasks has %d parts, and not %d", store, len(parts), want)
	}
	view = ofFollowers.ReplaceAllString(partOfView.ReplaceAllString(view, ", note${1}FROM "), ", NULL$1")
	if store == "postgres" {
		view = strings.Replace(view, "CREATE VIEW", "CREATE OR REPLACE VIEW", 1)
	}
	fill := strings.NewReplacer("{before}", strconv.Itoa(before), "{tasks}", view)
	for _, way := range []string{"up", "down"} {
		text, err := os.ReadFile(filepath.Join(harness.Root(), "test", "faults", "testdata", "upgrade", store+"."+way+".sql"))
		if err != nil {
			return err
		}
		file := filepath.Join(dir, store+"."+way+".sql")
		if err := os.WriteFile(file, []byte(fill.Replace(string(text))), 0o600); err != nil {
			return err
		}
		replace[filepath.Join(tree, "migrations", fmt.Sprintf("%04d_additive.%s.sql", before+1, way))] = file
	}
	return nil
}
