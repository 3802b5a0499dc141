package poll_test

import (
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/internal/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gate is a gate that the test opens and shuts.
type gate struct {
	mu   sync.Mutex
	n    int
	wait time.Duration
}

func (g *gate) Room(string, task.Phase) (int, time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.n, g.wait
}

func (g *gate) Done(string, task.Phase, task.ID, task.Outcome) {}

func (g *gate) Release(string, task.Phase, task.ID) {}

func (g *gate) set(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.n = n
}
