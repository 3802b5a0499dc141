package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/leasehold/leasehold/internal/exec/command"
	"github.com/leasehold/leasehold/internal/exec/worker"
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/task"
)

type workerCheckCmd struct {
	Argv    []string      `arg:"" passthrough:"" help:"The program and its arguments, after --."`
	Type    string        `help:"The type in the envelopes." default:"check"`
	Payload *string       `help:"JSON, @FILE, or - for standard input: the data of each attempt. Default: {}." placeholder:"JSON"`
	Timeout time.Duration `help:"How long an attempt may take, and the process to become ready." default:"10s"`
}

// Help gives examples.
func (workerCheckCmd) Help() string {
	return `Starts the command as an agent starts a worker, gives it some attempts, listens to what it says too late, and stops it. It prints
what is wrong, and exits with 3 if anything is. How an attempt ends is not checked: an error is as good as a result.

Examples:

    leasehold worker-check -- python3 worker.py
    leasehold worker-check --payload '{"invoice": 7}' -- php worker.php`
}

// checkStep is what the command prints as JSON of a step.
type checkStep struct {
	Step  string  `json:"step"`
	OK    bool    `json:"ok"`
	Wrong string  `json:"wrong,omitempty"`
	TookS float64 `json:"took_s"`
}

// Run checks the worker.
func (c workerCheckCmd) Run(a *app) error {
	payload, err := readDocument("--payload", c.Payload, a.in)
	if err != nil {
		return err
	}
	if payload == nil {
		payload = json.RawMessage("{}")
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	argv := c.Argv
	if len(argv) > 0 && argv[0] == "--" {
		argv = argv[1:]
	}
	if len(argv) == 0 {
		return usagef("no command is given: leasehold worker-check -- python3 worker.py")
	}
	t := c.declare(argv, dir)
	runner := command.New(command.Options{Log: slog.New(slog.DiscardHandler), Guardian: a.guardianFor(t)})
	defer runner.Close()
	var steps []checkStep
	check := worker.Check{Runner: runner, Type: t, Payload: payload, Found: func(f worker.Finding) {
		steps = append(steps, checkStep{Step: f.Step, OK: f.Wrong == "", Wrong: f.Wrong, TookS: f.Took.Seconds()})
		if a.cli.Output == "table" {
			err = errors.Join(err, a.showStep(f)) // as it goes
		}
	}}
	well := check.Run()
	if err == nil && a.cli.Output != "table" {
		err = a.print(steps, nil)
	}
	if err == nil && !well {
		err = &failure{code: exitDiffers}
	}
	return err
}

// showStep prints a step on a line, and below it what is wrong.
func (a *app) showStep(f worker.Finding) error {
	mark := "ok   "
	if f.Wrong != "" {
		mark = "WRONG"
	}
	_, err := fmt.Fprintf(a.out, "%s  %-48s %s\n", mark, f.Step, f.Took.Round(time.Millisecond))
	if f.Wrong != "" {
		_, err = fmt.Fprintf(a.out, "       %s\n", ops.Printable(f.Wrong))
	}
	return err
}

// declare is a type with the command as its worker.
func (c workerCheckCmd) declare(argv []string, dir string) *task.Type {
	args := make([]task.Argument, len(argv))
	for i, text := range argv {
		args[i] = task.Argument{
			Template: func(*task.Task) (string, error) { return text, nil }, Dash: strings.HasPrefix(text, "-"),
		}
	}
	return &task.Type{
		Name: c.Type, Workers: 1, Source: "worker-check",
		Policy: task.Policy{Timeout: c.Timeout, Stop: task.StopLength(task.DefaultGrace)},
		Target: &task.Command{
			Argv: args, Dir: dir, StopSignal: syscall.SIGTERM, StopGrace: task.DefaultGrace,
			Worker: &task.Worker{Processes: 1, Idle: time.Hour, Ready: c.Timeout},
		},
	}
}
