package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCgroupMemory(t *testing.T) {
	for name, c := range map[string]struct {
		self  string
		files map[string]string
		want  int64
	}{
		"none":             {"0::/a/b\n", nil, 0},
		"unlimited":        {"0::/a\n", map[string]string{"a/memory.max": "max\n"}, 0},
		"version 2":        {"0::/a/b\n", map[string]string{"a/b/memory.max": "1000000\n"}, 1000000},
		"one above":        {"0::/a/b\n", map[string]string{"a/memory.max": "5000\n", "a/b/memory.max": "max\n"}, 5000},
		"the root's":       {"0::/host/path\n", map[string]string{"memory.max": "7000\n"}, 7000},
		"version 1":        {"5:memory:/a\n0::/\n", map[string]string{"memory/a/memory.limit_in_bytes": "8000\n"}, 8000},
		"1, with others":   {"5:cpu,memory:/a\n", map[string]string{"memory/memory.limit_in_bytes": "9000\n"}, 9000},
		"1, unlimited":     {"5:memory:/a\n", map[string]string{"memory/a/memory.limit_in_bytes": "9223372036854771712\n"}, 0},
		"not what we know": {"x\n1:name=systemd:/a\n", nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			self := filepath.Join(root, "self")
			require.NoError(t, os.WriteFile(self, []byte(c.self), 0o600))
			for file, text := range c.files {
				require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, file)), 0o700))
				require.NoError(t, os.WriteFile(filepath.Join(root, file), []byte(text), 0o600))
			}
			got, found := cgroupMemory(self, root)
			require.Equal(t, c.want > 0, found)
			if found {
				require.Equal(t, c.want, got)
			}
		})
	}
}
