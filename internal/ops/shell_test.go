package ops

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestShellQuote(t *testing.T) {
	for in, want := range map[string]string{
		"":           "''",
		"plain-1.0":  "plain-1.0",
		"two words":  "'two words'",
		"it's":       `"it's"`,
		"it's $HOME": `'it'\''s $HOME'`,
		"a\nb":       "'a\nb'",
		"*":          "'*'",
		"~root":      "'~root'",
	} {
		require.Equal(t, want, ShellQuote(in))
	}
}

func FuzzShellQuote(f *testing.F) {
	for _, s := range []string{"", "-n", `a'b"c`, "$(id)", "`id`", "a\\", "!x", "ü", "~", "\n", "{a,b}", "a=b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		s = strings.ReplaceAll(s, "\x00", "") // no argument holds one
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s "+ShellQuote(s)).Output()
		require.NoError(t, err)
		require.Equal(t, s, string(out))
	})
}
