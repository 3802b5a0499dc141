package main

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// binary is the program for one platform, and what it says of itself.
type binary struct {
	path, os, arch string
	info           *buildinfo.BuildInfo
	time           time.Time // of the commit
	revision       string    // of the commit
}

// version is that of the binary without its v: 0.1.0, or 0.1.1-0.20261128012625-9869d0433bd0 between releases.
func (b *binary) version() string { return strings.TrimPrefix(b.info.Main.Version, "v") }

// name begins the names of the binary's files.
func (b *binary) name() string { return "leasehold_" + b.version() + "_" + b.os + "_" + b.arch }

// clean refuses a tree that no commit describes, and a directory that git does not know.
func (r *release) clean(ctx context.Context) error {
	c := exec.CommandContext(ctx, "git", "status", "--porcelain")
	c.Dir = r.repository
	out, err := c.Output()
	switch {
	case err != nil:
		return fmt.Errorf("a release is built from a clone, as its version is git's: git status in %s: %w: %s", r.repository, err, stderrOf(err))
	case len(out) > 0 && !r.dirty:
		return fmt.Errorf("these changes are not committed, so no one could build the same again: commit or stash them, "+
			"or build with DIRTY=1 what is not to be published\n%s", strings.TrimRight(string(out), "\n"))
	}
	return nil
}

func stderrOf(err error) string {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return strings.TrimSpace(string(exit.Stderr))
	}
	return ""
}

// toolchain is the Go release that the image is built with, so that image and tarballs have the same one. It is a part of the bytes.
func toolchain(repository string) (string, error) {
	file := filepath.Join(repository, "deploy", "Dockerfile")
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	m := regexp.MustCompile(`(?m)^FROM golang:(\d+\.\d+\.\d+)-`).FindSubmatch(text)
	if m == nil {
		return "", fmt.Errorf("%s: no line FROM golang:N.N.N-… names the Go release", file)
	}
	return "go" + string(m[1]), nil
}

// agrees compares a release's version with what the tree says of it. Between releases the two differ.
func (r *release) agrees(b *binary) error {
	version := b.version()
	if strings.ContainsAny(version, "-+") {
		return nil
	}
	for file, line := range map[string]string{
		"CHANGELOG.md": "## [" + version + "]", "deploy/helm/leasehold/Chart.yaml": `appVersion: "` + version + `"`,
	} {
		text, err := os.ReadFile(r.in(file))
		if err != nil {
			return err
		}
		if !strings.Contains(string(text), "\n"+line) {
			return fmt.Errorf("the tag is v%s, and %s has no line that begins with %q: see docs/releasing.md", version, file, line)
		}
	}
	return nil
}

// build builds the binary as `make build` does, so that what is released is what the tests have run: nothing is stripped, and govulncheck can
// read the symbols of a binary.
func (r *release) build(ctx context.Context, platform string) (*binary, error) {
	b := &binary{path: filepath.Join(r.temporary, "leasehold")}
	var ok bool
	if b.os, b.arch, ok = strings.Cut(platform, "/"); !ok {
		return nil, errors.New("a platform is OS/ARCH, such as linux/amd64")
	}
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=true", "-o", b.path, "./cmd/agent")
	c.Dir, c.Env, c.Stderr = r.repository, r.environment(b), os.Stderr
	if err := c.Run(); err != nil {
		return nil, fmt.Errorf("go build: %w", err)
	}
	var err error
	if b.info, err = buildinfo.ReadFile(b.path); err != nil {
		return nil, err
	}
	if err := r.check(b); err != nil {
		return nil, err
	}
	return b, r.agrees(b)
}

// environment has what the bytes depend on in place of what the caller has set. An empty variable would have the value of `go env -w`.
func (r *release) environment(b *binary) []string {
	return append(os.Environ(),
		"GOTOOLCHAIN="+r.toolchain, "GOFLAGS=-mod=readonly", "GOWORK=off", "CGO_ENABLED=0",
		"GOOS="+b.os, "GOARCH="+b.arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFIPS140=off",
	)
}

// check compares what the binary says of itself with what was asked for, and takes the commit from it.
func (r *release) check(b *binary) error {
	if b.info.GoVersion != r.toolchain { // an experiment of GOEXPERIMENT is a part of it
		return fmt.Errorf("it was built with %s, and deploy/Dockerfile has %s: unset GOEXPERIMENT, GOTOOLCHAIN and GOROOT", b.info.GoVersion, r.toolchain)
	}
	var err error
	for _, s := range b.info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.revision = s.Value
		case "vcs.time":
			b.time, err = time.Parse(time.RFC3339, s.Value)
		case "vcs.modified":
			if s.Value == "true" && !r.dirty {
				err = errors.New("the tree has changed during the build: try again")
			}
		}
		if err != nil {
			return err
		}
	}
	if b.revision == "" || b.time.IsZero() || !strings.HasPrefix(b.info.Main.Version, "v") {
		return fmt.Errorf("its version is %q, at commit %q of %s: build in a clone, as Go reads no version in a worktree",
			b.info.Main.Version, b.revision, b.time)
	}
	return nil
}
