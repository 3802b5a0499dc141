package config

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLongestWindow(t *testing.T) {
	for _, c := range []struct {
		attrs string
		want  time.Duration
	}{
		{``, 0},
		{`heartbeat = "5s"`, 20 * time.Second}, // the default timeout
		{"heartbeat = \"5s\"\ntimeout = \"1h\"", 10 * time.Minute},
		{"heartbeat = \"15m\"\ntimeout = \"1h\"", 15 * time.Minute},
		{"heartbeat = \"5s\"\ntimeout = \"1h\"\nmax_heartbeat = \"30m\"", 30 * time.Minute},
	} {
		path := filepath.Join(t.TempDir(), "a.hcl")
		text := "task \"a\" {\n" + c.attrs + "\ncommand {\nargv = [\"true\"]\n}\n}\n"
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		cfg, err := Load([]string{path}, options(nil))
		require.NoError(t, err, text)
		require.Equal(t, c.want, cfg.Tasks[0].Policy.MaxHeartbeat, c.attrs)
	}
}
