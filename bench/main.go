// Command bench measures Leasehold beside its peers, on one throwaway Postgres. `make bench` runs it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/leasehold/leasehold/bench/report"
	"github.com/leasehold/leasehold/bench/rig"
	"github.com/leasehold/leasehold/bench/suite"
	"github.com/leasehold/leasehold/bench/work"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ok, err := run(ctx, os.Args[1:])
	stop()
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	case !ok:
		os.Exit(1)
	}
}

// asContender is the first argument of a measured process; the second is whose.
const asContender = "contender"

func run(ctx context.Context, args []string) (ok bool, err error) {
	if len(args) == 2 && args[0] == asContender {
		c, known := inProcess()[args[1]]
		if !known {
			return false, fmt.Errorf("no such contender: %q", args[1])
		}
		return true, work.Serve(ctx, os.Stdin, os.Stdout, c)
	}
	o, err := parse(args)
	if err != nil {
		return false, err
	}
	return o.measure(ctx)
}

// measure measures what was asked for and tells whether all targets were reached.
func (o *options) measure(ctx context.Context) (ok bool, err error) {
	began := time.Now()
	peers, files, err := o.contenders()
	if err != nil {
		return false, err
	}
	var targets []report.Target
	if o.targets != "" {
		if targets, err = report.ReadTargets(o.targets); err != nil {
			return false, err
		}
	}
	if o.profile != "" {
		if o.profile, err = filepath.Abs(o.profile); err != nil {
			return false, err
		}
		if err := os.MkdirAll(o.profile, 0o750); err != nil {
			return false, err
		}
	}
	pg, err := rig.Connect(ctx, os.Getenv(rig.Variable))
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, pg.Close(context.WithoutCancel(ctx))) }()
	server, err := rig.StartServer(ctx)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	s := &suite.Suite{
		Rig: &rig.Rig{Postgres: pg, Server: server}, Book: report.NewBook(), Versions: make(map[string]string),
		Rounds: o.rounds, Scale: o.scale, Profile: o.profile, Peers: peers, Files: files, Pooler: os.Getenv("LEASEHOLD_TEST_POOLER"), Progress: os.Stderr,
		Patience: o.patience,
	}
	for _, scenario := range suite.Scenarios() {
		if !slices.Contains(o.only, scenario.Name) {
			continue
		}
		if err := scenario.Run(ctx, s); err != nil {
			return false, err
		}
	}
	verdict, reached := report.Check(s.Book, targets)
	_, err = fmt.Fprintf(os.Stdout, "\nPostgreSQL %s (%s), %s, %d cores; %v; %d rounds, %.0f s in all\n%s\n%s",
		pg.Version, pg.Settings, runtime.Version(), runtime.NumCPU(), s.Versions, o.rounds, time.Since(began).Seconds(), s.Book, verdict)
	return reached, err
}
