package task_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/task"
)

func TestText(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"abc", 3, "abc"},
		{"abcdef", 4, "a…"},
		{"éééé", 6, "é…"},
		{"a\x00b\xff\xfe", 100, "a\ufffdb\ufffd"},
		{"", 0, ""},
	} {
		require.Equal(t, c.want, task.Text(c.text, c.most))
	}
	require.LessOrEqual(t, len(task.Text(strings.Repeat("\x00", task.MaxError), task.MaxError)), task.MaxError, "also of what is longer once it can be kept")
}
