//go:build linux

package faults

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/leasehold/leasehold/test/harness"
)

// Programs are what a run is made of, built.
type Programs struct {
	Agent string // the agent, as it can be broken on purpose
	Next  string // the agent of the next version, with one migration more; "": there is none
	Child string // what it starts
	// Holder takes named leases.
	Holder string
	Shim   string // preloaded into PostgreSQL
}

const buildWithin = 10 * time.Minute

// Build builds them into a directory.
func Build(dir string) (Programs, error) {
	p := Programs{
		Agent: filepath.Join(dir, "leasehold"), Child: filepath.Join(dir, "child"), Holder: filepath.Join(dir, "holder"),
		Shim: filepath.Join(dir, "shim.so"),
	}
	here := filepath.Join(harness.Root(), "test", "faults")
	for _, args := range [][]string{
		{"go", "build", "-trimpath", "-buildvcs=false", "-tags", "faults", "-ldflags", "-checklinkname=0", "-o", p.Agent, "./cmd/agent"},
		{"go", "build", "-trimpath", "-buildvcs=false", "-o", p.Child, "./test/faults/child"},
		{"go", "build", "-trimpath", "-buildvcs=false", "-o", p.Holder, "./test/faults/holder"},
		{"cc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", p.Shim, filepath.Join(here, "shim", "shim.c"), "-ldl"},
	} {
		if err := run(harness.Root(), args...); err != nil {
			return p, err
		}
	}
	return p, nil
}

func run(dir string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), buildWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}
