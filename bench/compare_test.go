package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/bench/report"
)

// TestScenariosAreListed: a later tree asks this one by its help.
func TestScenariosAreListed(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "bench")
	require.NoError(t, os.WriteFile(bin, []byte("#!/bin/sh\ncat >&2 <<'END'\n"+usage(t)+"\nEND\nexit 2\n"), 0o700))
	names, err := (&tree{dir: t.TempDir(), bin: bin}).scenarios(t.Context())
	require.NoError(t, err)
	o, err := parse(nil)
	require.NoError(t, err)
	require.Equal(t, o.only, names)
}

// usage is what -h prints.
func usage(t *testing.T) string {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	stderr := os.Stderr
	os.Stderr = w
	_, err = parse([]string{"-h"})
	os.Stderr = stderr
	require.Error(t, err)
	require.NoError(t, w.Close())
	text := make([]byte, 1<<16)
	n, err := r.Read(text)
	require.NoError(t, err)
	return string(text[:n])
}

// TestCompare alternates two trees, of which the earlier knows one scenario only.
func TestCompare(t *testing.T) {
	base := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(base, "bin"), 0o700))
	script := `#!/bin/sh
if [ "$1" = -h ]; then echo 'measure only these, separated by commas: noop, http' >&2; exit 2; fi
echo "$@" >>calls
printf '\nabout\n\n%s  leasehold\nrate  50000\n\ntarget  wanted\n' "$2"
`
	require.NoError(t, os.WriteFile(filepath.Join(base, "bin", "bench"), []byte(script), 0o700))
	of := func(name string) *tree {
		return &tree{name, base, filepath.Join(base, "bin", "bench"), report.NewBook()}
	}
	o, err := parse([]string{"-base", base, "-only", "noop,latency", "-rounds", "2", "-patience", "40s"})
	require.NoError(t, err)
	held, left, err := o.alternate(t.Context(), of("now"), of("before"))
	require.NoError(t, err)
	require.Equal(t, []string{"latency"}, left)
	require.True(t, held)
	calls, err := os.ReadFile(filepath.Join(base, "calls"))
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("-only noop -rounds 1 -peers leasehold -targets  -scale 1 -patience 10s\n", 4), string(calls))
}
