package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	r := release{log: func(line string) { _, _ = fmt.Fprintln(os.Stdout, line) }}
	platforms := flag.String("platforms", strings.Join(platforms(), ","), "which platforms to build for")
	flag.StringVar(&r.repository, "repository", "..", "the directory of the repository")
	flag.StringVar(&r.out, "out", "../dist", "the directory to write to; what an earlier release has left there is removed")
	flag.BoolVar(&r.dirty, "dirty", false, "build a tree with changes that are not committed; its version ends with +dirty")
	flag.Parse()
	r.platforms = strings.Split(*platforms, ",")
	err := r.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// platforms are those that a release is for, as GOOS/GOARCH.
func platforms() []string {
	return []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64"}
}

// release is one run of this command.
type release struct {
	repository, out string
	dirty           bool
	platforms       []string
	log             func(line string)

	toolchain string // the Go release, such as go1.26.8
	temporary string // what is not kept
}

func (r *release) run(ctx context.Context) (err error) {
	if r.repository, err = filepath.Abs(r.repository); err != nil {
		return err
	}
	if r.out, err = filepath.Abs(r.out); err != nil {
		return err
	}
	if err := r.clean(ctx); err != nil {
		return err
	}
	if r.toolchain, err = toolchain(r.repository); err != nil {
		return err
	}
	if r.temporary, err = os.MkdirTemp("", "leasehold-release"); err != nil {
		return err
	}
	defer func() {
		if e := os.RemoveAll(r.temporary); err == nil {
			err = e
		}
	}()
	if err := emptied(r.out); err != nil {
		return err
	}
	for _, platform := range r.platforms {
		b, err := r.build(ctx, platform)
		if err != nil {
			return fmt.Errorf("%s: %w", platform, err)
		}
		if err := r.pack(ctx, b); err != nil {
			return fmt.Errorf("%s: %w", platform, err)
		}
	}
	return r.sums()
}

// pack writes everything that is made of one binary.
func (r *release) pack(ctx context.Context, b *binary) error {
	modules, err := r.modules(ctx, b)
	if err != nil {
		return err
	}
	notices := noticesOf(modules)
	if err := r.write(b.name()+".cdx.json", func(path string) error { return writeSBOM(path, b, modules) }); err != nil {
		return err
	}
	files, err := r.files(b, notices)
	if err != nil {
		return err
	}
	if err := r.write(b.name()+".tar.gz", func(path string) error { return writeTarball(path, b, files) }); err != nil {
		return err
	}
	if b.os != "linux" {
		return nil
	}
	return r.write("leasehold_"+b.version()+"_"+b.arch+".deb", func(path string) error { return r.writeDeb(path, b, notices) })
}

// write has a file written in out, and prints its name and size.
func (r *release) write(name string, f func(path string) error) error {
	path := filepath.Join(r.out, name)
	if err := f(path); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	r.log(fmt.Sprintf("%10d  %s", info.Size(), path))
	return nil
}

// emptied makes a directory, or removes from it what an earlier release has left there, and nothing else.
func emptied(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // what is published is no secret
		return err
	}
	for _, pattern := range []string{"leasehold_*", sumsFile} {
		old, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return err
		}
		for _, file := range old {
			if err := os.Remove(file); err != nil {
				return err
			}
		}
	}
	return nil
}
