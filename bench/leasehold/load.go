package leasehold

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/leasehold/leasehold/bench/work"
	"github.com/leasehold/leasehold/internal/config"
)

// workers is how many rows are worked on at once, by kind of work, where a job does not say.
func workers(j work.Job) int {
	switch {
	case j.Workers > 0:
		return j.Workers
	case j.Kind == work.Exec:
		return 128
	case j.Kind == work.HTTP:
		return 256
	default:
		return 500
	}
}

// declarations are what the job stands for, as a user would write it.
func declarations(j work.Job) string {
	target := fmt.Sprintf("webhook {\n url = %q\n }", j.Target)
	switch {
	case j.Kind == work.Exec:
		target = fmt.Sprintf("command {\n argv = [%q]\n dir = \"/\"\n }", work.Program)
	case j.Target == "":
		target = "webhook {\n url = \"http://127.0.0.1:9\"\n }" // it is never called: the executor is this package's
	}
	if j.Kind == work.Hold {
		target = "timeout = \"10m\"\n " + target
	}
	poll := ""
	if j.Poll > 0 {
		poll = fmt.Sprintf(" poll = \"%dms\"\n", j.Poll/time.Millisecond)
	}
	return fmt.Sprintf("agent {\n name = \"bench\"\n workers = %d\n%s}\nstore {\n url = %q\n notify = %t\n}\ntask %q {\n %s\n}\n",
		workers(j), poll, j.URL, !j.NoNotify, work.TaskType, target)
}

// load reads the declarations as the agent does.
func load(j work.Job) (*config.Config, error) {
	dir, err := os.MkdirTemp("", "leasehold-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is in the system's directory for such things
	path := filepath.Join(dir, "bench.hcl")
	if err := os.WriteFile(path, []byte(declarations(j)), 0o600); err != nil {
		return nil, err
	}
	return config.Load([]string{path}, config.Options{})
}
