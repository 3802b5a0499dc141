package task_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/task"
)

func TestCheckTypeName(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"a", "invoice.send", "9:a/b_c-d", strings.Repeat("a", 128)} {
		require.NoError(t, task.CheckTypeName(good), good)
	}
	for _, bad := range []string{"", "a b", ".a", "ä", "a\n", strings.Repeat("a", 129)} {
		require.ErrorContains(t, task.CheckTypeName(bad), "at most 128 letters", bad)
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	candidates := []string{"b", "mail.send", "m.run", "M.Ruin"}
	for name, want := range map[string]string{
		"m.nun": "m.run", "m.ruin": "M.Ruin", "mail.sned": "mail.send", "report": "", "a": "", "m.run": "m.run", "": "",
	} {
		require.Equal(t, want, task.Nearest(name, candidates), name)
	}
}
