// Package docs_test checks what the documentation says of the repository: that its links resolve, and that the files and
// functions it names exist.
package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

// TestLinksResolve follows every relative link of every page, to the heading it names.
func TestLinksResolve(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^()\s]+)\)`)
	checked := 0
	for _, page := range pages(t) {
		text := prose(read(t, page))
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			checked++
			file, anchor, _ := strings.Cut(m[1], "#")
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			_, err := os.Stat(filepath.Join(root, target))
			require.NoError(t, err, "%s links to %s", page, m[1])
			if anchor != "" {
				require.Contains(t, anchors(prose(read(t, target))), anchor, "%s links to %s", page, m[1])
			}
		}
	}
	require.Greater(t, checked, 100)
}

// TestWalksAreTrue reads the tables of "Follow a row": each file exists and declares the functions named with it.
func TestWalksAreTrue(t *testing.T) {
	_, rest, ok := strings.Cut(read(t, "docs/architecture.md"), "\n## Follow a row\n")
	require.True(t, ok, "docs/architecture.md has no section Follow a row")
	section, _, _ := strings.Cut(rest, "\n## ")
	path := regexp.MustCompile("`([a-z]+/[a-z0-9_./]+\\.(?:go|sql))`")
	row := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]+) \\|")
	name := regexp.MustCompile("`(\\w+)`")

	for _, m := range path.FindAllStringSubmatch(section, -1) {
		require.FileExists(t, filepath.Join(root, m[1]))
	}
	steps := row.FindAllStringSubmatch(section, -1)
	require.Greater(t, len(steps), 20)
	for _, m := range steps {
		text := read(t, m[1])
		for _, f := range name.FindAllStringSubmatch(m[2], -1) {
			declared := regexp.MustCompile(`(?m)^(func (\(.*?\) )?|CREATE (OR REPLACE )?FUNCTION \{schema\}\.)` + f[1] + `\(`)
			require.True(t, declared.MatchString(text), "%s declares no function %s", m[1], f[1])
		}
	}
}

// TestEveryTableIsNamed reads the section The tables: it has each table and view of both schemas, and no other.
func TestEveryTableIsNamed(t *testing.T) {
	_, rest, ok := strings.Cut(read(t, "docs/architecture.md"), "\n## The tables\n")
	require.True(t, ok, "docs/architecture.md has no section The tables")
	section, _, _ := strings.Cut(rest, "\n### ")
	named := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| (`[^|]+) \\|").FindAllStringSubmatch(section, -1) {
		for _, name := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(m[1], -1) {
			named[name[1]] = false
		}
	}
	for _, file := range []string{
		"internal/store/postgres/schema.sql", "internal/store/postgres/queries/migrate.sql", "internal/store/sqlite/schema.sql",
		"internal/store/sqlite/queries/migrate.sql",
	} {
		for _, m := range regexp.MustCompile(`(?m)^CREATE (?:TABLE|VIEW)(?: IF NOT EXISTS)? (?:\{schema\}\.)?(\w+)`).FindAllStringSubmatch(read(t, file), -1) {
			name := regexp.MustCompile(`^batch_gate_\d$`).ReplaceAllString(m[1], "batch_gate_0")
			require.Contains(t, named, name, "docs/architecture.md does not name %s of %s", m[1], file)
			named[name] = true
		}
	}
	delete(named, "batch_gate_7")
	delete(named, "backlog") // a function on PostgreSQL
	for name, there := range named {
		require.True(t, there, "docs/architecture.md names %s, which neither store has", name)
	}
}

// pages lists the Markdown files of the repository, as paths from its root.
func pages(t *testing.T) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata" || name != root && strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case !d.IsDir() && strings.HasSuffix(name, ".md"):
			page, err := filepath.Rel(root, name)
			found = append(found, page)
			return err
		}
		return nil
	})
	require.NoError(t, err)
	return found
}

func read(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, page))
	require.NoError(t, err)
	return string(text)
}

var fenced = regexp.MustCompile("(?ms)^[ \t]*```.*?^[ \t]*```[ \t]*$")

// prose is a page without its blocks of code. A link may be broken over two lines.
func prose(page string) string { return fenced.ReplaceAllString(page, "") }

var (
	heading  = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *$`)
	explicit = regexp.MustCompile(`<a (?:id|name)="([^"]+)">`)
	linked   = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)
	dropped  = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// anchors lists the places in a page that a link can name, as GitHub makes them of headings; and explicit ones.
func anchors(page string) []string {
	var found []string
	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		text := linked.ReplaceAllString(strings.ToLower(m[1]), "$1")
		found = append(found, strings.ReplaceAll(dropped.ReplaceAllString(text, ""), " ", "-"))
	}
	for _, m := range explicit.FindAllStringSubmatch(page, -1) {
		found = append(found, m[1])
	}
	return found
}

// TestNamedTestsExist: a script that runs a test by a name that it no longer has runs nothing, and says that all is well.
func TestNamedTestsExist(t *testing.T) {
	declared := make(map[string]bool)
	declaration := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root:
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range declaration.FindAllSubmatch(text, -1) {
			declared[string(m[1])] = true
		}
		return err
	}))
	named, found := regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z]\w+`), 0
	for _, script := range append([]string{"Makefile", ".ci/run", "test/all", "test/go-test", "test/fuzz"}, pages(t)...) {
		for _, name := range named.FindAllString(read(t, script), -1) {
			require.True(t, declared[name], "%s names %s, which no test has", script, name)
			found++
		}
	}
	require.Greater(t, found, 20)
}
