package storetest

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// recorder is a testing.TB whose failures are kept rather than reported: for what is expected to fail.
type recorder struct {
	testing.TB // for what does not report: Cleanup, TempDir, Context, …

	mu     sync.Mutex
	failed bool
	log    []string
}

// expect runs f to its end, or to its first fatal failure, and returns what failed; "" where nothing did.
func expect(t testing.TB, f func(t testing.TB)) string {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(r)
	}()
	<-done
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed && len(r.log) == 0 {
		return "failed without a word"
	}
	if !r.failed {
		return ""
	}
	return strings.Join(r.log, "\n")
}

func (r *recorder) note(failed bool, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = r.failed || failed
	if failed && text != "" {
		r.log = append(r.log, text)
	}
}

func (r *recorder) Helper()                   {}
func (r *recorder) Log(...any)                {}
func (r *recorder) Logf(string, ...any)       {}
func (r *recorder) Fail()                     { r.note(true, "") }
func (r *recorder) Error(a ...any)            { r.note(true, fmt.Sprint(a...)) }
func (r *recorder) Errorf(f string, a ...any) { r.note(true, fmt.Sprintf(f, a...)) }
func (r *recorder) Fatal(a ...any)            { r.Error(a...); runtime.Goexit() }
func (r *recorder) Fatalf(f string, a ...any) { r.Errorf(f, a...); runtime.Goexit() }
func (r *recorder) FailNow()                  { r.Fail(); runtime.Goexit() }

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// Failing runs the check of that name on a harness and returns how it failed; "" where it passed. It is for showing
// that the suite can fail.
func Failing(t testing.TB, name string, h Harness) string {
	t.Helper()
	for _, c := range Checks() {
		if c.Name == name {
			return expect(t, func(t testing.TB) { c.Run(t, h) })
		}
	}
	t.Fatalf("the suite has no check %q", name)
	return ""
}
