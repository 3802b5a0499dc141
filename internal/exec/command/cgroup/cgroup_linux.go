// Package cgroup gives each attempt a control group of its own where a cgroup v2 hierarchy lets the agent make some
// (cgroups(7)): what a process leaves there, or clears from its environment, it stays in its cgroup, and cgroup.kill
// ends all of it at once.
//
// To make and remove one for each attempt costs 10 to 20 % of a spawn, to start a process in one that is there 2 to 3 %; so they are
// used again.
//
// But not one in which anything was ever killed: since Linux 6.14 (seen on 6.18) a process that is started in such a
// cgroup is killed at its birth, since fork compares how often its parent's cgroup was killed with how often its own was.
package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// The tree of an agent stands below its own cgroup: leasehold-<pid>/<number> for attempts, and leasehold-<pid>/left for
// what attempts that ended by themselves have left running on purpose.
const (
	treePrefix = "leasehold-"
	leftName   = "left"

	mode = 0o750
)

// Tree is an agent's cgroups. A nil *Tree is one where there are none.
type Tree struct {
	path string
	lock *os.File // held while the agent lives: others remove what is not locked

	mu         sync.Mutex
	free       []*Group
	retired    []*Group // that were free when Retire was called, and are yet to be removed
	generation int      // how often Retire was called
	last       int      // number that was given last
	off        bool     // nothing can be started in them after all, or the tree is closed
}

// Group is the cgroup of one attempt at a time. A nil *Group is none.
type Group struct {
	tree       *Tree
	path       string
	number     int
	generation int // the tree's when it was made
	dir        int // descriptors: an *os.File costs a call at each use
	events     int

	spoiled atomic.Bool // something was killed in it
}

// NewTree removes what dead agents have left, and makes a tree for this one; it is nil where that cannot be done.
func NewTree() *Tree {
	own := ownCgroup()
	if own == "" {
		return nil
	}
	sweep(own)
	t, err := newTree(own)
	if err != nil {
		return nil // not writable, mostly
	}
	return t
}

func newTree(own string) (*Tree, error) {
	t := &Tree{}
	if err := t.claim(filepath.Join(own, treePrefix+strconv.Itoa(os.Getpid()))); err != nil {
		return nil, err
	}
	err := t.usable()
	if err != nil {
		t.Close()
		return nil, fmt.Errorf("make cgroups below %s: %w", own, err)
	}
	return t, nil
}

// claim creates the tree's directory and locks it. Another agent that removes the cgroups of dead agents may remove the
// directory between the two; claim then creates one with another name.
func (t *Tree) claim(name string) error {
	const tries = 100
	t.path = name
	for n := 2; n < tries; n++ {
		err := os.Mkdir(t.path, mode)
		if err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		if err == nil && t.locked() {
			return nil
		}
		t.path = name + "-" + strconv.Itoa(n)
	}
	return fmt.Errorf("%s and %d names like it are taken", name, tries)
}

func (t *Tree) locked() bool {
	dir, err := os.Open(t.path)
	if err != nil {
		return false
	}
	if unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
		here, err := dir.Stat()
		there, err2 := os.Stat(t.path)
		if err == nil && err2 == nil && os.SameFile(here, there) {
			t.lock = dir
			return true
		}
	}
	_ = dir.Close()
	return false
}

// usable reports whether attempts can be given cgroups here.
func (t *Tree) usable() error {
	if err := os.Mkdir(filepath.Join(t.path, leftName), mode); err != nil {
		return err
	}
	g, err := t.Take()
	if err != nil {
		return err
	}
	defer t.Give(g)
	return g.writable() // before Linux 5.14 there is no cgroup.kill, and without it they are of no use
}

// Path is where the tree stands; "" where there is none.
func (t *Tree) Path() string {
	if t == nil {
		return ""
	}
	return t.path
}

// Retire takes every cgroup that there is out of use, because something may have been killed in any of them: those that
// are free now, and those that are in use once they come back. It does not block: Take removes them, one at each call.
func (t *Tree) Retire() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.generation++
	t.retired = append(t.retired, t.free...)
	t.free = nil
}

// removeRetired removes one cgroup that was retired, if there is one.
func (t *Tree) removeRetired() {
	t.mu.Lock()
	var g *Group
	if n := len(t.retired) - 1; n >= 0 {
		g, t.retired = t.retired[n], t.retired[:n]
	}
	t.mu.Unlock()
	if g != nil {
		g.remove()
	}
}

// Take gives an empty cgroup; nil where there are none.
func (t *Tree) Take() (*Group, error) {
	if t == nil {
		return nil, nil //nolint:nilnil // a nil Group is none
	}
	t.mu.Lock()
	if t.off {
		t.mu.Unlock()
		return nil, nil //nolint:nilnil // as above
	}
	if n := len(t.free) - 1; n >= 0 {
		g := t.free[n]
		t.free = t.free[:n]
		t.mu.Unlock()
		return g, nil
	}
	t.last++
	number, generation := t.last, t.generation
	t.mu.Unlock()
	t.removeRetired() // there are none while one is free
	return t.make(number, generation)
}

func (t *Tree) make(number, generation int) (g *Group, err error) {
	g = &Group{
		tree: t, number: number, generation: generation, path: filepath.Join(t.path, strconv.Itoa(number)), dir: -1, events: -1,
	}
	if err = os.Mkdir(g.path, mode); err != nil {
		return nil, fmt.Errorf("make a cgroup: %w", err)
	}
	if g.dir, err = unix.Open(g.path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
		g.events, err = unix.Openat(g.dir, "cgroup.events", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		g.remove()
		return nil, fmt.Errorf("make a cgroup: %w", err)
	}
	return g, nil
}

// Give takes a cgroup back once its attempt is over. What is left in it on purpose goes on elsewhere.
func (t *Tree) Give(g *Group) {
	if g == nil {
		return
	}
	if !g.Empty() && !g.moveOut() {
		g.close() // left where it is: it dies with the agent
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.off || g.spoiled.Load() || g.generation != t.generation {
		g.remove()
		return
	}
	t.free = append(t.free, g)
}

// Drop gives up on a cgroup in which nothing could be started, and with it on all of them, if it was made a moment ago
// or is there no longer. A process that was started there would fail just the same.
func (t *Tree) Drop(g *Group) (gone bool) {
	_, err := os.Stat(g.path)
	gone = errors.Is(err, os.ErrNotExist)
	g.remove()
	if !gone {
		t.mu.Lock()
		t.off = true
		t.mu.Unlock()
	}
	return gone
}

// Close removes the tree; what attempts have left running on purpose keeps its cgroup. No attempt may run.
func (t *Tree) Close() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.off = true
	for _, g := range append(t.free, t.retired...) {
		g.remove()
	}
	t.free, t.retired = nil, nil
	Remove(t.path)
	if t.lock != nil {
		_ = t.lock.Close()
	}
}

// Number is the cgroup's within its tree; 0 for none.
func (g *Group) Number() int {
	if g == nil {
		return 0
	}
	return g.number
}

// FD is the cgroup's directory, to start a process in (SysProcAttr.CgroupFD).
func (g *Group) FD() int { return g.dir }

// Empty reports whether nothing lives in the cgroup. "No" may mean that this cannot be determined.
func (g *Group) Empty() bool {
	var text [128]byte
	n, err := unix.Pread(g.events, text[:], 0)
	return err == nil && strings.Contains(string(text[:n]), "populated 0")
}

// Kill kills all that lives in the cgroup.
func (g *Group) Kill() {
	g.Spoil()
	kill(g.path)
}

// Spoil says that something may have been killed in the cgroup, by whomever: it is not used again.
func (g *Group) Spoil() {
	if g != nil {
		g.spoiled.Store(true)
	}
}

// moveOut moves what lives in the cgroup to where it is left alone. It is false where that did not succeed.
func (g *Group) moveOut() bool {
	const rounds = 100 // more than anything but a fork bomb needs
	for range rounds {
		text, err := os.ReadFile(filepath.Join(g.path, "cgroup.procs"))
		if err != nil {
			return false
		}
		for pid := range strings.Lines(string(text)) {
			// An error mostly says that the process has ended.
			_ = os.WriteFile(filepath.Join(g.tree.path, leftName, "cgroup.procs"), []byte(pid), 0o600)
		}
		if g.Empty() {
			return true
		}
	}
	return false
}

// writable reports whether processes may be put into the cgroup and killed there.
func (g *Group) writable() error {
	for _, name := range []string{"cgroup.kill", "cgroup.procs"} {
		f, err := os.OpenFile(filepath.Join(g.path, name), os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_ = f.Close() // nothing was written
	}
	return nil
}

func (g *Group) close() {
	for _, fd := range []*int{&g.dir, &g.events} {
		if *fd >= 0 {
			_ = unix.Close(*fd)
			*fd = -1 // its number may be another's soon
		}
	}
}

func (g *Group) remove() {
	g.close()
	_ = os.Remove(g.path) // it stays where something lives in it
}

func kill(path string) {
	// An error says that it is gone, or that nothing can be done.
	_ = os.WriteFile(filepath.Join(path, "cgroup.kill"), []byte("1"), 0o600)
}

// KillIn kills all that lives in the cgroup with that number of the tree at that path, and reports whether nothing does.
func KillIn(tree string, number int) (empty bool) {
	path := filepath.Join(tree, strconv.Itoa(number))
	kill(path)
	return emptyAt(path)
}

func emptyAt(path string) bool {
	text, err := os.ReadFile(filepath.Join(path, "cgroup.events"))
	return errors.Is(err, os.ErrNotExist) || err == nil && strings.Contains(string(text), "populated 0")
}

// KillAll kills all that lives in the attempts' cgroups of a tree, and reports whether nothing does.
func KillAll(tree string) (empty bool) {
	entries, err := os.ReadDir(tree)
	if err != nil {
		return true // it is gone
	}
	empty = true
	for _, e := range entries {
		if number, err := strconv.Atoi(e.Name()); err == nil && e.IsDir() && !KillIn(tree, number) {
			empty = false
		}
	}
	return empty
}

// Remove removes the tree as far as nothing lives in it.
func Remove(tree string) {
	entries, err := os.ReadDir(tree)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.IsDir() {
			_ = os.Remove(filepath.Join(tree, e.Name()))
		}
	}
	_ = os.Remove(tree)
}

// sweep removes the trees of dead agents: those whose lock is free.
func sweep(own string) {
	trees, err := filepath.Glob(filepath.Join(own, treePrefix+"*"))
	if err != nil {
		return
	}
	for _, tree := range trees {
		dir, err := os.Open(tree)
		if err != nil {
			continue
		}
		if unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			Remove(tree)
		}
		_ = dir.Close()
	}
}

// ownCgroup is the directory of the agent's own cgroup in the v2 hierarchy; "" where there is none.
func ownCgroup() string {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	return find(string(groups), string(mounts))
}

// find reads it from /proc/self/cgroup and /proc/self/mountinfo (cgroups(7), proc_pid_mountinfo(5)).
func find(groups, mounts string) string {
	own := ""
	for line := range strings.Lines(groups) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			own = strings.TrimSuffix(path, "\n")
		}
	}
	if !strings.HasPrefix(own, "/") || strings.HasPrefix(own, "/..") { // outside of what the namespace shows
		return ""
	}
	for line := range strings.Lines(mounts) {
		// id parent major:minor root mountpoint options optional… - type source superoptions
		before, after, _ := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if len(fields) < 6 || !strings.HasPrefix(after, "cgroup2 ") {
			continue
		}
		root, at := fields[3], unescape(fields[4])
		rest, ok := strings.CutPrefix(own+"/", strings.TrimSuffix(root, "/")+"/")
		if !ok {
			continue // it shows another part of the hierarchy
		}
		return filepath.Join(at, rest)
	}
	return ""
}

// unescape reads the octal escapes of a mount point.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}
