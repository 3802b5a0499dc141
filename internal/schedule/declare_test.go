package schedule

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// taken are declarations of a store in which an application has inserted a schedule "nightly".
type taken struct{}

func (taken) DeclareSchedules(context.Context, task.Session, []store.ScheduleSpec) (bool, error) {
	return true, nil
}

func (taken) UnsettledSchedules(context.Context, string, int) (store.UnsettledSchedules, error) {
	return store.UnsettledSchedules{List: []store.UnsettledSchedule{{
		Name: "nightly", Exists: true, Source: store.SourceSQL, Task: "x",
		Present: []store.Declaration{{Number: 1, Spec: Spec{Name: "nightly", Task: "x"}}, {Number: 2, Spec: Spec{Name: "nightly", Task: "y"}}},
	}}}, nil
}

func (taken) WakeSchedules(context.Context) (int, error) { return 0, nil }

func (taken) SettleSchedules(context.Context, []store.ScheduleChange) (int, error) { return 0, nil }

func TestARefusedDeclarationIsLoggedOnceWithItsPlace(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	d := NewDeclarer(taken{}, []Spec{{Name: "nightly", Task: "y"}}, func() (task.Session, bool) { return 1, true },
		func(time.Time) bool { return false }, func(name string) string { return name + ".hcl:3" },
		slog.New(slog.NewTextHandler(&log, nil)))
	for range 3 {
		require.NoError(t, d.Turn(t.Context()))
		d.looked = time.Time{}
	}
	require.Equal(t, 1, strings.Count(log.String(), "\n"), "%s", &log)
	require.Contains(t, log.String(), `schedule=nightly task=y at=nightly.hcl:3 error="a schedule`)
}
