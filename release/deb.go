package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers the format
	"github.com/goreleaser/nfpm/v2/files"
)

// debVersion is a version as dpkg orders them: what comes before a release is older than it, and no dash separates a revision.
func debVersion(version string) string {
	return strings.ReplaceAll(strings.Replace(version, "-", "~", 1), "-", ".")
}

// writeDeb writes the Debian package. It installs the units and enables none: an agent starts once its administrator has configured it. The units
// have systemd make the user (DynamicUser=), so the package makes none.
func (r *release) writeDeb(to string, b *binary, notices string) (err error) {
	contents, err := r.debContents(b, notices)
	if err != nil {
		return err
	}
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "leasehold", Arch: b.arch, Platform: "linux", Version: debVersion(b.version()), VersionSchema: "none",
		Section: "admin", Priority: "optional", Maintainer: "Leasehold's maintainers <leasehold@users.noreply.github.com>",
		Homepage: "https://github.com/leasehold/leasehold", License: "Apache-2.0",
		Description: "agent that runs background tasks from a database table\n" +
			"Leasehold runs tasks that an application enqueues with a plain INSERT into\n" +
			"PostgreSQL or SQLite, as HTTP callbacks or as subprocesses.",
		MTime: b.time,
		Overridables: nfpm.Overridables{
			Recommends: []string{"ca-certificates"}, Suggests: []string{"postgresql"}, Contents: contents,
			Scripts: nfpm.Scripts{
				PostInstall: r.in("release/deb/postinst"), PreRemove: r.in("release/deb/prerm"), PostRemove: r.in("release/deb/postrm"),
			},
		},
	})
	if err := nfpm.PrepareForPackager(info, "deb"); err != nil {
		return err
	}
	packager, err := nfpm.Get("deb")
	if err != nil {
		return err
	}
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return packager.Package(info, f)
}

// debContents are the package's files. Units name the binary where the package has it.
func (r *release) debContents(b *binary, notices string) (list files.Contents, err error) {
	stage := filepath.Join(r.temporary, "deb")
	if err := os.MkdirAll(stage, 0o700); err != nil {
		return nil, err
	}
	add := func(kind, to, from string, mode os.FileMode) {
		list = append(list, &files.Content{
			Source: from, Destination: to, Type: kind,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: b.time},
		})
	}
	generated := func(to, text string) error {
		from := filepath.Join(stage, strings.ReplaceAll(to, "/", "_"))
		add("", to, from, 0o644)
		return os.WriteFile(from, []byte(text), 0o600)
	}
	const doc = "/usr/share/doc/leasehold/"
	add("", "/usr/bin/leasehold", b.path, 0o755)
	add("config", "/etc/leasehold/leasehold.hcl", r.in("release/leasehold.hcl"), 0o644)
	add("config", "/etc/leasehold/environment", r.in("release/environment"), 0o600)
	add("", doc+"README.md", r.in("README.md"), 0o644)
	add("", doc+"CHANGELOG.md", r.in("CHANGELOG.md"), 0o644)
	add("", doc+"commands.conf", r.in("deploy/leasehold.service.d/commands.conf"), 0o644)
	licence, err := os.ReadFile(r.in("LICENSE"))
	if err != nil {
		return nil, err
	}
	if err := generated(doc+"copyright", string(licence)+"\n\n"+notices); err != nil {
		return nil, err
	}
	for _, unit := range []string{"leasehold.service", "leasehold-migrate.service"} {
		text, err := os.ReadFile(r.in("deploy/" + unit))
		if err != nil {
			return nil, err
		}
		moved := strings.ReplaceAll(string(text), "=/usr/local/bin/leasehold ", "=/usr/bin/leasehold ")
		if err := generated("/lib/systemd/system/"+unit, moved); err != nil {
			return nil, err
		}
	}
	return list, nil
}
