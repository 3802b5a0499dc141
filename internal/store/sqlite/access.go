package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// Permissions of the file and of those that SQLite keeps beside it. SQLite gives -wal and -shm the mode of the database
// file whatever the umask, and its owner and group where root creates them (findCreateFileMode, robust_open and
// robustFchown in os_unix.c); so the database file has its mode before SQLite first sees it.
const (
	ownerOnly   fs.FileMode = 0o600
	withGroup   fs.FileMode = 0o660
	sharedDir   fs.FileMode = 0o070 // what a directory allows the group, beside the set-group-ID bit
	permissions fs.FileMode = 0o777
)

// access is who may use the file.
type access struct {
	group string // "" for the owner alone
	gid   int    // -1 for the process's own
}

// accessFor looks the group up, which is a name or a number.
func accessFor(group string) (access, error) {
	if group == "" {
		return access{gid: -1}, nil
	}
	number := group
	if g, err := user.LookupGroup(group); err == nil {
		number = g.Gid
	}
	gid, err := strconv.Atoi(number)
	if err != nil || gid < 0 {
		return access{}, fmt.Errorf("store.group: this host has no group %q: create it, or name another", group)
	}
	return access{group: group, gid: gid}, nil
}

func (a access) mode() fs.FileMode {
	if a.group == "" {
		return ownerOnly
	}
	return withGroup
}

// create makes the database file, empty, where there is none. O_EXCL follows no symbolic link, and at no
// moment has the file a mode that lets other users in.
func (a access) create(path string) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, ownerOnly)
	if errors.Is(err, fs.ErrExist) {
		return nil // it is not opened: closing any descriptor of it would end the locks that SQLite holds in this process
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("this user may not create a file in %s: %w", filepath.Dir(path), err)
	}
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = errors.Join(err, os.Remove(path))
		}
	}()
	if a.group != "" {
		if err := f.Chown(-1, a.gid); err != nil {
			return fmt.Errorf("store.group: this user cannot give a file to the group %s: "+
				"add the user to that group, or run as root: %w", a.group, err)
		}
	}
	return f.Chmod(a.mode()) // the umask may have taken bits away
}

// real is the path of the database file where symbolic links lead to it: SQLite keeps its other files beside that.
func (s *Store) real() string {
	if path, err := filepath.EvalSymlinks(s.path); err == nil {
		return path
	}
	return s.path
}

// files are the database and what SQLite keeps beside it, those of them that are there.
func (s *Store) files() []string {
	path := s.real()
	var found []string
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		if _, err := os.Lstat(path + suffix); err == nil {
			found = append(found, path+suffix)
		}
	}
	return found
}

// share gives the files that are there to the group, where one is declared and they are this user's.
func (s *Store) share() {
	if s.access.group == "" {
		return
	}
	for _, file := range s.files() {
		if err := s.access.apply(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.log.Warn("the group of the store may not be able to use it", "file", file, "group", s.access.group, "err", err,
				"remedy", fmt.Sprintf("chgrp %s %s && chmod 660 %s", s.access.group, file, file))
		}
	}
	dir := filepath.Dir(s.real())
	info, err := os.Stat(dir)
	if err != nil {
		return // the file in it is open
	}
	inherits := info.Mode()&fs.ModeSetgid != 0 || runtime.GOOS == "darwin" // there all directories hand on their group
	if inherits && info.Mode()&sharedDir == sharedDir && groupOf(info) == s.access.gid {
		return
	}
	s.log.Warn("the group of the store cannot create files in its directory, and SQLite keeps -wal and -shm files there",
		"dir", dir, "mode", info.Mode(), "group", s.access.group,
		"remedy", fmt.Sprintf("chgrp %s %s && chmod 2770 %s", s.access.group, dir, dir))
}

// warnOfOthers says which files others may use than were declared. It does not change them: an operator may have meant
// it.
func (s *Store) warnOfOthers() {
	var open []string
	for _, file := range s.open(s.access) {
		open = append(open, file.path)
	}
	if len(open) == 0 {
		return
	}
	s.log.Warn("other users of this host may use the store: they can read payloads and the key of ping URLs, and who can "+
		"write it is an operator", "files", open,
		"remedy", fmt.Sprintf("chmod %o %s", s.access.mode(), strings.Join(open, " ")))
}

// openFile is a file that more users may use than should.
type openFile struct {
	path string
	mode fs.FileMode
}

// open lists the files that others may use than a allows.
func (s *Store) open(a access) (list []openFile) {
	for _, file := range s.files() {
		info, err := os.Lstat(file)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		if mode := info.Mode() & permissions; mode&^a.mode() != 0 {
			list = append(list, openFile{file, mode})
		}
	}
	return list
}

// ours refuses files that another user could have put there to have their mode changed.
func ours(info *syscall.Stat_t) error {
	switch {
	case info.Mode&syscall.S_IFMT != syscall.S_IFREG:
		return errors.New("it is not a regular file")
	case info.Nlink != 1:
		return errors.New("it has several names (hard links)")
	case int(info.Uid) != os.Geteuid():
		return fmt.Errorf("it belongs to another user (uid %d)", info.Uid)
	}
	return nil
}

func groupOf(info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Gid)
	}
	return -1
}

// done reports whether a file has the mode and group already.
func (a access) done(st *syscall.Stat_t) bool {
	return int(st.Gid) == a.gid && fs.FileMode(st.Mode)&permissions == a.mode()
}
