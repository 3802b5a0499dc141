package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/leasehold/leasehold/bench/leasehold"
	"github.com/leasehold/leasehold/bench/raw"
	"github.com/leasehold/leasehold/bench/rawfile"
	"github.com/leasehold/leasehold/bench/rig"
	"github.com/leasehold/leasehold/bench/river"
	"github.com/leasehold/leasehold/bench/work"
)

// inProcess are the contenders that this binary is itself.
func inProcess() map[string]work.Contender {
	return map[string]work.Contender{
		"leasehold": leasehold.Contender{}, "river": river.Contender{}, "raw": raw.Contender{}, "rawfile": rawfile.Contender{},
	}
}

// contenders are those that take part, on Postgres and on SQLite files.
func (o *options) contenders() (peers, files []rig.Contender, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	of := func(name string) []string { return []string{self, asContender, name} }
	if peers, err = o.pick(o.onPostgres(of), o.peers); err != nil {
		return nil, nil, err
	}
	known := onFiles(of)
	var there []string
	for _, name := range o.peers {
		if slices.ContainsFunc(known, func(c rig.Contender) bool { return c.Name == name }) {
			there = append(there, name)
		}
	}
	files, err = o.pick(known, there)
	return peers, files, err
}

// pick finds contenders by name.
func (o *options) pick(all []rig.Contender, names []string) (found []rig.Contender, err error) {
	for _, name := range names {
		i := slices.IndexFunc(all, func(c rig.Contender) bool { return c.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("no such contender: %q", name)
		}
		all[i].Workers = o.workers[name]
		found = append(found, all[i])
	}
	return found, nil
}

func (o *options) onPostgres(of func(string) []string) []rig.Contender {
	return []rig.Contender{
		{
			Name: "leasehold", Command: of("leasehold"),
			Finished: `SELECT count(*) FROM leasehold.task_archive WHERE state = 'succeeded'`,
			Claim:    `%SKIP LOCKED%claim = $%fence = greatest(least(t.fence%`,
			Producer: rig.SQLProducer(`INSERT INTO leasehold.task (type, payload) VALUES ('` + work.TaskType + `', $1)`),
			Program:  o.program(),
		},
		{
			Name: "raw", Command: of("raw"),
			Finished: `SELECT count(*) FROM archive`,
			Claim:    `%FOR UPDATE SKIP LOCKED%claim = $%`,
			Producer: rig.SQLProducer(`INSERT INTO task (type, payload) VALUES ('` + work.TaskType + `', $1)`),
		},
		{
			Name: "river", Command: of("river"),
			Finished: `SELECT count(*) FROM river_job WHERE state = 'completed'`,
			Producer: func(ctx context.Context, url string) (rig.Producer, error) { return river.NewProducer(ctx, url) },
		},
		{
			// What it has done it deletes, and what has failed stays.
			Name: "graphile", Command: []string{"node", filepath.Join(o.graphile, "main.mjs")},
			Finished: `SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence('graphile_worker._private_jobs', 'id')::regclass), 0)
				- count(*) FROM graphile_worker._private_jobs`,
			Producer: rig.SQLProducer(`SELECT graphile_worker.add_job('` + work.TaskType + `', $1::json)`),
		},
	}
}

// program is the agent as it is released.
func (o *options) program() *rig.Program {
	command := func(dir, url, task string) ([]string, error) {
		path := filepath.Join(dir, "bench.hcl")
		text := "agent {\n listen = \"127.0.0.1:0\"\n}\ntask \"" + work.TaskType + "\" {\n" + task + "\n}\n"
		return []string{o.agent, "run", "--store", url, path}, os.WriteFile(path, []byte(text), 0o600)
	}
	return &rig.Program{
		Ready: "agent ready",
		Command: func(dir, url string) ([]string, error) {
			return command(dir, url, "webhook {\n url = \"http://127.0.0.1:9\"\n }")
		},
		Accepting: func(dir, url, target string) ([]string, error) {
			return command(dir, url, fmt.Sprintf("timeout = \"1h\"\nheartbeat = \"15s\"\nwebhook {\n url = %q\n async = true\n }", target))
		},
	}
}

func onFiles(of func(string) []string) []rig.Contender {
	return []rig.Contender{
		{
			Name: "leasehold", Command: of("leasehold"), File: true, Producer: rig.FileProducer,
			Finished: `SELECT count(*) FROM task_archive WHERE state = 'succeeded'`,
		},
		{
			Name: "raw", Command: of("rawfile"), File: true, Producer: rig.FileProducer,
			Finished: `SELECT count(*) FROM archive`,
		},
	}
}
