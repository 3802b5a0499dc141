package main

import (
	"strings"

	"github.com/leasehold/leasehold/internal/ops"
)

type showConfigCmd struct {
	Paths []string `arg:"" optional:"" name:"path" help:"Configuration files and directories."`
}

// Help gives examples.
func (showConfigCmd) Help() string {
	return `Prints the configuration with every default filled in. Values of env and file are printed as calls of these functions, literal
secrets as "(redacted)". The output is a valid configuration with the same meaning.

Examples:

    leasehold config
    leasehold config examples/billing.hcl > effective.hcl`
}

// Run prints the configuration.
func (c showConfigCmd) Run(a *app) error {
	cfg, err := a.readConfig(c.Paths)
	if err != nil {
		return err
	}
	var text strings.Builder
	if err := cfg.Effective(&text); err != nil {
		return err
	}
	if a.cli.Output == "table" {
		shown := text.String()
		if a.terminal { // it repeats what stands in the files
			shown = ops.Printable(shown)
		}
		_, err := a.out.WriteString(shown)
		return err
	}
	return a.print(map[string]any{"files": cfg.Files, "hash": cfg.Hash, "hcl": text.String()}, nil)
}
