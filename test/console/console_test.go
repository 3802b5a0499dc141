package console

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPattern(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want, got string
		whole, ok bool
	}{
		{"a", "a\n", true, true},
		{"a", "a\nb\n", true, false},
		{"a", "a\nb\n", false, true},
		{"took … s", "took 1.5 s\n", true, true},
		{"took … s", "took 1.5\ns\n", true, false},
		{"a\n…\nd", "a\nb\nc\nd\n", true, true},
		{"a\n…\nd", "a\nd\n", true, true},
		{"a\n…", "a\nb\n", true, true},
		{"…", "", true, true},
		{"a.b", "axb\n", true, false},
		{"", "", true, true},
	} {
		var want []string
		if c.want != "" {
			want = strings.Split(c.want, "\n")
		}
		require.Equal(t, c.ok, pattern(want, c.whole).MatchString(c.got), "%+v", c)
	}
}

func TestDocument(t *testing.T) {
	t.Parallel()
	steps, err := document("text\n```sh\nls\n```\n```hcl a.hcl\nx = 1\n```\n```hcl +a.hcl\ny = 2\n```\n```console\n$ ls\na.hcl\n$ true\n```\n```console agent\n$ run\nready\n```\n")
	require.NoError(t, err)
	require.Equal(t, []step{
		{line: 5, file: "a.hcl", text: "x = 1\n"},
		{line: 8, file: "a.hcl", add: true, text: "y = 2\n"},
		{line: 12, text: "ls", want: []string{"a.hcl"}},
		{line: 14, text: "true"},
		{line: 17, text: "run", terminal: "agent", want: []string{"ready"}},
	}, steps)
	_, err = document("```console\nout\n```\n")
	require.ErrorContains(t, err, "line 2")
	_, err = document("```console\n$ ls\n")
	require.Error(t, err)
}
