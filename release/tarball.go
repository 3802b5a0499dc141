package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
)

// file is one that is delivered.
type file struct {
	name string // in the tarball
	mode os.FileMode
	text []byte
}

// files are those of a binary's tarball, sorted by name.
func (r *release) files(b *binary, notices string) ([]file, error) {
	sources := []struct {
		name, from string
		mode       os.FileMode
	}{
		{"leasehold", b.path, 0o755},
		{"LICENSE", r.in("LICENSE"), 0o644},
		{"README.md", r.in("README.md"), 0o644},
		{"CHANGELOG.md", r.in("CHANGELOG.md"), 0o644},
		{"leasehold.hcl", r.in("release/leasehold.hcl"), 0o644},
	}
	if b.os == "linux" {
		for _, unit := range []string{"leasehold.service", "leasehold-migrate.service", "leasehold.service.d/commands.conf"} {
			sources = append(sources, struct {
				name, from string
				mode       os.FileMode
			}{"systemd/" + unit, r.in("deploy/" + unit), 0o644})
		}
	}
	all := []file{{noticesFile, 0o644, []byte(notices)}}
	for _, s := range sources {
		text, err := os.ReadFile(s.from)
		if err != nil {
			return nil, err
		}
		all = append(all, file{s.name, s.mode, text})
	}
	slices.SortFunc(all, func(a, b file) int { return compare(a.name, b.name) })
	return all, nil
}

const noticesFile = "THIRD_PARTY_LICENSES"

func (r *release) in(name string) string {
	return filepath.Join(r.repository, filepath.FromSlash(name))
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// writeTarball writes the files below one directory. All belong to root and have the time of the commit, and gzip's header has none.
func writeTarball(to string, b *binary, files []file) (err error) {
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := tar.NewWriter(z)
	made := map[string]bool{}
	add := func(name string, mode os.FileMode, kind byte, text []byte) error {
		h := &tar.Header{
			Typeflag: kind, Name: path.Join(b.name(), name), Mode: int64(mode), Size: int64(len(text)), ModTime: b.time,
			Uname: "root", Gname: "root", Format: tar.FormatPAX,
		}
		if kind == tar.TypeDir {
			h.Name += "/"
		}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		_, err := w.Write(text)
		return err
	}
	for _, one := range files {
		for _, dir := range parents(one.name) {
			if made[dir] {
				continue
			}
			made[dir] = true
			if err := add(dir, 0o755, tar.TypeDir, nil); err != nil {
				return err
			}
		}
		if err := add(one.name, one.mode, tar.TypeReg, one.text); err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), z.Close())
}

// parents are the directories of a name, the outermost one first, which is ".".
func parents(name string) (dirs []string) {
	for dir := path.Dir(name); ; dir = path.Dir(dir) {
		dirs = append(dirs, dir)
		if dir == "." {
			slices.Reverse(dirs)
			return dirs
		}
	}
}
