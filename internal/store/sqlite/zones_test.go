package sqlite

import (
	"archive/zip"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/schedule"
	"github.com/leasehold/leasehold/internal/store"
)

var update = flag.Bool("update", false, "write shared/zones.sql anew")

// TestZones compares the zones that a schedule may have with those that Go embeds: time/tzdata is made of this archive.
func TestZones(t *testing.T) {
	t.Parallel()
	archive, err := zip.OpenReader(filepath.Join(runtime.GOROOT(), "lib", "time", "zoneinfo.zip"))
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
	text := "-- Made by go test -run TestZones -update from the zones that Go embeds (time/tzdata): do not edit.\n"
	line := "   "
	for i, name := range names {
		item := " ('" + name + "')"
		if i < len(names)-1 {
			item += ","
		}
		if len(line)+len(item) > 120 {
			text, line = text+line+"\n", "   "
		}
		line += item
	}
	text += line + "\n"
	const file = "shared/zones.sql"
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, text, string(got), "go test -run TestZones -update makes it anew")
}
