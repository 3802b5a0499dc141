package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// cli is the grammar: every command is a struct in a file of its own, with a Run method.
type cli struct {
	Config   []string `help:"${config_help}" placeholder:"PATH" sep:"none" group:"Everywhere:"`
	Store    string   `help:"${store_help}" placeholder:"URL" env:"LEASEHOLD_STORE" group:"Everywhere:"`
	Output   string   `short:"o" help:"Output format: ${enum}." enum:"table,json,jsonl" default:"table" group:"Everywhere:"`
	LogLevel string   `help:"Lowest level to log on stderr: ${enum}." enum:"debug,info,warn,error" default:"info" group:"Everywhere:"`

	ShowVersion kong.VersionFlag `name:"version" short:"v" help:"Print the version." group:"Everywhere:"`

	Init       initCmd         `cmd:"" help:"Write an example leasehold.hcl and the script it runs."`
	Dev        devCmd          `cmd:"" help:"Run an agent for development: migrates, and prints an INSERT to try."`
	Run        runCmd          `cmd:"" help:"Run the agent."`
	Try        tryCmd          `cmd:"" help:"Run one task now, without a store."`
	Check      workerCheckCmd  `cmd:"" name:"worker-check" help:"Check whether a command keeps to the protocol of workers."`
	Validate   validateCmd     `cmd:"" help:"Check the configuration."`
	ShowConfig showConfigCmd   `cmd:"" name:"config" help:"Print the effective configuration."`
	Plan       planCmd         `cmd:"" help:"Compare the configuration with what present agents declare."`
	Declared   declarationsCmd `cmd:"" name:"declarations" help:"List what agents declare, or the definitions that a task type has had."`
	Reload     reloadCmd       `cmd:"" help:"Have a running agent read its configuration again."`
	Health     healthCmd       `cmd:"" help:"Ask a running agent whether it is well."`
	Doctor     doctorCmd       `cmd:"" help:"Examine the store and the agents, and list what is wrong, with the remedy."`
	Migrate    migrateCmd      `cmd:"" help:"Show or migrate the store's schema."`
	Enqueue    enqueueCmd      `cmd:"" help:"Enqueue a task."`
	Task       taskCmd         `cmd:"" help:"List, show, explain, await, cancel, retry and roll back tasks."`
	Agents     agentsCmd       `cmd:"" help:"List agents, and have them drain or claim nothing."`
	Pause      pauseCmd        `cmd:"" help:"Have all agents claim no tasks of a type, or list the types that are paused."`
	Resume     resumeCmd       `cmd:"" help:"Have agents claim tasks of a paused type again."`
	Orphans    orphansCmd      `cmd:"" help:"List the types of waiting tasks that no running agent declares, and move or cancel these."`
	Batch      batchCmd        `cmd:"" help:"Create, follow, cancel, retry and roll back batches of tasks."`
	Schedule   scheduleCmd     `cmd:"" help:"List, show, fire, pause, remove and backfill schedules."`
	Sequence   sequenceCmd     `cmd:"" help:"List and show sequences of tasks, and skip, retry or cancel what blocks them."`
	Chunks     chunksCmd       `cmd:"" help:"List, show, verify, pause, resume, cancel, retry and roll back plans of chunks."`
	Audit      auditCmd        `cmd:"" help:"List who changed what, newest first."`
	Ping       pingCmd         `cmd:"" help:"Report the progress of a task, from inside its command."`
	Version    versionCmd      `cmd:"" help:"Print the version."`
	Completion completionCmd   `cmd:"" help:"Print a completion script for bash, zsh or fish."`
	Complete   completeCmd     `cmd:"" hidden:"" passthrough:""`
	Help       helpCmd         `cmd:"" help:"Print the help of a command, like --help."`
}

// texts are what help says of the flags that every command has.
func texts() kong.Vars {
	return kong.Vars{
		"config_help": "Configuration: a file, or a directory of *.hcl; may be repeated. " +
			"Default: $LEASEHOLD_CONFIG, else ./leasehold.hcl.",
		"version":    readBuild().String(),
		"store_help": "Store: postgres://… or sqlite:PATH. Default: the configuration's, else sqlite:leasehold.db.",
	}
}

// helpCmd is in the grammar for its own help only: execute makes `help COMMAND` `COMMAND --help`.
type helpCmd struct {
	Command []string `arg:"" optional:"" help:"Command, such as task list."`
}

// Help gives examples.
func (helpCmd) Help() string {
	return "Examples:\n\n    leasehold help\n    leasehold help task\n    leasehold help task list"
}

const description = `Runs due rows of a table as HTTP callbacks and subprocesses. Stops hung tasks, retries failed ones, and
requeues the tasks of dead agents.

Exit codes: 0 success; 1 failure; 2 invalid usage or configuration; 3 what was verified is not so; 4 the awaited
task or batch failed; 5 it was cancelled, or the wait timed out.`

// execute runs one command line and gives the exit code. guardian starts this program as a guardian process.
func execute(args, guardian []string) int {
	a := newApp(os.Stdin, os.Stdout, os.Stderr)
	a.guardian = guardian
	return a.execute(args)
}

// execute runs one command line on the app's streams and gives the exit code.
func (a *app) execute(args []string) int {
	var grammar cli
	helpTo := a.out
	if len(args) == 0 { // nothing was asked: say what there is, but not that all is well
		args, helpTo = []string{"--help"}, a.err
	}
	if len(args) > 0 && args[0] == "help" && !slices.Contains(args, "--help") {
		args = append(slices.Clone(args[1:]), "--help")
	}
	exit := -1 // set where kong has handled the command line, as for --help
	parser, err := kong.New(&grammar,
		kong.Name("leasehold"), kong.Description(description), texts(), kong.Writers(helpTo, a.err),
		kong.Exit(func(code int) { exit = code }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true, WrapUpperBound: 100}),
	)
	if err != nil {
		return a.fail(fmt.Errorf("the grammar is wrong: %w", err))
	}
	k, err := parser.Parse(joinNegative(args))
	switch {
	case exit >= 0 && helpTo == a.err:
		return exitUsage
	case exit >= 0:
		return exit
	case err != nil:
		return a.fail(usageError(err))
	}
	a.cli = &grammar
	return a.fail(k.Run(a))
}

// usageError is a mistake on the command line, in one line.
func usageError(err error) error {
	command := "leasehold"
	text := strings.ReplaceAll(err.Error(), `but got "EOL" (<EOL>)`, "but got nothing")
	if parse, ok := errors.AsType[*kong.ParseError](err); ok {
		at := cmp.Or(parse.Context.Selected(), parse.Context.Model.Node)
		command = at.FullPath()
		text = hintCommand(hintFlag(text, at), at)
	}
	return usagef("%s (see `%s --help`)", text, command)
}

// joinNegative lets negative numbers follow their flag: --priority -5 means --priority=-5.
func joinNegative(args []string) []string {
	var out []string
	for i, arg := range args {
		if arg == "--" {
			return append(out, args[i:]...)
		}
		negative := len(arg) > 1 && arg[0] == '-' && arg[1] >= '0' && arg[1] <= '9'
		last := len(out) - 1
		if negative && last >= 0 && strings.HasPrefix(out[last], "--") && !strings.Contains(out[last], "=") {
			out[last] += "=" + arg
			continue
		}
		out = append(out, arg)
	}
	return out
}
