package exec

import (
	"os"
	"runtime"

	"github.com/leasehold/leasehold/internal/task"
)

// Parallel sets how much Go does at once (runtime.GOMAXPROCS) for an agent of those types, and is called once, when it
// starts; again does so for other types, one call at a time. Go starts a process on the thread that asks for it, which stands still
// with its share of the processors until the child runs its program: about half of the time that a small command takes in all. An
// agent that does nothing else is given twice as many shares as there are processors, so that both go on. One that also sends
// requests or has workers is not, since these are the slower for it; nor one for which the environment says GOMAXPROCS.
func Parallel(types []*task.Type) (again func([]*task.Type)) {
	if os.Getenv("GOMAXPROCS") != "" {
		return func([]*task.Type) {}
	}
	usual := runtime.GOMAXPROCS(0)
	set := func(types []*task.Type) {
		n := usual
		if allCommands(types) {
			n *= 2
		}
		if n != runtime.GOMAXPROCS(0) {
			runtime.GOMAXPROCS(n)
		}
	}
	set(types)
	return set
}

func allCommands(types []*task.Type) bool {
	for _, t := range types {
		for _, target := range t.Targets() {
			if c, ok := target.(*task.Command); !ok || c.Worker != nil {
				return false
			}
		}
	}
	return len(types) > 0
}
