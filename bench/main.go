// Command bench measures Leasehold beside its peers, on one throwaway Postgres. `make bench` runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/leasehold/leasehold/bench/leasehold"
	"github.com/leasehold/leasehold/bench/raw"
	"github.com/leasehold/leasehold/bench/report"
	"github.com/leasehold/leasehold/bench/rig"
	"github.com/leasehold/leasehold/bench/river"
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

// inProcess are the contenders that this binary is itself.
func inProcess() map[string]work.Contender {
	return map[string]work.Contender{"leasehold": leasehold.Contender{}, "river": river.Contender{}, "raw": raw.Contender{}}
}

type options struct {
	only     []string
	peers    []string
	rounds   int
	scale    float64
	profile  string
	targets  string
	graphile string
	workers  map[string]int
	patience time.Duration
}

func parse(args []string) (*options, error) {
	var o options
	var only, peers, workers string
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	var names []string
	for _, s := range suite.Scenarios() {
		names = append(names, s.Name)
	}
	f.StringVar(&only, "only", "", "measure only these, separated by commas: "+strings.Join(names, ", "))
	f.StringVar(&peers, "peers", "leasehold,raw,river,graphile", "who takes part, separated by commas")
	f.StringVar(&workers, "workers", "", "workers in place of a contender's own: leasehold=200,river=500")
	f.DurationVar(&o.patience, "patience", 5*time.Minute, "how long to wait for a quiet machine, and repeat what others disturbed, in all")
	f.IntVar(&o.rounds, "rounds", 5, "how often each is measured")
	f.Float64Var(&o.scale, "scale", 1, "multiplies all numbers of rows")
	f.StringVar(&o.graphile, "graphile", "graphile", "the `directory` of graphile-worker, with its packages")
	f.StringVar(&o.profile, "profile", "", "a `directory` for CPU profiles of Leasehold")
	f.StringVar(&o.targets, "targets", "targets.json", "the `file` of targets; \"\": none are checked")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if o.rounds < 1 || o.scale <= 0 {
		return nil, errors.New("rounds and scale have to be positive")
	}
	if only != "" {
		o.only = strings.Split(only, ",")
		for _, n := range o.only {
			if !slices.Contains(names, n) {
				return nil, fmt.Errorf("there is no scenario %q, but %s", n, strings.Join(names, ", "))
			}
		}
	} else {
		o.only = names
	}
	o.peers = strings.Split(peers, ",")
	o.workers = make(map[string]int)
	for pair := range strings.SplitSeq(workers, ",") {
		name, number, _ := strings.Cut(pair, "=")
		if name == "" {
			continue
		}
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("workers of %s have to be a positive number: %q", name, number)
		}
		o.workers[name] = n
	}
	return &o, nil
}

// contenders are those that take part.
func (o *options) contenders() ([]rig.Contender, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	all := []rig.Contender{
		{
			Name: "leasehold", Finished: `SELECT count(*) FROM leasehold.task_archive WHERE state = 'succeeded'`,
			Producer: rig.SQLProducer(`INSERT INTO leasehold.task (type, payload) VALUES ('` + work.TaskType + `', $1)`),
		},
		{
			Name: "raw", Finished: `SELECT count(*) FROM archive`,
			Producer: rig.SQLProducer(`INSERT INTO task (type, payload) VALUES ('` + work.TaskType + `', $1)`),
		},
		{
			Name: "river", Finished: `SELECT count(*) FROM river_job WHERE state = 'completed'`,
			Producer: func(ctx context.Context, url string) (rig.Producer, error) { return river.NewProducer(ctx, url) },
		},
	}
	all = append(all, rig.Contender{
		// What it has done it deletes, and what has failed stays.
		Name: "graphile", Command: []string{"node", filepath.Join(o.graphile, "main.mjs")},
		Finished: `SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence('graphile_worker._private_jobs', 'id')::regclass), 0)
			- count(*) FROM graphile_worker._private_jobs`,
		Producer: rig.SQLProducer(`SELECT graphile_worker.add_job('` + work.TaskType + `', $1::json)`),
	})
	var found []rig.Contender
	for _, name := range o.peers {
		i := slices.IndexFunc(all, func(c rig.Contender) bool { return c.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("no such contender: %q", name)
		}
		if all[i].Command == nil {
			all[i].Command = []string{self, asContender, name}
		}
		all[i].Workers = o.workers[name]
		found = append(found, all[i])
	}
	return found, nil
}

// measure measures what was asked for and tells whether all targets were reached.
func (o *options) measure(ctx context.Context) (ok bool, err error) {
	began := time.Now()
	peers, err := o.contenders()
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
		Rounds: o.rounds, Scale: o.scale, Profile: o.profile, Peers: peers, Progress: os.Stderr,
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
