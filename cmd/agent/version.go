package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
)

type versionCmd struct{}

// Help gives examples.
func (versionCmd) Help() string {
	return "Examples:\n\n    leasehold version\n    leasehold version -o json"
}

// build is what a binary knows of itself.
type build struct {
	Version  string `json:"version"` // of the tag, or between tags; (devel) where git was not there
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"` // built from a tree with changes that were not committed
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// readBuild reads what the Go tool wrote into the binary.
func readBuild() build {
	b := build{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// String is the build in one line.
func (b build) String() string {
	if b.Commit == "" {
		return fmt.Sprintf("leasehold %s (built without git, %s, %s)", b.Version, b.Go, b.Platform)
	}
	return fmt.Sprintf("leasehold %s (%s, %s)", b.Version, b.Go, b.Platform)
}

// Run prints the version.
func (versionCmd) Run(a *app) error {
	b := readBuild()
	return a.print(b, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, b)
		return err
	})
}
