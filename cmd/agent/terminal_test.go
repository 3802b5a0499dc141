package main

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/alecthomas/kong"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/stretchr/testify/require"
)

const columns80 = 80 // of the terminal, as it does not say

// onTerminal runs a command line as on a terminal without colour, and returns what it writes.
func onTerminal(t *testing.T, args ...string) (out, errs string, code int) {
	t.Helper()
	dir := t.TempDir()
	files := [2]*os.File{}
	for i, name := range []string{"out", "err"} {
		f, err := os.Create(filepath.Join(dir, name))
		require.NoError(t, err)
		defer f.Close()
		files[i] = f
	}
	a := newApp(strings.NewReader(""), files[0], files[1])
	a.terminal, a.watched = true, true
	code = a.execute(args)
	read := func(f *os.File) string {
		text, err := os.ReadFile(f.Name())
		require.NoError(t, err)
		return string(text)
	}
	return read(files[0]), read(files[1]), code
}

// hostileStore makes a file with the rows of testdata/hostile.sql.
func hostileStore(t *testing.T) (url string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "leasehold.db")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, errs, code := onTerminal(t, "migrate", "up", "--store", "sqlite:"+file)
	require.Zero(t, code, errs)
	script, err := os.ReadFile("testdata/hostile.sql")
	require.NoError(t, err)
	statements := regexp.MustCompile(`\{([+-]\d+ [a-z]+)\}`).ReplaceAllString(string(script), "strftime('%Y-%m-%dT%H:%M:%S.123Z', 'now', '$1')")
	statements = strings.NewReplacer("ESC", "\x1b", "CSI", "\u009b", "RLO", "\u202e", "BEL", "\a", `\u001b`, "\u2066").Replace(statements)
	db, err := sql.Open("sqlite", "file:"+file)
	require.NoError(t, err)
	_, err = db.ExecContext(context.Background(), statements)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	return "sqlite:" + file
}

const (
	longSequence = "account/一二三四五六七八九十-\x1b[2J-of-a-customer-with-a-long-name"
	longSchedule = "nightly-\x1b[2J-report-of-a-customer-with-a-long-name"
	longPlan     = "events-\x1b[2J-of-the-whole-of-last-year"
)

// looks are the commands that read a store, by the names of their golden files, with their exit codes.
func looks() map[string]struct {
	args []string
	code int
} {
	type look = struct {
		args []string
		code int
	}
	return map[string]look{
		"agents":               {[]string{"agents", "--all"}, 0},
		"agents-regions":       {[]string{"agents", "regions"}, 0},
		"audit":                {[]string{"audit"}, 0},
		"batch-list":           {[]string{"batch", "list"}, 0},
		"batch-show":           {[]string{"batch", "show", "1"}, 0},
		"bulk":                 {[]string{"task", "retry", "--change", "1"}, 1},
		"chunks-list":          {[]string{"chunks", "list"}, 0},
		"chunks-show":          {[]string{"chunks", "show", longPlan}, 0},
		"chunks-verify":        {[]string{"chunks", "verify", longPlan, "--no-count"}, exitDiffers},
		"config":               {[]string{"config", "--config", "testdata/long.hcl"}, 0},
		"declarations":         {[]string{"declarations", "--all"}, 0},
		"declarations-history": {[]string{"declarations", "invoice.send"}, 0},
		"doctor":               {[]string{"doctor"}, exitDiffers},
		"migrate-status":       {[]string{"migrate", "status"}, 0},
		"orphans":              {[]string{"orphans"}, 0},
		"orphans-dry":          {[]string{"orphans", "move", "lost\x1b[2J.type.that.no.agent.declares.any.more.since.last.year", "another", "--dry-run"}, 0},
		"pause":                {[]string{"pause"}, 0},
		"plan":                 {[]string{"plan", "--config", "testdata/long.hcl"}, exitDiffers},
		"schedule-list":        {[]string{"schedule", "list"}, 0},
		"schedule-show":        {[]string{"schedule", "show", longSchedule}, 0},
		"sequence-list":        {[]string{"sequence", "list"}, 0},
		"sequence-show":        {[]string{"sequence", "show", "account.book", longSequence}, 0},
		"task-list":            {[]string{"task", "list"}, 0},
		"task-show":            {[]string{"task", "show", "9000000001"}, 0},
		"task-show-failed":     {[]string{"task", "show", "8000000001"}, 0},
		"task-why":             {[]string{"task", "why", "9000000001"}, 0},
		"task-why-lost":        {[]string{"task", "why", "9000000003"}, 0},
		"task-wait":            {[]string{"task", "wait", "8000000001"}, exitTask},
		"validate":             {[]string{"validate", "--config", "testdata/long.hcl"}, 0},
	}
}

// TestHostileRowsOnATerminal shows what a terminal would obey, in every table and text and as JSON: nothing of it comes through.
func TestHostileRowsOnATerminal(t *testing.T) {
	url := hostileStore(t)
	for name, look := range looks() {
		for _, output := range []string{"table", "json", "jsonl"} {
			out, errs, code := onTerminal(t, append(look.args, "--store", url, "-o", output)...)
			require.Equal(t, look.code, code, "%s: %s", name, errs)
			for _, shown := range []string{out, errs} {
				shown = strings.ReplaceAll(shown, "\r\x1b[K", "") // of a line that is drawn over
				shown = regexp.MustCompile(`(\x1b\[\dA)?\r\x1b\[J`).ReplaceAllString(shown, "")
				for _, r := range shown {
					require.True(t, r == '\n' || unicode.IsPrint(r) && r != unicode.ReplacementChar, "%s -o %s: %q in %q", name, output, r, shown)
				}
			}
		}
	}
}

// TestOutputsFit compares what commands show on 80 columns with golden files, and checks that no line is wider.
func TestOutputsFit(t *testing.T) {
	url := hostileStore(t)
	for name, look := range looks() {
		t.Run(name, func(t *testing.T) {
			out, errs, code := onTerminal(t, append(look.args, "--store", url)...)
			require.Equal(t, look.code, code, errs)
			switch name {
			case "config": // is to be written to a file
			case "bulk", "task-wait": // draw a line over and over, and leave it whole at the end
			default:
				fits(t, out)
			}
			if name != "doctor" { // which finds what else is wrong with the machine
				golden(t, "80/"+name+".txt", steady(out, url))
			}
		})
	}
}

// fits checks that no line is wider than the terminal. What a task has printed stays as it is.
func fits(t *testing.T, shown string) {
	t.Helper()
	shown, _, _ = strings.Cut(shown, "\noutput")
	for line := range strings.Lines(shown) {
		require.LessOrEqual(t, text.StringWidthWithoutEscSequences(strings.TrimSuffix(line, "\n")), columns80, line)
	}
}

// steady puts one time for all times, of the same width.
func steady(shown, url string) []byte {
	shown = strings.ReplaceAll(shown, strings.TrimPrefix(url, "sqlite:"), "leasehold.db")
	for pattern, with := range map[string]string{
		`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d`: "2026-11-20T08:00:00", `\.\d{1,3}Z`: ".123Z", "00-[0-9a-f]{32}-[0-9a-f]{16}-01": strings.Repeat("0", 55),
	} {
		shown = regexp.MustCompile(pattern).ReplaceAllString(shown, with)
	}
	return []byte(shown)
}

// TestHelpFits reads the help of every command: it has an example, no line is wider than a terminal, and docs/commands.md has it.
func TestHelpFits(t *testing.T) {
	var grammar cli
	parser, err := kong.New(&grammar, texts())
	require.NoError(t, err)
	seen := 0
	var reference commandReference
	var walk func(n *kong.Node, path []string)
	walk = func(n *kong.Node, path []string) {
		for _, child := range n.Children {
			if child.Type == kong.CommandNode && !child.Hidden {
				walk(child, append(slices.Clone(path), child.Name))
			}
		}
		out, errs, code := onTerminal(t, append(path, "--help")...)
		require.Zero(t, code, "%v: %s", path, errs)
		for line := range strings.Lines(out) {
			if text.StringWidthWithoutEscSequences(strings.TrimSuffix(line, "\n")) > columns80 {
				t.Errorf("%v: wider than %d columns: %s", path, columns80, line)
			}
		}
		if n.Leaf() {
			example := strings.Join(path, " ")
			if n.Parent.DefaultCmd == n { // which needs no name
				example = strings.Join(path[:len(path)-1], " ")
			}
			require.Regexp(t, `(?m)^ {2,}(.*[ (])?leasehold `+example, out, "%v: its help has no example", path)
		}
		reference.add(n, path, out)
		seen++
	}
	walk(parser.Model.Node, nil)
	require.Greater(t, seen, 60)
	reference.check(t)
}
