package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/leasehold/leasehold/internal/config"
)

type initCmd struct {
	Worker string `help:"Write a worker, which runs many attempts in one process, in that language: ${enum}." enum:",python,node,php,ruby,shell,go" default:"" placeholder:"LANGUAGE"`

	Dir string `arg:"" optional:"" default:"." help:"Directory to write to; it must exist."`
}

// Help gives examples.
func (initCmd) Help() string {
	return `Writes leasehold.hcl and hello.sh; it never overwrites a file. To try them:

    leasehold init
    leasehold dev
    leasehold enqueue hello --wait      # in another terminal

With --worker, the script is one that is started once and runs many tasks:

    leasehold init --worker python
    leasehold worker-check -- python3 worker.py`
}

//go:embed template/leasehold.hcl
var initialConfig []byte

//go:embed template/hello.sh
var initialScript []byte

// initialFile is a file that init writes.
type initialFile struct {
	name    string
	content []byte
	mode    fs.FileMode
}

// Run writes the files, or none where one is there already.
func (c initCmd) Run(a *app) error {
	files := []initialFile{
		{config.DefaultPath, initialConfig, 0o644},
		{"hello.sh", initialScript, 0o755},
	}
	first := ""
	if c.Worker != "" {
		w := initialWorkers()[c.Worker]
		var err error
		if files, err = w.files(); err != nil {
			return err
		}
		first = w.first
	}
	if _, err := os.Stat(c.Dir); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("directory %s does not exist: create it first", c.Dir)
	}
	for _, f := range files {
		path := filepath.Join(c.Dir, f.name)
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("%s already exists, and init overwrites nothing: "+
				"use another directory (`leasehold init DIR`)", path)
		}
	}
	for _, f := range files {
		if err := writeNew(filepath.Join(c.Dir, f.name), f.content, f.mode); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(a.out, `wrote %s and %s

%sNext: leasehold dev
and:  leasehold enqueue hello --wait   (in another terminal)
`, filepath.Join(c.Dir, files[0].name), filepath.Join(c.Dir, files[1].name), first)
	return err
}

// writeNew writes a file that is not there yet.
func writeNew(path string, content []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
