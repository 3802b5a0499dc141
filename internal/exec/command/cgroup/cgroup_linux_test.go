package cgroup

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFind(t *testing.T) {
	const (
		plain   = "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 none rw\n"
		hybrid  = "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup none rw,cpu\n41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 none rw\n"
		bound   = "31 23 0:28 /docker/abc /sys/fs/cgroup rw - cgroup2 none rw\n"
		spaced  = `31 23 0:28 / /sys/fs/c\040group rw - cgroup2 none rw` + "\n"
		version = "31 23 0:28 / /sys/fs/cgroup rw - cgroup none rw,cpu\n"
	)
	for name, c := range map[string]struct{ groups, mounts, want string }{
		"v2":                        {"0::/system.slice/a.service\n", plain, "/sys/fs/cgroup/system.slice/a.service"},
		"v2, the root":              {"0::/\n", plain, "/sys/fs/cgroup"},
		"hybrid":                    {"9:name=systemd:/x\n4:memory:/y\n0::/z\n", hybrid, "/sys/fs/cgroup/unified/z"},
		"v1 only":                   {"4:memory:/y\n", version, ""},
		"v2 that is not mounted":    {"0::/z\n", version, ""},
		"part of it is mounted":     {"0::/docker/abc/in\n", bound, "/sys/fs/cgroup/in"},
		"that very part":            {"0::/docker/abc\n", bound, "/sys/fs/cgroup"},
		"another part is mounted":   {"0::/docker/abcd\n", bound, ""},
		"outside of the namespace":  {"0::/../x\n", plain, ""},
		"a mount point with spaces": {"0::/z\n", spaced, "/sys/fs/c group/z"},
		"nothing":                   {"", "", ""},
	} {
		require.Equal(t, c.want, find(c.groups, c.mounts), name)
	}
}

// newTestTree is a tree; nil where this user may make none.
func newTestTree(t *testing.T) *Tree {
	t.Helper()
	tree := NewTree()
	if tree == nil {
		t.Log("there is no cgroup v2 in which this user may make cgroups")
		return nil
	}
	t.Cleanup(tree.Close)
	return tree
}

// within starts a shell in a cgroup.
func within(t *testing.T, g *Group, script string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: g.FD()}
	require.NoError(t, cmd.Start())
	return cmd
}

func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for late := time.After(20 * time.Second); !so(); {
		select {
		case <-look.C:
		case <-late:
			require.FailNow(t, "not within 20 s", what)
		}
	}
}

func TestGroupsAreUsedAgain(t *testing.T) {
	tree := newTestTree(t)
	if tree == nil {
		return
	}
	one, err := tree.Take()
	require.NoError(t, err)
	two, err := tree.Take()
	require.NoError(t, err)
	require.NotEqual(t, one.Number(), two.Number())
	require.True(t, one.Empty())
	tree.Give(one)
	again, err := tree.Take()
	require.NoError(t, err)
	require.Same(t, one, again)
	tree.Give(again)
	tree.Give(two)
	path := tree.Path()
	tree.Close()
	require.NoDirExists(t, path)
	none, err := tree.Take()
	require.NoError(t, err)
	require.Nil(t, none)
}

// TestAGroupIsNotUsedAfterAKill: on some kernels all that is started in it later is killed at once.
func TestAGroupIsNotUsedAfterAKill(t *testing.T) {
	tree := newTestTree(t)
	if tree == nil {
		return
	}
	g, err := tree.Take()
	require.NoError(t, err)
	cmd := within(t, g, "sleep 1000")
	g.Kill()
	require.Error(t, cmd.Wait())
	until(t, "it is empty", g.Empty)
	tree.Give(g)
	require.NoDirExists(t, g.path)

	next, err := tree.Take()
	require.NoError(t, err)
	require.NotEqual(t, g.Number(), next.Number())
	require.NoError(t, within(t, next, "exit 0").Wait())
	next.Spoil() // a process of another has killed in it
	until(t, "it is empty", next.Empty)
	tree.Give(next)
	last, err := tree.Take()
	require.NoError(t, err)
	require.NotEqual(t, next.Number(), last.Number())
	tree.Give(last)
}

// What was killed in by others, with no attempt in it, is not used again: neither what was free then nor what was in use.
func TestRetire(t *testing.T) {
	tree := newTestTree(t)
	if tree == nil {
		return
	}
	free, err := tree.Take()
	require.NoError(t, err)
	used, err := tree.Take()
	require.NoError(t, err)
	tree.Give(free)
	KillAll(tree.Path()) // as the guardian process does
	tree.Retire()
	next, err := tree.Take()
	require.NoError(t, err)
	require.NoError(t, within(t, next, "exit 0").Wait(), "it is not killed at its birth")
	until(t, "it is empty", next.Empty)
	require.NoDirExists(t, free.path)
	tree.Give(used)
	require.NoDirExists(t, used.path)
	tree.Give(next)
	again, err := tree.Take()
	require.NoError(t, err)
	require.Same(t, next, again)
	tree.Give(again)
	tree.Retire()
	path := tree.Path()
	tree.Close()
	require.NoDirExists(t, path)
	var none *Tree
	none.Retire()
}

func TestKillInGroup(t *testing.T) {
	tree := newTestTree(t)
	if tree == nil {
		return
	}
	g, err := tree.Take()
	require.NoError(t, err)
	cmd := within(t, g, "trap '' TERM; setsid env -i sleep 1000 & sleep 1000 & wait")
	require.False(t, g.Empty())
	require.False(t, emptyAt(g.path))
	g.Kill()
	require.Error(t, cmd.Wait())
	until(t, "empty", g.Empty)
	require.True(t, emptyAt(g.path))
	cmd = within(t, g, "sleep 1000")
	KillAll(tree.Path())
	require.Error(t, cmd.Wait())
	until(t, "empty", func() bool { return KillAll(tree.Path()) })
	require.True(t, KillIn(tree.Path(), 9999), "what is not there is empty")
	require.True(t, KillAll("/nonexistent"))
	tree.Give(g)
}

// Processes left by an attempt that ended without being stopped are moved out of its cgroup, and survive the agent.
func TestLeftOnPurpose(t *testing.T) {
	tree := newTestTree(t)
	if tree == nil {
		return
	}
	g, err := tree.Take()
	require.NoError(t, err)
	cmd := within(t, g, "sleep 1000 & sleep 1000")
	tree.Give(g)
	require.True(t, g.Empty())
	again, err := tree.Take()
	require.NoError(t, err)
	require.Same(t, g, again)
	tree.Give(again)
	require.True(t, KillAll(tree.Path()))
	path := tree.Path()
	tree.Close()
	require.DirExists(t, filepath.Join(path, leftName))
	require.NoDirExists(t, g.path)
	procs, err := os.ReadFile(filepath.Join(path, leftName, "cgroup.procs"))
	require.NoError(t, err)
	require.Contains(t, string(procs), fmt.Sprintln(cmd.Process.Pid))

	sweep(filepath.Dir(path))
	require.DirExists(t, path, "something lives in it")
	kill(filepath.Join(path, leftName))
	require.Error(t, cmd.Wait())
	until(t, "it is removed", func() bool {
		sweep(filepath.Dir(path))
		_, err := os.Stat(path)
		return os.IsNotExist(err)
	})
}

// The tree of an agent that lives is left alone, however empty.
func TestSweep(t *testing.T) {
	tree := newTestTree(t)
	if tree == nil {
		return
	}
	other := newTestTree(t) // sweeps
	require.NotNil(t, other)
	require.NotEqual(t, tree.Path(), other.Path())
	require.DirExists(t, tree.Path())
	dead := filepath.Join(filepath.Dir(tree.Path()), treePrefix+"dead-"+strings.ToLower(t.Name()))
	require.NoError(t, os.MkdirAll(filepath.Join(dead, "1"), 0o750))
	sweep(filepath.Dir(dead))
	require.NoDirExists(t, dead)
	require.DirExists(t, tree.Path())
}

// A cgroup that was removed is replaced by another; where the kernel refuses, there are none.
func TestDrop(t *testing.T) {
	tree := newTestTree(t)
	if tree == nil {
		return
	}
	g, err := tree.Take()
	require.NoError(t, err)
	require.NoError(t, os.Remove(g.path))
	require.True(t, tree.Drop(g))
	g, err = tree.Take()
	require.NoError(t, err)
	require.NotNil(t, g)
	require.False(t, tree.Drop(g))
	g, err = tree.Take()
	require.NoError(t, err)
	require.Nil(t, g)
}

func TestNoTree(t *testing.T) {
	var tree *Tree
	g, err := tree.Take()
	require.NoError(t, err)
	require.Nil(t, g)
	require.Zero(t, g.Number())
	require.Empty(t, tree.Path())
	tree.Give(g)
	tree.Close()
}
