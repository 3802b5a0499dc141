package main

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasehold/leasehold/bench/suite"
)

type options struct {
	only     []string
	peers    []string
	rounds   int
	scale    float64
	profile  string
	targets  string
	graphile string
	base     string
	record   string
	agent    string
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
	f.StringVar(&o.base, "base", "", "compare with an earlier tree: the `directory` with its bin/bench and bin/leasehold")
	f.StringVar(&o.record, "record", "", "a `file` of Markdown that is to have what was measured, between its marks")
	f.StringVar(&o.agent, "agent", "bin/leasehold", "Leasehold's `binary`")
	f.StringVar(&o.profile, "profile", "", "a `directory` for CPU profiles of Leasehold")
	f.StringVar(&o.targets, "targets", "targets.json", "the `file` of targets; \"\": none are checked")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if o.rounds < 1 || o.scale <= 0 {
		return nil, errors.New("rounds and scale have to be positive")
	}
	switch {
	case only != "":
		o.only = strings.Split(only, ",")
		for _, n := range o.only {
			if !slices.Contains(names, n) {
				return nil, fmt.Errorf("there is no scenario %q, but %s", n, strings.Join(names, ", "))
			}
		}
	case o.base != "":
		o.only = worthwhile()
	default:
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
