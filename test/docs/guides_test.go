package docs_test

import (
	"bytes"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// longestGuide is in lines: a guide does one job, and links to the reference.
const longestGuide = 140

// block is a fenced block of code of a page.
type block struct {
	page, label, text string
}

var fence = regexp.MustCompile("(?ms)^[ \t]*```([a-z ]*)\n(.*?)^[ \t]*```[ \t]*$")

// guides lists the pages in docs/guides.
func guides(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, page := range pages(t) {
		if strings.HasPrefix(page, "docs/guides/") {
			found = append(found, page)
		}
	}
	require.NotEmpty(t, found)
	return found
}

// blocks lists the fenced blocks of a page whose label begins with that word.
func blocks(t *testing.T, page, word string) []block {
	t.Helper()
	var found []block
	for _, m := range fence.FindAllStringSubmatch(read(t, page), -1) {
		if first, _, _ := strings.Cut(m[1], " "); first == word {
			found = append(found, block{page, m[1], m[2]})
		}
	}
	return found
}

// TestGuidesAreShort: a guide that grows past its bound repeats the reference, or does two jobs.
func TestGuidesAreShort(t *testing.T) {
	for _, page := range guides(t) {
		require.LessOrEqual(t, strings.Count(read(t, page), "\n"), longestGuide, page)
	}
}

// TestEveryPageIsListed: docs/README.md links to every page of docs, so that none is found by chance only.
func TestEveryPageIsListed(t *testing.T) {
	index := read(t, "docs/README.md")
	for _, page := range pages(t) {
		if !strings.HasPrefix(page, "docs/") || page == "docs/README.md" {
			continue
		}
		require.Contains(t, index, "]("+strings.TrimPrefix(page, "docs/"), "docs/README.md does not list %s", page)
	}
}

// TestScriptsOfGuidesParse reads the scripts of the guides as their languages do.
func TestScriptsOfGuidesParse(t *testing.T) {
	for language, argv := range map[string][]string{
		"sh":     {"bash", "-n"},
		"python": {"python3", "-c", "import ast, sys; ast.parse(sys.stdin.read())"},
		"ruby":   {"ruby", "-c"},
	} {
		if !usable(language) {
			continue
		}
		for _, page := range guides(t) {
			for _, b := range blocks(t, page, language) {
				cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
				cmd.Stdin = strings.NewReader(b.text)
				var out bytes.Buffer
				cmd.Stdout, cmd.Stderr = &out, &out
				require.NoError(t, cmd.Run(), "%s: %s\n%s", page, out.String(), b.text)
			}
		}
	}
}

// TestProgramsOfGuidesAreExamples: the programs of these guides are parts of examples, which test/examples runs.
func TestProgramsOfGuidesAreExamples(t *testing.T) {
	for page, dir := range map[string]string{"docs/guides/exactly-once.md": "examples/fencing", "docs/guides/workers.md": "examples/workers"} {
		programs := ""
		files, err := filepath.Glob(filepath.Join(root, dir, "*.py"))
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			programs += string(text)
		}
		parts := blocks(t, page, "python")
		require.NotEmpty(t, parts)
		for _, b := range parts {
			require.Contains(t, programs, b.text, page)
		}
	}
}

// usable reports whether a language's programs can run here: test/examples/prepare finds out, and test/all names those that cannot.
func usable(language string) bool {
	all, limited := os.LookupEnv("LEASEHOLD_EXAMPLES")
	return language == "sh" || !limited || strings.Contains(" "+all+" ", " "+language+" ")
}

// TestSQLOfGuidesHasAStore: a block of SQL says on which store it runs, and so TestSQLOfGuides runs it.
func TestSQLOfGuidesHasAStore(t *testing.T) {
	found := 0
	for _, page := range guides(t) {
		for _, b := range blocks(t, page, "sql") {
			require.Contains(t, []string{"sql postgres", "sql sqlite"}, b.label, "%s:\n%s", path.Base(page), b.text)
			found++
		}
	}
	require.Greater(t, found, 10)
}
