package worker

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/exec/exectest"
	"github.com/leasehold/leasehold/internal/task"
)

// TestAnUnreadEnvelopeNeverStarted: a process that had ended before it was given an attempt has started nothing of that, and this is so, too,
// where something of its group does not die.
func TestAnUnreadEnvelopeNeverStarted(t *testing.T) {
	p := play(t, declared(t, "plays"))
	stuck := make(chan struct{})
	l := exectest.Attempt{}.Lease()
	t.Cleanup(l.Close)
	end := closed{output: "bye", stuck: stuck}.ended(task.Outcome{Error: "the worker has ended"}, true)
	require.True(t, end.unread, "it gets its verdict from the pool")
	o := p.unread(l, end)
	require.Equal(t, task.Drained, o.Verdict)
	require.True(t, o.NeverStarted)
	require.Equal(t, "bye", o.Output)
	require.False(t, o.EndUnknown)
	require.NotNil(t, o.Stuck, "its slot is not used until it is gone")
}
