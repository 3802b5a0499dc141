package config

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the expected error texts anew")

// TestErrors compares what is said about each testdata/errors/*.hcl with the .err beside it.
func TestErrors(t *testing.T) {
	files, err := filepath.Glob("testdata/errors/*.hcl")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			cfg, err := Load([]string{name}, options(nil))
			require.Error(t, err)
			require.Nil(t, cfg)
			got := strings.ReplaceAll(report(err), absolute("."), "DIR")
			golden := strings.TrimSuffix(name, ".hcl") + ".err"
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(got), 0o600))
			}
			want, readErr := os.ReadFile(golden)
			require.NoError(t, readErr, "run the test with -update, and read what it wrote")
			require.Equal(t, string(want), got)
			require.NotContains(t, got, "geheim", "a literal secret is shown")
			require.NotContains(t, err.Error(), "geheim")
		})
	}
}
