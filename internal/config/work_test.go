package config

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestARowCostsLittle evaluates expressions for rows made to be expensive. Each used to take seconds to hours, or
// gigabytes.
func TestARowCostsLittle(t *testing.T) {
	const most = 3 * time.Second // of the processor; half a second and less on an idle machine
	long := strings.Repeat("x", 900_000)
	list := func(item string) string { return `{"a": [` + strings.Repeat(item+",", 9000) + item + `]}` }
	for _, c := range []struct{ expr, data string }{
		{`length(formatlist("` + strings.Repeat("%[1]s", 3600) + `", task.data.a))`, `{"a": ["` + long + `"]}`},
		{`length(formatlist("%s%s", task.data.a, task.data.b))`, `{"a": ["` + strings.Repeat(`x","`, 1500) + `"], "b": "` + long + `"}`},
		{`regex("(.{0,500}){2}y|(a|x|.)*z", task.data.a)`, `{"a": "` + long + `"}`},
		{`regex(task.data.p, task.data.a)`, `{"p": "(\\pL{1,1000}|\\pN{1,1000}|.{1,1000})y", "a": "` + long + `"}`},
		{`regexreplace(task.data.a, "x.*y|x", "z")`, `{"a": "` + long + `"}`},
		{`regexreplace(task.data.a, "x.*y|x", "z")`, `{"a": "` + long[:20_000] + `"}`},
		{`regexreplace(task.data.a, task.data.p, "z")`, `{"p": "(((((((((x*)*)*)*)*)*)*)*)*y)|x", "a": "` + long[:20_000] + `"}`},
		{`trim(task.data.a, task.data.c)`, `{"a": "` + strings.Repeat("z", 400_000) + `", "c": "` + strings.Repeat("é", 200_000) + `z"}`},
		{`floor(task.data.a)`, `{"a": "1e600000000"}`},
		{`task.data.a > 1`, `{"a": "` + strings.Repeat("9", 900_000) + `"}`},
		{`max(task.data.a...)`, `{"a": ["` + strings.Repeat("9", 900_000) + `"]}`},
		{`task.data.l[task.data.a]`, `{"l": [1], "a": "1e600000000"}`},
		{`upper("` + strings.Repeat("${task.data.a}", 1000) + `")`, `{"a": "` + long + `"}`},
		{`contains(task.data.a, task.data.a)`, list("[1]")},
		{`coalesce(task.data.a...)`, list("null")},
		{`sort(task.data.a)`, list(`"x"`)},
		{`true ? task.data.a : [1]`, list(`{"b": 1}`)},
		{`true ? task.data.a : [1]`, `{"a": [` + strings.Repeat("1,", 1990) + `1]}`},
		{`contains(task.data.a, task.data.a)`, `{"a": [` + strings.Repeat("1,", 1990) + `1]}`},
		{`substr(task.data.a, 5, -1)`, `{"a": "` + strings.Repeat("e\u0301", 300_000) + `"}`},
	} {
		a := argument(t, "jsonencode("+c.expr+")", nil)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := cpuTime(t)
		_, err := a.Template(row(c.data))
		used := cpuTime(t) - start
		runtime.ReadMemStats(&after)
		if err != nil {
			require.Contains(t, err.Error(), "leasehold.hcl:3: ")
			require.Less(t, len(err.Error()), 1000)
		}
		require.Less(t, used, most, c.expr[:min(len(c.expr), 80)])
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(100<<20), c.expr[:min(len(c.expr), 80)])
	}
}

// TestNestedTries is of the declaration's own making: each try evaluates its arguments twice.
func TestNestedTries(t *testing.T) {
	config := func(depth int) string {
		return "task \"a\" {\n  command {\n    argv = [\"echo\", " + strings.Repeat("try(", depth) + "task.data.x" +
			strings.Repeat(", 1)", depth) + "]\n  }\n}\n"
	}
	mustLoad(t, config(maxTries), nil)
	_, err := load(t, config(maxTries+1), nil)
	require.ErrorContains(t, err, "Calls of try may be nested 4 deep")
}

// TestUsualPatterns work on texts as long as an argument may be.
func TestUsualPatterns(t *testing.T) {
	text := strings.Repeat("some word, 2026-11-22; ", 5000)
	for _, expr := range []string{
		`regexreplace(task.data.a, "\\s+", "_")`, `regexreplace(task.data.a, "[^a-z0-9]", "")`,
		`regexreplace(task.data.a, "(\\d{4})-(\\d{2})", "$2/$1")`, `regex("^[a-z ]+", task.data.a)`,
		`regexreplace(substr(task.data.a, 0, 500), "(.*),", "$1")`,
	} {
		_, err := argument(t, expr, nil).Template(row(`{"a": "` + text + `"}`))
		require.NoError(t, err, expr)
	}
}
