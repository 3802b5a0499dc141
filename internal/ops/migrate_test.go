package ops

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
)

// migrated is a store with as many steps applied, of three, and some tasks.
type migrated struct {
	Store
	store.Migrator
	applied            int
	tasks              []store.TaskInfo
	unlisted, unstatus error
}

func (m *migrated) Status(context.Context) ([]store.Migration, error) {
	steps := make([]store.Migration, 3)
	for i := range m.applied {
		steps[i].Applied = new(time.Time)
	}
	return steps, m.unstatus
}

func (m *migrated) List(context.Context, store.TaskFilter) ([]store.TaskInfo, error) {
	return m.tasks, m.unlisted
}

func TestDownDeletesTasks(t *testing.T) {
	some, away := make([]store.TaskInfo, 1), errors.New("no such column")
	for name, c := range map[string]struct {
		migrated
		want bool
	}{
		"nothing is applied":       {migrated{}, false},
		"no tasks":                 {migrated{applied: 1}, false},
		"tasks":                    {migrated{applied: 1, tasks: some}, true},
		"tables of another":        {migrated{applied: 1, unlisted: away}, true},
		"a later step":             {migrated{applied: 2, tasks: some}, false},
		"a later step, unreadable": {migrated{applied: 3, unlisted: away}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := DownDeletesTasks(t.Context(), &c.migrated, &c.migrated)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
	m := &migrated{unstatus: away}
	_, err := DownDeletesTasks(t.Context(), m, m)
	require.ErrorIs(t, err, away)
}
