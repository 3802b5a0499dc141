package main

import (
	"bytes"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/internal/exec/command"
	"github.com/leasehold/leasehold/internal/exec/worker"
)

// TestInitialWorkers checks the worker of each language that can run here, and that each has fewer than 30 lines.
func TestInitialWorkers(t *testing.T) {
	for language, w := range initialWorkers() {
		t.Run(language, func(t *testing.T) {
			dir := t.TempDir()
			files, err := w.files()
			require.NoError(t, err)
			for _, f := range files {
				require.NoError(t, writeNew(filepath.Join(dir, f.name), f.content, f.mode))
			}
			script, err := os.ReadFile(filepath.Join(dir, w.file))
			require.NoError(t, err)
			require.Less(t, bytes.Count(script, []byte("\n")), 30)
			cfg, err := config.Load([]string{filepath.Join(dir, config.DefaultPath)}, config.Options{})
			require.NoError(t, err)
			require.Len(t, cfg.Tasks, 1)
			if language == "go" {
				build := exec.Command("go", "build", "-o", "worker", "worker.go")
				build.Dir = dir
				out, err := build.CombinedOutput()
				require.NoError(t, err, "%s", out)
			} else if !runs(t, language, w.argv[0]) {
				return
			}
			r := command.New(command.Options{Log: slog.New(slog.DiscardHandler)})
			defer r.Close()
			check := worker.Check{Runner: r, Type: cfg.Tasks[0], Payload: []byte(`{"name": "Ada"}`), Found: func(f worker.Finding) {
				require.Empty(t, f.Wrong, f.Step)
			}}
			require.True(t, check.Run())
			require.Equal(t, w.argv[0] == "./worker", strings.Contains(w.first, "go build"))
		})
	}
}

// runs reports whether a language can run here. It can where test/examples/prepare, which installs what is missing, says so.
func runs(t *testing.T, language, interpreter string) bool {
	t.Helper()
	needs := []string{interpreter}
	if language == "shell" {
		needs = append(needs, "jq")
	}
	for _, program := range needs {
		if _, err := exec.LookPath(program); err != nil {
			require.NotContains(t, strings.Fields(os.Getenv("LEASEHOLD_EXAMPLES")), language, "%s", err)
			return false
		}
	}
	return true
}
