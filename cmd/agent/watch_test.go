package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A file that has changed, is new, or is gone is named once, as soon as two looks in a row find it the same.
func TestWatchedFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	stamp := time.Now()
	write := func(name, text string) {
		t.Helper()
		require.NoError(t, os.WriteFile(file(name), []byte(text), 0o600))
		stamp = stamp.Add(time.Second) // a clock of any resolution
		require.NoError(t, os.Chtimes(file(name), stamp, stamp))
	}
	write("a.hcl", "")
	write("secret", "")
	inputs := []string{file("a.hcl"), file("secret")}
	w := newWatcher([]string{dir}, func() []string { return inputs })
	looks := func(want ...string) {
		t.Helper()
		for _, name := range want {
			got, _ := w.look()
			require.Equal(t, name, got)
		}
	}
	looks("", "")
	write("a.hcl", "x")
	looks("")
	write("a.hcl", "xy") // it is still being written
	looks("", file("a.hcl"), "")
	write("secret", "x")
	looks("", file("secret"), "")
	write("b.hcl", "x")
	looks("", file("b.hcl"))
	inputs = []string{file("a.hcl"), file("b.hcl"), file("other")} // as it is loaded now
	write("other", "x")
	looks("", "")
	write("secret", "xy")
	looks("", "")
	write("other", "xy")
	looks("", file("other"))
	require.NoError(t, os.Rename(file("secret"), file("a.hcl"))) // as editors do
	looks("", file("a.hcl"))
	require.NoError(t, os.Remove(file("b.hcl")))
	looks("", file("b.hcl"), "")
	require.NoError(t, os.WriteFile(file("note.txt"), nil, 0o600))
	looks("", "")
}

func TestWatchEnds(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.hcl")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	changes, stop := watch([]string{file}, func() []string { return nil })
	require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
	select {
	case name := <-changes:
		require.Equal(t, file, name)
	case <-time.After(20 * time.Second):
		require.Fail(t, "no change was seen")
	}
	require.NoError(t, os.WriteFile(file, []byte("xy"), 0o600))
	stop() // also while no one takes it
}
