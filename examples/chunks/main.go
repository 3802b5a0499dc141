// Command chunks processes a table of a million rows while rows are added to it: a plan cuts the table into chunks, and a program in
// Python processes each. Agents are added and killed on the way. In the end each row must have been marked once. It needs Go and
// python3, prints what it does, and fails where something is not as it should be.
package main

import (
	"context"
	"embed"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/leasehold/leasehold/examples/internal/stage"
)

//go:embed leasehold.hcl events.py
var files embed.FS

const (
	longest   = 5 * time.Minute // of one play: it takes one, and a busy machine is slower
	exitUsage = 2               // something must be installed, or given otherwise
)

// errUsage says what the user has to change.
type errUsage string

func (e errUsage) Error() string { return string(e) }

func main() {
	leasehold := flag.String("leasehold", "bin/leasehold", "the agent's `binary`")
	rows := flag.Int("rows", 1_000_000, "how many `rows` the table has at first, at least 10000")
	flag.Parse()
	// A terminal that is gone, or a reader, is one more reason to tidy up.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	defer stop()
	if err := run(ctx, *leasehold, *rows); err != nil {
		fmt.Fprintln(os.Stderr, "chunks:", err)
		stop()
		if _, usage := errors.AsType[errUsage](err); usage {
			os.Exit(exitUsage) //nolint:gocritic // stop has been called
		}
		os.Exit(1)
	}
}

// run plays all of it.
func run(ctx context.Context, binary string, rows int) error {
	python, err := exec.LookPath("python3")
	if err != nil {
		return errUsage("python3 is not there, and the processor of this example is written in Python: " +
			"install Python 3.9 or newer (apt install python3, brew install python)")
	}
	if rows < 10_000 || rows > 100_000_000 {
		return errUsage("-rows must be from 10000 to 100000000")
	}
	o := stage.Options{Name: "chunks", Binary: binary, Most: longest, Files: files}
	return stage.Run(ctx, o, func(ctx context.Context, s *stage.Stage) error {
		address, err := stage.FreeAddress(ctx)
		if err != nil {
			return err
		}
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return err
		}
		file := filepath.Join(s.Dir, "events.db")
		s.Env = append(s.Env, "DATABASE_URL=sqlite:leasehold.db", "APP_DATABASE_URL=sqlite:"+file, "PORT="+port, "APP_URL=http://"+address,
			"WEBHOOK_SECRET="+stage.Secret())
		p := &scenario{Stage: s, python: python, address: address, rows: rows}
		return p.all(ctx, file)
	})
}
