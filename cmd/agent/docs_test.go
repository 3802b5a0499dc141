package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

// TestCommandsOfGuides parses every command of docs/guides with the grammar itself: those of scripts and of sessions ("$ leasehold …") whole, those
// in prose as far as they go, with a number for a word in capital letters.
func TestCommandsOfGuides(t *testing.T) {
	pages, err := filepath.Glob("../../docs/guides/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, pages)
	fenced := regexp.MustCompile("(?ms)^```([a-z ]*)\n(.*?)^```$")
	inProse, placeholder := regexp.MustCompile("`leasehold ([^`…]+)`"), regexp.MustCompile(`\b[A-Z]+\b`)
	parsed := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range fenced.FindAllStringSubmatch(string(text), -1) {
			for _, line := range commandLines(m[1], m[2]) {
				_, err := grammar(t).Parse(joinNegative(line))
				require.NoError(t, err, "%s: leasehold %s", page, strings.Join(line, " "))
				parsed++
			}
		}
		for _, m := range inProse.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
			trace, err := kong.Trace(grammar(t), shellWords(placeholder.ReplaceAllString(m[1], "1")))
			require.NoError(t, err)
			require.NoError(t, trace.Error, "%s: leasehold %s", page, m[1])
			parsed++
		}
	}
	require.Greater(t, parsed, 50)
}

// TestCommandsOfDeploy parses the commands that the Compose file, the manifests and the units run.
func TestCommandsOfDeploy(t *testing.T) {
	parsed := 0
	for _, file := range []string{"compose.yaml", "kubernetes/standalone.yaml", "kubernetes/sidecar.yaml", "leasehold.service", "leasehold-migrate.service"} {
		text, err := os.ReadFile("../../deploy/" + file)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`(?m)^ *(?:command|args): \[(.*)\]$|^Exec(?:Start|Reload)=\S*/leasehold (.*)$`).FindAllStringSubmatch(string(text), -1) {
			line := strings.Split(m[1], ", ")
			if m[2] != "" {
				line = strings.Fields(m[2])
			}
			if i := slices.Index(line, "$GRANTS"); i >= 0 {
				grants := regexp.MustCompile(`(?m)^# +GRANTS=(.*)$`).FindSubmatch(text)
				require.NotNil(t, grants)
				line = slices.Replace(line, i, i+1, strings.Fields(string(grants[1]))...)
			}
			_, err := grammar(t).Parse(line)
			require.NoError(t, err, "%s: %s", file, m[0])
			parsed++
		}
	}
	require.Equal(t, 8, parsed)
}

// grammar is a parser as execute makes it, which prints nothing and ends nothing.
func grammar(t *testing.T) *kong.Kong {
	t.Helper()
	parser, err := kong.New(&cli{}, kong.Name("leasehold"), texts(), kong.Exit(func(int) {}), kong.Writers(io.Discard, io.Discard))
	require.NoError(t, err)
	return parser
}

// commandLines gives the arguments of each leasehold command of a script (sh), or of a session, where commands follow a "$ ".
func commandLines(label, text string) (lines [][]string) {
	if label != "sh" && label != "" {
		return nil
	}
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			line = command
		} else if label == "" {
			continue
		}
		for _, at := range regexp.MustCompile(`(?:^|[;&|(] *|\bexec )leasehold `).FindAllStringIndex(line, -1) {
			lines = append(lines, shellWords(line[at[1]:]))
		}
	}
	return lines
}

// shellWords splits a line as a shell does, up to the end of the command: a pipe, a redirection, a comment.
func shellWords(line string) (words []string) {
	var word strings.Builder
	begun, quote := false, rune(0)
	flush := func() {
		if begun {
			words = append(words, word.String())
		}
		begun = false
		word.Reset()
	}
	for _, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote, begun = c, true
		case quote == 0 && strings.ContainsRune("|&;<>)\n", c), quote == 0 && c == '#' && !begun:
			flush()
			return words
		case quote == 0 && c == ' ':
			flush()
		default:
			word.WriteRune(c)
			begun = true
		}
	}
	flush()
	return words
}
