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
	n    int // that may run at once; negative: no bound
	wait time.Duration
	busy func() int
	back int // room that was released unused
}

func (g *gate) Room(string, task.Phase) (int, time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n < 0 {
		return g.n, 0
	}
	return max(g.n-g.busy(), 0), g.wait
}

func (g *gate) Done(string, task.Phase, task.ID, task.Outcome) {}

func (g *gate) Release(string, task.Phase, task.ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.back++
}

func (g *gate) released() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.back
}

func (g *gate) set(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.n = n
}
