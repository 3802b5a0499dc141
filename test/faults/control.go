//go:build linux

package faults

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// control is a page of memory that other processes see: by how much a clock is wrong, and whether a disk is full.
type control struct {
	path string
	page []byte
}

// newControl makes one, in a file that all users may read.
func newControl(path string) (*control, error) {
	c := &control{path: path}
	const size = 16
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o644); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // the page stays
	if c.page, err = unix.Mmap(int(file.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	return c, nil
}

func (c *control) word(i int) *int64 {
	return (*int64)(unsafe.Pointer(&c.page[8*i]))
}

// setClock sets by how much the clock is wrong.
func (c *control) setClock(offset time.Duration) { atomic.StoreInt64(c.word(0), int64(offset)) }

// setFull sets whether the disk is full.
func (c *control) setFull(full bool) {
	value := int64(0)
	if full {
		value = 1
	}
	atomic.StoreInt64(c.word(1), value)
}

func (c *control) close() error { return unix.Munmap(c.page) }
