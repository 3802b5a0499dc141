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
	Dir string `arg:"" optional:"" default:"." help:"Where to write; it must be there."`
}

// Help gives examples.
func (initCmd) Help() string {
	return `Writes leasehold.hcl and hello.sh, and overwrites nothing. From there:

    leasehold init
    leasehold dev
    leasehold enqueue hello --wait      # in another terminal`
}

//go:embed template/leasehold.hcl
var initialConfig []byte

//go:embed template/hello.sh
var initialScript []byte

// Run writes the files, or none where one is there already.
func (c initCmd) Run(a *app) error {
	files := []struct {
		name    string
		content []byte
		mode    fs.FileMode
	}{
		{config.DefaultPath, initialConfig, 0o644},
		{"hello.sh", initialScript, 0o755},
	}
	if _, err := os.Stat(c.Dir); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no directory %s: make it first", c.Dir)
	}
	for _, f := range files {
		path := filepath.Join(c.Dir, f.name)
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("%s is there already, and nothing is overwritten: "+
				"use another directory (`leasehold init DIR`)", path)
		}
	}
	for _, f := range files {
		if err := writeNew(filepath.Join(c.Dir, f.name), f.content, f.mode); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(a.out, `wrote %s and %s

Next: leasehold dev
and:  leasehold enqueue hello --wait   (in another terminal)
`, filepath.Join(c.Dir, files[0].name), filepath.Join(c.Dir, files[1].name))
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
