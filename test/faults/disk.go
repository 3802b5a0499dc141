//go:build linux

package faults

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// smallDisk is a file system of its own for an agent's temporary files, which can be filled.
type smallDisk struct{ path string }

const diskSize = 4 << 20

// newSmallDisk mounts one. Only root may; err says that it could not be had.
func newSmallDisk(path string) (*smallDisk, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, err
	}
	if err := unix.Mount("tmpfs", path, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0755", diskSize)); err != nil {
		return nil, fmt.Errorf("mount a small disk: %w", err)
	}
	return &smallDisk{path}, nil
}

func (d *smallDisk) filler() string { return filepath.Join(d.path, "filler") }

// fill fills it to the last byte.
func (d *smallDisk) fill() error {
	file, err := os.Create(d.filler())
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // no more was to be written
	for page := make([]byte, 4096); err == nil; {
		_, err = file.Write(page)
	}
	return nil // that it is full was wanted
}

func (d *smallDisk) empty() error {
	if err := os.Remove(d.filler()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (d *smallDisk) close() error { return unix.Unmount(d.path, unix.MNT_DETACH) }
