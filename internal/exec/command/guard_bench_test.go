package command

import (
	"errors"
	"log/slog"
	"syscall"
	"testing"

	"github.com/leasehold/leasehold/internal/exec/command/guardian"
	"github.com/leasehold/leasehold/internal/exec/exectest"
	"github.com/leasehold/leasehold/internal/task"
)

// BenchmarkGuard measures what the guard of an attempt costs, the commands' and the guardian process's CPU time
// included. Compare minima of many runs (-benchtime 2000x -count 20).
func BenchmarkGuard(b *testing.B) {
	for _, c := range []struct {
		name    string
		argv    []string
		cgroups bool
	}{
		{"none", nil, false}, {"guardian", guardian.Self(), false}, {"guardian and cgroups", guardian.Self(), true},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.Setenv("TMPDIR", b.TempDir())
			r := newRunner(Options{Log: slog.New(slog.DiscardHandler), Guardian: c.argv}, c.cgroups)
			command := &task.Command{Argv: argv("/bin/true"), Dir: "/"}
			h, err := r.guard.begin(anHour(r.guard)) // the guardian process is there
			if err != nil {
				b.Fatal(err)
			}
			h.over()
			b.SetParallelism(8)
			before := cpuTime(b)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					l := exectest.Attempt{}.Lease()
					if o := r.Run(l, declared(command), command, func() {}); o.Verdict != task.Succeeded {
						b.Error(o.Error)
					}
					l.Close()
				}
			})
			b.StopTimer()
			r.Close() // and with it the guardian process, which counts from then on
			b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// cpuTime is what this process and those that it has waited for have used, in nanoseconds.
func cpuTime(b *testing.B) int64 {
	b.Helper()
	var self, children syscall.Rusage
	if err := errors.Join(syscall.Getrusage(syscall.RUSAGE_SELF, &self), syscall.Getrusage(syscall.RUSAGE_CHILDREN, &children)); err != nil {
		b.Fatal(err)
	}
	return self.Utime.Nano() + self.Stime.Nano() + children.Utime.Nano() + children.Stime.Nano()
}
