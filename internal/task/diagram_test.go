package task_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/task"
)

// arrow is a step from one state to another; outside stands for before a row's insert and after its end.
type arrow struct{ from, to task.State }

const outside task.State = "[*]"

// The diagram is a promise to readers: it shows what the code can do, all of it and nothing else. (What operators can
// have it do is looked after where that is modelled, in test/storetest/model.)
func TestDiagramShowsWhatTheCodeDoes(t *testing.T) {
	drawn, done := decided(t), possible()
	require.NotEmpty(t, drawn)
	require.Empty(t, cmp.Diff(drawn, done, cmp.AllowUnexported(arrow{})), "- is drawn and cannot happen, + can and is not drawn")
}

// decided returns the transitions of the diagram that the code makes without an operator.
func decided(t require.TestingT) map[arrow]bool {
	arrows := map[arrow]bool{}
	for a, label := range diagram(t) {
		if !strings.HasPrefix(label, ": operator: ") {
			arrows[a] = true
		}
	}
	return arrows
}

// diagram reads the arrows of the state diagram in docs/architecture.md, with what is written at each.
func diagram(t require.TestingT) map[arrow]string {
	page, err := os.ReadFile("../../docs/architecture.md")
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(page), "```mermaid\nstateDiagram-v2\n")
	require.True(t, ok, "docs/architecture.md has no state diagram")
	body, _, ok := strings.Cut(rest, "```")
	require.True(t, ok, "the state diagram does not end")

	line := regexp.MustCompile(`^\s+(\S+) --> ([^\s:]+)(: .+)?$`)
	arrows := map[arrow]string{}
	for text := range strings.Lines(body) {
		m := line.FindStringSubmatch(strings.TrimRight(text, "\n"))
		require.NotNil(t, m, "not an arrow of a state diagram: %s", text)
		a := arrow{task.State(m[1]), task.State(m[2])}
		require.True(t, a.from == outside || a.from.Known(), "no such state: %s", a.from)
		require.True(t, a.to == outside || a.to.Known(), "no such state: %s", a.to)
		require.NotContains(t, arrows, a, "drawn twice: %s", text)
		arrows[a] = m[3]
	}
	return arrows
}

// Each step is taken by a test that is named for it.
func TestEachStepHasItsTest(t *testing.T) {
	page, err := os.ReadFile("../../docs/architecture.md")
	require.NoError(t, err)
	step, test := regexp.MustCompile("`([^`]+)` → `([^`]+)`"), regexp.MustCompile("`([a-z0-9/]+)\\.([A-Za-z0-9]+)`")
	taken := map[arrow]bool{}
	for line := range strings.Lines(string(page)) {
		steps := step.FindAllStringSubmatch(line, -1)
		if len(steps) == 0 {
			continue
		}
		tests := test.FindAllStringSubmatch(line, -1)
		require.NotEmpty(t, tests, line)
		for _, m := range tests {
			require.True(t, declares(t, m[1], m[2]), "%s has no %s", m[1], m[2])
		}
		for _, m := range steps {
			taken[arrow{task.State(m[1]), task.State(m[2])}] = true
		}
	}
	for a := range diagram(t) {
		require.True(t, taken[a], "no test is named for %s → %s", a.from, a.to)
		delete(taken, a)
	}
	require.Empty(t, taken, "named, and not drawn")
}

// Each rule that SQL has, too, names checks that compare it, and these exist.
func TestEachRuleInSQLHasItsCheck(t *testing.T) {
	page, err := os.ReadFile("../../docs/architecture.md")
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(page), "\n### Rules that are also in SQL\n")
	require.True(t, ok)
	section, _, _ = strings.Cut(section, "\n#")
	test := regexp.MustCompile("`(test/[a-z]+)\\.([A-Za-z0-9]+)`")
	rules := 0
	for line := range strings.Lines(section) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| Rule ") || strings.HasPrefix(line, "| --- ") {
			continue
		}
		rules++
		tests := test.FindAllStringSubmatch(line, -1)
		require.NotEmpty(t, tests, line)
		for _, m := range tests {
			require.True(t, declares(t, m[1], m[2]), "%s has no %s", m[1], m[2])
		}
	}
	require.Positive(t, rules)
}

// declares reports whether there is a function of that name in that folder of the repository.
func declares(t *testing.T, folder, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", folder, "*.go"))
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if strings.Contains(string(text), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}

// possible is every arrow that a row can go: inserted, claimed, decided on, finished.
func possible() map[arrow]bool {
	arrows := map[arrow]bool{{outside, task.StatePending}: true}
	for _, s := range task.States() {
		switch {
		case s.Waiting():
			arrows[arrow{s, s.Claimed()}] = true
		case s.Finished():
			arrows[arrow{s, outside}] = true
		case s.Running():
			for _, next := range decisions(s) {
				arrows[arrow{s, next}] = true
			}
		}
	}
	return arrows
}

// decisions is what Decide makes of a row in that state, over all that it looks at.
func decisions(s task.State) []task.State {
	var found []task.State
	either := []bool{false, true}
	for _, o := range outcomes() {
		for _, p := range []*task.Policy{policy(), oneWay(), {}} {
			for _, n := range []int{1, 2, 3} {
				for _, gaveBack := range []int{0, 3} {
					for _, left := range []time.Duration{-time.Second, 0, time.Hour} {
						for _, was := range either {
							for _, cancel := range either {
								row := attempt(n, deferrals(gaveBack), due(left))
								row.State, row.EverStarted, row.CancelRequested = s, was, cancel
								found = append(found, task.Decide(row, p, o, left, 0).State)
							}
						}
					}
				}
			}
		}
	}
	return found
}

func outcomes() []task.Outcome {
	var all []task.Outcome
	for _, v := range task.Verdicts() {
		all = append(all, ended(v), neverStarted(v), unknownEnd(v), splittable(v))
	}
	return all
}
