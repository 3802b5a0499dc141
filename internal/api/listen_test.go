package api

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestListenNamesTheRemedy(t *testing.T) {
	taken := listen(t, "127.0.0.1:0")
	defer func() { require.NoError(t, taken.Close()) }()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte("precious"), 0o600))
	for addr, want := range map[string]string{
		taken.Addr().String():           "the port is in use: set `listen` in the agent block to another",
		"127.0.0.1:70700":               "check `listen` in the agent block",
		"127.0.0.1":                     "check `listen` in the agent block",
		"unix://" + file:                "a file of that name exists that is not a socket",
		"unix:///nowhere/at/all/s.sock": "check `listen` in the agent block",
	} {
		_, err := Listen(t.Context(), addr)
		require.ErrorContains(t, err, want, addr)
		require.ErrorContains(t, err, "listen on "+addr)
	}
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "precious", string(content))
}

func TestListenReplacesAStaleSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	killed, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	killed.SetUnlinkOnClose(false)
	require.NoError(t, killed.Close())
	require.FileExists(t, path)

	l := listen(t, "unix://"+path)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o660), info.Mode().Perm())
	_, err = Listen(t.Context(), "unix://"+path)
	require.ErrorContains(t, err, "another process is listening on it")
	require.NoError(t, l.Close())
	require.NoFileExists(t, path)
}

func TestAddress(t *testing.T) {
	tcp := listen(t, "127.0.0.1:0")
	defer func() { require.NoError(t, tcp.Close()) }()
	require.Equal(t, "http://"+tcp.Addr().String(), Address(tcp))
	require.Equal(t, "http://127.0.0.1:7070", Address(everywhere{tcp}))
	require.True(t, local(tcp))
	require.False(t, local(everywhere{tcp}))
}
