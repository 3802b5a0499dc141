package schedule

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// noted is a store that notes what is declared, and fails once where fail says so.
type noted struct {
	lists [][]string
	looks int
	fail  bool
}

func (n *noted) DeclareSchedules(_ context.Context, _ task.Session, list []store.ScheduleSpec) (bool, error) {
	if n.fail {
		n.fail = false
		return false, errors.New("out of reach")
	}
	names := []string{}
	for _, s := range list {
		names = append(names, s.Name)
	}
	n.lists = append(n.lists, names)
	return true, nil
}

func (n *noted) UnsettledSchedules(context.Context, string, int) (store.UnsettledSchedules, error) {
	n.looks++
	return store.UnsettledSchedules{}, nil
}

func (*noted) WakeSchedules(context.Context) (int, error) { return 0, nil }

func (*noted) SettleSchedules(context.Context, []store.ScheduleChange) (int, error) { return 0, nil }

// What replaces the schedules of a configuration is declared at the next turn and looked at, none of them too, again after a failure, and
// once.
func TestSchedulesAreReplaced(t *testing.T) {
	n := &noted{}
	d := NewDeclarer(n, nil, func() (task.Session, bool) { return 1, true }, func(time.Time) bool { return false },
		func(string) string { return "" }, slog.New(slog.DiscardHandler))
	turn := func() { require.NoError(t, d.Turn(t.Context())) }
	turn()
	require.Empty(t, n.lists, "there are none")
	d.Declare(nil, nil)
	turn()
	require.Empty(t, n.lists, "and there were none")
	d.Declare([]Spec{{Name: "a"}}, nil)
	looks := n.looks
	turn()
	turn()
	require.Equal(t, [][]string{{"a"}}, n.lists)
	require.Equal(t, looks+1, n.looks, "they are put in force at once")
	d.Declare([]Spec{{Name: "b"}}, nil)
	n.fail = true
	require.Error(t, d.Turn(t.Context()))
	turn()
	require.Equal(t, looks+2, n.looks, "again")
	d.Declare(nil, nil)
	turn()
	turn()
	require.Equal(t, [][]string{{"a"}, {"b"}, {}}, n.lists)
}
