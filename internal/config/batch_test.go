package config

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/task"
)

func TestBatch(t *testing.T) {
	declare := func(block string) *task.Batch {
		t.Helper()
		cfg := mustLoad(t, "task \"a\" {\nwebhook {\nurl = \"http://127.0.0.1:8080/a\"\nheaders = { X-Team = \"billing\" }\n"+block+"\n}\n}\n", nil)
		again(t, cfg, nil)
		w, ok := cfg.Tasks[0].Target.(*task.Webhook)
		require.True(t, ok)
		return w.Batch
	}
	require.Nil(t, declare(""), "a request for each attempt")
	require.Equal(t, &task.Batch{Max: 100, Wait: 10 * time.Millisecond}, declare("batch {}"))
	require.Equal(t, &task.Batch{Max: 1000}, declare("batch {\nmax = 1000\nwait = \"0s\"\n}"))
	require.Equal(t, &task.Batch{Max: 1, Wait: 250 * time.Millisecond}, declare("batch {\nmax = 1\nwait = \"250ms\"\n}"))
}

// A heartbeat beside a large max is probably a mistake, in a run and in a rollback.
func TestBatchesWithHeartbeatsAreWarnedOf(t *testing.T) {
	declare := func(heartbeat, undoHeartbeat string, limit string) []string {
		t.Helper()
		block := func(path string) string {
			return "webhook {\nurl = \"http://127.0.0.1:8080/" + path + "\"\nbatch {\nmax = " + limit + "\n}\n}\n"
		}
		cfg := mustLoad(t, "task \"a\" {\n"+heartbeat+"\n"+block("do")+"rollback {\n"+undoHeartbeat+"\n"+block("undo")+"}\n}\n", nil)
		var texts []string
		for _, w := range cfg.Warnings {
			texts = append(texts, w.Text)
		}
		return texts
	}
	const beats = "heartbeat = \"5s\""
	require.Empty(t, declare("", "", "1000"))
	require.Empty(t, declare(beats, beats, "10"))
	require.Len(t, declare(beats, "", "11"), 1)
	require.Len(t, declare(beats, beats, "1000"), 2)
	require.Contains(t, declare("", beats, "1000")[0], "up to 1000 tasks")
}
