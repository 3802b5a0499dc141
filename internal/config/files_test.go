package config

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/task"
)

const (
	taskA = "task \"a\" {\n  command {\n    argv = [\"true\"]\n  }\n}\n"
	taskB = "task \"b\" {\n  command {\n    argv = [\"cat\", file(\"note.txt\")]\n    dir  = \"here\"\n  }\n}\n"
)

func TestSeveralFiles(t *testing.T) {
	dir := write(t, map[string]string{
		"conf.d/20-b.hcl": taskB, "conf.d/10-a.hcl": taskA, "conf.d/note.txt": "hello", "conf.d/.hidden.hcl": "broken",
		"conf.d/x.hcl~": "broken", "conf.d/sub.hcl/c.hcl": "broken", "agent.hcl": "agent {\n  workers = 0\n}\n",
	})
	agent := filepath.Join(dir, "agent.hcl")
	cfg, err := Load([]string{agent, filepath.Join(dir, "conf.d"), agent}, options(nil))
	require.NoError(t, err, report(err))
	require.Equal(t, []string{
		agent, filepath.Join(dir, "conf.d/10-a.hcl"), filepath.Join(dir, "conf.d/20-b.hcl"),
	}, cfg.Files)
	require.Equal(t, "a", cfg.Tasks[0].Name)
	require.Equal(t, "b", cfg.Tasks[1].Name)
	require.Zero(t, cfg.Tasks[0].Workers, "as many as the agent has")
	require.Equal(t, "sqlite:"+filepath.Join(dir, "leasehold.db"), cfg.Store.URL, "beside the first file")
	c := cfg.Tasks[1].Target.(*task.Command)
	require.Equal(t, filepath.Join(dir, "conf.d/here"), c.Dir)
	require.Equal(t, "hello", eval(t, c.Argv[1].Template, row(`{}`)))
}

func TestProblemsOfAllFiles(t *testing.T) {
	dir := write(t, map[string]string{
		"1.hcl": taskA + "agent {\n}\n", "2.hcl": "agent {\n  x = 1\n}\n" + taskA, "3.hcl": "broken {",
		"4.hcl": "task \"a-alias\" {\n  aliases = [\"a\"]\n  command {\n    argv = [\"x\"]\n  }\n}\n",
	})
	_, err := Load([]string{dir}, options(nil))
	var p *Problems
	require.ErrorAs(t, err, &p)
	text := report(err)
	first := filepath.Join(dir, "1.hcl")
	require.Contains(t, text, "Only one agent block is allowed in a configuration; another one is at "+first+":6.")
	require.Contains(t, text, `The type "a" is already declared at `+first+":1.")
	require.Contains(t, text, `The alias "a" is already the name or an alias of the task at `+first+":1.")
	require.Contains(t, text, filepath.Join(dir, "3.hcl")+" line 1")
	require.GreaterOrEqual(t, p.Count(), 4)
	require.Contains(t, err.Error(), filepath.Join(dir, "2.hcl")+":1: Duplicate block; ")
	require.Contains(t, err.Error(), "more)")
}

func TestNoConfiguration(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	_, err := Load(nil, options(nil))
	require.ErrorContains(t, err, "leasehold.hcl does not exist. `leasehold init` writes")
	require.Contains(t, report(err), "leasehold init")
	_, err = Load([]string{dir}, options(nil))
	require.ErrorContains(t, err, "contains no *.hcl file")
	_, err = Load([]string{filepath.Join(dir, "a"), filepath.Join(dir, "b")}, options(nil))
	var p *Problems
	require.ErrorAs(t, err, &p)
	require.Equal(t, 2, p.Count())

	require.NoError(t, os.WriteFile("empty.hcl", nil, 0o600))
	cfg, err := Load([]string{"empty.hcl"}, options(nil))
	require.NoError(t, err)
	require.Empty(t, cfg.Tasks)
	require.NoError(t, os.WriteFile("leasehold.hcl", []byte(taskA), 0o600))
	cfg, err = Load(nil, options(nil))
	require.NoError(t, err)
	require.Equal(t, []string{"leasehold.hcl"}, cfg.Files)
}

func TestInputBounds(t *testing.T) {
	dir := t.TempDir()
	big := filepath.Join(dir, "big.hcl")
	require.NoError(t, os.WriteFile(big, []byte(strings.Repeat("#\n", 1<<19)+"#"), 0o600))
	_, err := Load([]string{big}, options(nil))
	require.ErrorContains(t, err, "larger than 1024 KiB")
	_, err = Load([]string{"/dev/zero"}, options(nil))
	require.ErrorContains(t, err, "larger than 1024 KiB")

	many := t.TempDir()
	for i := range 1001 {
		require.NoError(t, os.WriteFile(filepath.Join(many, strconv.Itoa(i)+".hcl"), nil, 0o600))
	}
	_, err = Load([]string{many}, options(nil))
	require.ErrorContains(t, err, "at most 1000 files")
}

// TestRecursion feeds HCL everything that makes its parser or evaluator recurse: more than the bounds allow, and less.
func TestRecursion(t *testing.T) {
	for name, expr := range map[string]func(n int) string{
		"brackets":           func(n int) string { return strings.Repeat("[", n) },
		"parentheses":        func(n int) string { return strings.Repeat("(", n) },
		"braces":             func(n int) string { return strings.Repeat("{", n) },
		"objects":            func(n int) string { return strings.Repeat("{a=", n) },
		"calls":              func(n int) string { return strings.Repeat("f(", n) },
		"for":                func(n int) string { return strings.Repeat("[for x in ", n) },
		"not":                func(n int) string { return strings.Repeat("!", n) + "true" },
		"minus":              func(n int) string { return strings.Repeat("-", n) + "1" },
		"interpolation":      func(n int) string { return strings.Repeat(`"${`, n) },
		"conditional":        func(n int) string { return strings.Repeat("true?1:", n) + "1" },
		"conditional middle": func(n int) string { return strings.Repeat("true?", n) },
		"sum":                func(n int) string { return strings.Repeat("1+", n) + "1" },
		"and":                func(n int) string { return strings.Repeat("true&&", n) + "true" },
		"attributes":         func(n int) string { return "task.data" + strings.Repeat(".b", n) },
		"index":              func(n int) string { return "task.data" + strings.Repeat("[task.id]", n) },
		"splat":              func(n int) string { return "task.data" + strings.Repeat("[*]", n) },
		"attribute splat":    func(n int) string { return "task.data" + strings.Repeat(".*", n) },
		"heredocs":           func(n int) string { return strings.Repeat("<<A\n${", n) },
		"directives": func(n int) string {
			return `"` + strings.Repeat("%{if true}", n) + strings.Repeat("%{endif}", n) + `"`
		},
		"closers":  func(n int) string { return strings.Repeat(")", n) + strings.Repeat("!", n) },
		"mixed":    func(n int) string { return ") (" + strings.Repeat("-", n) },
		"newlines": func(n int) string { return "(" + strings.Repeat("!\n", n) + "1)" },
		"closed":   func(n int) string { return "(1]]}" + strings.Repeat("!", n) },
		"parts":    func(n int) string { return `"` + strings.Repeat("${task.id}", n) + `"` },
	} {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{20_000, 1_900, 90, 20} {
				_, err := load(t, "task \"a\" {\n  command {\n    argv = [\"echo\", "+expr(n)+"]\n  }\n}\n", nil)
				if n == 20_000 {
					require.ErrorContains(t, err, "leasehold.hcl:")
					require.Regexp(t, "Nested too deeply|Expression too long", err.Error())
				}
				require.Less(t, len(report(err)), 1<<20)
			}
		})
	}
	t.Run("blocks", func(t *testing.T) {
		_, err := load(t, strings.Repeat("a {\n", 1_000), nil)
		require.ErrorContains(t, err, "Nested too deeply")
	})
}
