package schedule_test

import (
	"archive/zip"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/schedule"
	"github.com/leasehold/leasehold/internal/store"
)

// TestZones compares the zones that both stores know with those that Go embeds, which are those of this archive: the lists that
// SQL and Go accept are one.
func TestZones(t *testing.T) {
	t.Parallel()
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	require.NoError(t, err)
	archive, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip"))
	require.NoError(t, err)
	defer func() { require.NoError(t, archive.Close()) }()
	var names []string
	for _, f := range archive.File {
		if !strings.HasSuffix(f.Name, "/") {
			names = append(names, f.Name)
			_, err := schedule.New(store.ScheduleSpec{Name: "a", Task: "a", Cron: "@daily", Timezone: f.Name})
			require.NoError(t, err)
		}
	}
	slices.Sort(names)
	require.Equal(t, strings.Join(names, "\n"), strings.Join(store.Zones(), "\n"), "internal/store/zones.txt is to be these")
}
