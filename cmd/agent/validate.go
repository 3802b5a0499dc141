package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/internal/ops"
)

type validateCmd struct {
	Paths []string `arg:"" optional:"" name:"path" help:"Configuration files and directories."`
}

// Help gives examples.
func (validateCmd) Help() string {
	return `Reports all mistakes at once, each with file, line and what is allowed there. Exit 2 if there are any.

Examples:

    leasehold validate
    leasehold validate examples/ more.hcl
    leasehold validate -o json`
}

// Run checks the configuration.
func (c validateCmd) Run(a *app) error {
	cfg, err := a.readConfig(c.Paths)
	if err != nil {
		return err
	}
	names := []string{}
	for _, t := range cfg.Tasks {
		names = append(names, t.Name)
	}
	report := struct {
		Files []string `json:"files"`
		Types []string `json:"types"`
		Hash  string   `json:"hash"`

		Warnings []config.Warning `json:"warnings,omitempty"`
	}{cfg.Files, names, cfg.Hash, cfg.Warnings}
	for _, w := range cfg.Warnings {
		if _, err := fmt.Fprintf(a.err, "leasehold: warning: %s: %s\n", w.Place, ops.Printable(w.Text)); err != nil {
			return fmt.Errorf("write the warnings: %w", err)
		}
	}
	return a.print(report, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "OK: %s, %s (%s)\n",
			count(len(cfg.Files), "file"), count(len(names), "task type"), cfg.Hash)
		return err
	})
}

// loadConfig loads what the arguments and --config name, else what LEASEHOLD_CONFIG names, else ./leasehold.hcl.
func (a *app) loadConfig(args []string) (*config.Config, error) {
	return config.Load(a.configPaths(args), config.Options{})
}

// readConfig is loadConfig for those who only look: what `leasehold config` printed, its secrets redacted, will do.
func (a *app) readConfig(args []string) (*config.Config, error) {
	return config.Load(a.configPaths(args), config.Options{Redacted: true})
}

// configPaths lists the named paths; none: the default.
func (a *app) configPaths(args []string) []string {
	if paths := slices.Concat(args, a.cli.Config); len(paths) > 0 {
		return paths
	}
	return filepath.SplitList(os.Getenv("LEASEHOLD_CONFIG"))
}

// count is "1 file", "2 files".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
