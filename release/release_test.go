package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// command runs a program and returns what it prints.
func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b", "LC_ALL=C")
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s %s\n%s", name, args, out)
	return string(out)
}

// clone makes a clone in dir with the files as they are here, committed and tagged as a release.
func clone(t *testing.T, dir string) {
	t.Helper()
	command(t, ".", "git", "clone", "--quiet", "--shared", "--no-tags", "..", dir)
	for name := range strings.SplitSeq(strings.Trim(command(t, "..", "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"), "\x00"), "\x00") {
		from, to := filepath.Join("..", name), filepath.Join(dir, name)
		text, err := os.ReadFile(from)
		if os.IsNotExist(err) { // deleted, and not committed
			require.NoError(t, os.RemoveAll(to))
			continue
		}
		require.NoError(t, err)
		info, err := os.Stat(from)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
		require.NoError(t, os.WriteFile(to, text, info.Mode().Perm()))
		require.NoError(t, os.Chmod(to, info.Mode().Perm()))
	}
	// As its release would have it.
	changes := filepath.Join(dir, "CHANGELOG.md")
	text, err := os.ReadFile(changes)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(changes, []byte(strings.Replace(string(text), "## [Unreleased]\n", "## [Unreleased]\n\n## ["+version(t)+"]\n", 1)), 0o644))
	command(t, dir, "git", "add", "--all")
	command(t, dir, "git", "commit", "--quiet", "--allow-empty", "--message", "as it is here")
	command(t, dir, "git", "tag", "v"+version(t))
}

// version is that of the release which the tree is for.
func version(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../deploy/helm/leasehold/Chart.yaml")
	require.NoError(t, err)
	return regexp.MustCompile(`(?m)^version: (.+)$`).FindStringSubmatch(string(text))[1]
}

func made(t *testing.T, repository string) string {
	t.Helper()
	r := release{repository: repository, out: filepath.Join(t.TempDir(), "dist"), platforms: platforms()[:1], log: func(line string) { t.Log(line) }}
	if os.Getenv("LEASEHOLD_TEST_FULL") != "" {
		r.platforms = platforms()
	}
	require.NoError(t, r.run(t.Context()))
	return r.out
}

// TestPackage makes a release twice, in clones in different directories, with another umask, time zone and flags of the caller's.
func TestPackage(t *testing.T) {
	first, second := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "another directory")
	clone(t, first)
	out := made(t, first)
	command(t, ".", "git", "clone", "--quiet", first, second)
	t.Setenv("TZ", "Asia/Tokyo")
	t.Setenv("GOFLAGS", "-tags=other")
	t.Setenv("GOAMD64", "v3")
	before := syscall.Umask(0o077)
	defer syscall.Umask(before)
	again := made(t, second)
	names, err := filepath.Glob(filepath.Join(out, "*"))
	require.NoError(t, err)
	deb := filepath.Join(out, "leasehold_"+version(t)+"_amd64.deb")
	require.Contains(t, names, deb)
	for _, name := range names {
		a, err := os.ReadFile(name)
		require.NoError(t, err)
		b, err := os.ReadFile(filepath.Join(again, filepath.Base(name)))
		require.NoError(t, err)
		require.True(t, bytes.Equal(a, b), "%s has other bytes the second time", filepath.Base(name))
	}
	require.NotContains(t, command(t, out, "sha256sum", "--check", "--strict", sumsFile), "FAILED")

	tarball(t, first, out)
	contents(t, deb)
	dpkg(t, deb)
	t.Run("a tag that the chart does not know is refused", func(t *testing.T) {
		b := &binary{info: &buildinfo.BuildInfo{Main: debug.Module{Version: "v0.1.7"}}}
		require.ErrorContains(t, (&release{repository: first}).agrees(b), `has no line that begins with`)
	})
	t.Run("a changed tree is refused", func(t *testing.T) {
		require.NoError(t, os.WriteFile(filepath.Join(second, "new.go"), nil, 0o600))
		r := release{repository: second, out: filepath.Join(t.TempDir(), "dist")}
		err := r.run(t.Context())
		require.ErrorContains(t, err, "commit or stash them, or build with DIRTY=1")
		require.ErrorContains(t, err, "new.go")
		require.NoDirExists(t, r.out)
	})
}

// tarball looks at the tarball for Linux and its SBOM.
func tarball(t *testing.T, repository, out string) {
	t.Helper()
	name := "leasehold_" + version(t) + "_linux_amd64"
	f, err := os.Open(filepath.Join(out, name+".tar.gz"))
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	require.True(t, z.ModTime.IsZero())
	program := filepath.Join(t.TempDir(), "leasehold")
	var all []string
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		require.Equal(t, tar.Header{Uname: "root", Gname: "root"}, tar.Header{Uname: h.Uname, Gname: h.Gname, Uid: h.Uid, Gid: h.Gid}, h.Name)
		text, err := io.ReadAll(r)
		require.NoError(t, err)
		file := strings.TrimPrefix(h.Name, name+"/")
		all = append(all, file+" "+h.FileInfo().Mode().String())
		switch file {
		case "leasehold":
			require.NoError(t, os.WriteFile(program, text, 0o700))
		case noticesFile:
			require.Contains(t, string(text), "modernc.org/sqlite")
			require.Contains(t, string(text), "Go Authors")
		}
	}
	require.Equal(t, []string{
		" drwxr-xr-x", "CHANGELOG.md -rw-r--r--", "LICENSE -rw-r--r--", "README.md -rw-r--r--", "THIRD_PARTY_LICENSES -rw-r--r--",
		"leasehold -rwxr-xr-x", "leasehold.hcl -rw-r--r--", "systemd/ drwxr-xr-x", "systemd/leasehold-migrate.service -rw-r--r--",
		"systemd/leasehold.service -rw-r--r--", "systemd/leasehold.service.d/ drwxr-xr-x", "systemd/leasehold.service.d/commands.conf -rw-r--r--",
	}, all)
	require.Contains(t, command(t, ".", program, "version"), "leasehold v"+version(t)+" (go")
	require.Contains(t, command(t, ".", program, "version", "-o", "json"), strings.TrimSpace(command(t, repository, "git", "rev-parse", "HEAD")))

	t.Setenv("DATABASE_URL", "postgres://leasehold@db.internal/app")
	require.Contains(t, command(t, ".", program, "validate", "leasehold.hcl"), "OK")
	named(t, program, filepath.Join(out, name+".cdx.json"))
}

// named: the SBOM names every module of the binary, each with a licence, and the standard library.
func named(t *testing.T, program, sbom string) {
	t.Helper()
	text, err := os.ReadFile(sbom)
	require.NoError(t, err)
	var bom struct {
		SpecVersion  string
		SerialNumber string
		Components   []struct {
			Name, Version, PURL string
			Licenses            []any
		}
	}
	require.NoError(t, json.Unmarshal(text, &bom))
	require.Equal(t, "1.6", bom.SpecVersion)
	require.Empty(t, bom.SerialNumber)
	versions := map[string]string{}
	for _, c := range bom.Components {
		require.NotEmpty(t, c.Licenses, c.Name)
		versions[c.Name] = c.Version
	}
	info, err := buildinfo.ReadFile(program)
	require.NoError(t, err)
	require.NotEmpty(t, info.Deps)
	require.Len(t, bom.Components, len(info.Deps)+1)
	for _, m := range info.Deps {
		require.Equal(t, m.Version, versions[m.Path], m.Path)
	}
	require.Equal(t, strings.TrimPrefix(info.GoVersion, "go"), versions["stdlib"])
}

// contents looks at the package as dpkg-deb reads it.
func contents(t *testing.T, path string) {
	t.Helper()
	require.Equal(t, "leasehold "+version(t)+" amd64\n", command(t, ".", "dpkg-deb", "--show", "--showformat", "${Package} ${Version} ${Architecture}\n", path))
	var all []string
	for line := range strings.Lines(command(t, ".", "dpkg-deb", "--contents", path)) {
		f := strings.Fields(line)
		require.Equal(t, "root/root", f[1], line)
		if !strings.HasSuffix(f[5], "/") {
			all = append(all, f[0]+" "+f[5])
		}
	}
	const doc = "-rw-r--r-- ./usr/share/doc/leasehold/"
	require.ElementsMatch(t, []string{
		"-rwxr-xr-x ./usr/bin/leasehold", "-rw-r--r-- ./etc/leasehold/leasehold.hcl", "-rw------- ./etc/leasehold/environment",
		"-rw-r--r-- ./lib/systemd/system/leasehold.service", "-rw-r--r-- ./lib/systemd/system/leasehold-migrate.service",
		doc + "CHANGELOG.md", doc + "README.md", doc + "copyright", doc + "commands.conf",
	}, all)
}

// dpkg installs the package below a directory, removes and purges it.
func dpkg(t *testing.T, path string) {
	t.Helper()
	root := t.TempDir()
	require.NoError(t, os.Chmod(root, 0o755))
	for _, dir := range []string{"info", "updates", "triggers"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, "var/lib/dpkg", dir), 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(root, "var/lib/dpkg/status"), nil, 0o600))
	run := func(args ...string) {
		command(t, ".", "dpkg", append([]string{
			"--root=" + root, "--force-not-root,script-chrootless,depends,bad-path", "--force-confold", "--log=" + filepath.Join(root, "log"),
		}, args...)...)
	}
	config, wants := filepath.Join(root, "etc/leasehold/leasehold.hcl"), filepath.Join(root, "etc/systemd/system/multi-user.target.wants")
	run("--install", path)
	unit, err := os.ReadFile(filepath.Join(root, "lib/systemd/system/leasehold.service"))
	require.NoError(t, err)
	require.Contains(t, string(unit), "\nExecStart=/usr/bin/leasehold run --migrate ")
	require.NotContains(t, string(unit), "=/usr/local/")
	require.NoDirExists(t, wants, "it is not enabled")
	require.Contains(t, command(t, ".", filepath.Join(root, "usr/bin/leasehold"), "version"), "leasehold v"+version(t)+" ")

	require.NoError(t, os.WriteFile(config, []byte("# mine\n"), 0o644))
	run("--install", path)
	text, err := os.ReadFile(config)
	require.NoError(t, err)
	require.Equal(t, "# mine\n", string(text), "an update keeps the configuration")
	run("--remove", "leasehold")
	require.FileExists(t, config)
	require.NoFileExists(t, filepath.Join(root, "usr/bin/leasehold"))
	run("--purge", "leasehold")
	require.NoFileExists(t, config)
	left, err := filepath.Glob(filepath.Join(root, "etc/systemd/system/leasehold*"))
	require.NoError(t, err)
	require.Empty(t, left, "the mask goes with the rest")
}

// Versions between releases are ordered between them, as dpkg compares them.
func TestPackageVersions(t *testing.T) {
	ordered := []string{
		debVersion("0.1.0-0.20261101000000-000000000000"), debVersion("0.1.0-rc.1"), debVersion("0.1.0"),
		debVersion("0.1.1-0.20261128012625-9869d0433bd0"), debVersion("0.1.1-0.20261129012625-0869d0433bd0+dirty"), debVersion("0.1.1"),
	}
	for i := range len(ordered) - 1 {
		command(t, ".", "dpkg", "--compare-versions", ordered[i], "lt", ordered[i+1])
	}
}

func TestLicences(t *testing.T) {
	for text, want := range map[string][]string{
		"Permission is hereby granted, free\nof charge, to any person obtaining a copy":                                 {"MIT"},
		"Redistribution and use in source and binary forms, with or without\n// modification":                           nil,
		"Redistribution and use in source and binary forms, with or without\nmodification":                              {"BSD-2-Clause"},
		"Redistribution and use in source and binary forms, with or without modification. Neither the name of the ACME": {"BSD-3-Clause"},
		"Mozilla Public License, version 2.0":                                                                           {"MPL-2.0"},
		"All rights reserved":                                                                                           nil,
	} {
		require.Equal(t, want, licencesIn(text), text)
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "LICENSE"), []byte("Ask us."), 0o600))
	require.ErrorContains(t, (&module{path: "x"}).read(dir), "read it, and add it there if it permits this use")
}

// What is no clone has no version.
func TestWithoutGit(t *testing.T) {
	r := release{repository: t.TempDir(), out: t.TempDir()}
	require.ErrorContains(t, r.run(context.Background()), "a release is built from a clone")
}
