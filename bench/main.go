// Command bench measures Leasehold beside its peers, on one throwaway Postgres. `make bench` runs it.
package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/leasehold/leasehold/bench/leasehold"
	"github.com/leasehold/leasehold/bench/report"
	"github.com/leasehold/leasehold/bench/rig"
	"github.com/leasehold/leasehold/bench/suite"
	"github.com/leasehold/leasehold/bench/work"
)

func main() {
	if leasehold.IsGuardian(os.Args[1:]) {
		syscall.Exit(leasehold.Guardian())
	}
	if len(os.Args) == 2 && os.Args[1] == work.AsWorker {
		if err := work.RunWorker(os.Stdin, os.NewFile(3, "replies")); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
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
	if o.base != "" {
		return o.compare(ctx)
	}
	return o.measure(ctx)
}

// measure measures what was asked for and reports whether all targets were reached.
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
		Rounds: o.rounds, Scale: o.scale, Profile: o.profile, Peers: peers, Files: files, Progress: os.Stderr,
		Pooler: os.Getenv("LEASEHOLD_TEST_POOLER"), Patience: o.patience,
	}
	for _, scenario := range suite.Scenarios() {
		if !slices.Contains(o.only, scenario.Name) {
			continue
		}
		if err := scenario.Run(ctx, s); err != nil {
			return false, err
		}
	}
	if len(s.Book.Scenarios()) == 0 {
		return false, fmt.Errorf("nothing was measured %v", s.LeftOut)
	}
	about := fmt.Sprintf("PostgreSQL %s (%s), %s, %d cores; %s; %d rounds, %.0f s in all",
		pg.Version, pg.Settings, runtime.Version(), runtime.NumCPU(), versions(s.Versions), o.rounds, time.Since(began).Seconds())
	verdict, reached := report.Check(s.Book, targets)
	fmt.Fprintf(os.Stdout, "\n%s\n%s\n%s", about, s.Book, verdict) //nolint:errcheck // where would one say that stdout is broken?
	for _, what := range s.LeftOut {
		fmt.Fprintln(os.Stderr, "left out:", what)
	}
	if o.record == "" {
		return reached, nil
	}
	return reached, report.Record(o.record, report.Markdown(about, s.Book, targets))
}

// versions lists those of contenders.
func versions(of map[string]string) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		all = append(all, name+" "+of[name])
	}
	return strings.Join(all, ", ")
}
