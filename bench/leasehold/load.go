package leasehold

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/leasehold/leasehold/bench/work"
	"github.com/leasehold/leasehold/internal/config"
)

// workers is how many rows are worked on at once, by kind of work, where a job does not say.
func workers(j work.Job) int {
	switch {
	case j.Workers > 0:
		return j.Workers
	case j.Kind == work.Many:
		return 8 // requests
	case j.Kind == work.Worker, j.Kind == work.Fair:
		return 32 // an agent's default
	case j.Kind == work.Exec:
		return 128
	case j.Kind == work.HTTP, j.Kind == work.Brief:
		return 256
	default:
		return 500
	}
}

// declarations are what the job stands for, as a user would write it.
func declarations(j work.Job) (string, error) {
	target := fmt.Sprintf("webhook {\n url = %q\n }", j.Target)
	switch {
	case j.Kind == work.Many:
		target = fmt.Sprintf("webhook {\n url = %q\n batch {\n max = %d\n }\n }", j.Target+work.Lines, work.PerRequest)
	case j.Kind == work.Worker:
		argv, err := work.Arguments(j.Program, j.Compiled)
		if err != nil {
			return "", err
		}
		target = fmt.Sprintf("command {\n argv = [%s]\n dir = \"/\"\n worker {\n processes = %d\n max_tasks = 0\n }\n }",
			quoted(argv), runtime.NumCPU())
	case j.Kind == work.Brief:
		target = fmt.Sprintf("webhook {\n url = %q\n }", j.Target+work.Briefly)
	case j.Kind == work.Exec:
		target = fmt.Sprintf("command {\n argv = [%q]\n dir = \"/\"\n }", work.Program)
	case j.Target == "":
		target = "webhook {\n url = \"http://127.0.0.1:9\"\n }" // it is never called: the executor is this package's
	}
	if j.Kind == work.Hold {
		target = "timeout = \"10m\"\n " + target
	}
	if j.Limit > 0 {
		target = fmt.Sprintf("limit = %d\n %s", j.Limit, target)
	}
	poll := ""
	if j.Poll > 0 {
		poll = fmt.Sprintf(" poll = \"%dms\"\n", j.Poll/time.Millisecond)
	}
	agent := fmt.Sprintf("agent {\n name = \"bench\"\n workers = %d\n%s}\nstore {\n url = %q\n notify = %t\n}\n",
		workers(j), poll, j.URL, !j.NoNotify)
	if j.Kind == work.Fair {
		return agent + types(j), nil
	}
	return agent + declaration(work.TaskType, target), nil
}

func declaration(name, body string) string { return fmt.Sprintf("task %q {\n %s\n}\n", name, body) }

// types declares those of Fair.
func types(j work.Job) string {
	var all strings.Builder
	all.WriteString(declaration(work.HungType, fmt.Sprintf("timeout = \"5s\"\n webhook {\n url = %q\n }", j.Target+work.Hang)))
	for i := range work.FairTypes {
		all.WriteString(declaration(work.FairType(i), fmt.Sprintf("webhook {\n url = %q\n }", j.Target+work.Slow)))
	}
	return all.String()
}

// quoted writes strings as the elements of a list of HCL.
func quoted(list []string) string {
	all := make([]string, len(list))
	for i, s := range list {
		all[i] = strconv.Quote(s)
	}
	return strings.Join(all, ", ")
}

// load reads the declarations as the agent does.
func load(j work.Job) (*config.Config, error) {
	dir, err := os.MkdirTemp("", "leasehold-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is in the system's directory for such things
	text, err := declarations(j)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "bench.hcl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return config.Load([]string{path}, config.Options{})
}
