package e2e_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// endpoint is the target of the tests' callbacks: it counts.
type endpoint struct {
	url  string
	stop chan struct{} // closed: requests that hold on end

	hits    []atomic.Int32 // by task id
	total   atomic.Int64
	attempt atomic.Int64 // the highest that came

	connections, mostConnections atomic.Int64
	allowed                      atomic.Int64 // how many connections there may be at once; more are looked at twice

	mu    sync.Mutex
	open  map[net.Conn]struct{}
	order []int64       // ids as they came
	hold  chan struct{} // requests wait until it is closed; nil: they do not
	takes time.Duration // how long a request takes
}

// closeWithin is how long the agent may take between the dial that replaces a connection and closing it.
const closeWithin = 10 * time.Second

// newEndpoint serves tasks with ids up to n until the test is over.
func newEndpoint(t *testing.T, n int) *endpoint {
	t.Helper()
	e := &endpoint{hits: make([]atomic.Int32, n+1), order: make([]int64, 0, n), stop: make(chan struct{})}
	server := httptest.NewUnstartedServer(http.HandlerFunc(e.serve))
	server.Config.ConnState = e.connState
	server.Start()
	e.url = server.URL
	t.Cleanup(func() {
		close(e.stop)
		server.CloseClientConnections()
		server.Close()
	})
	return e
}

func (e *endpoint) serve(_ http.ResponseWriter, r *http.Request) {
	id, err := strconv.ParseInt(r.Header.Get("Leasehold-Task"), 10, 64)
	attempt, err2 := strconv.ParseInt(r.Header.Get("Leasehold-Attempt"), 10, 64)
	if err != nil || err2 != nil || id >= int64(len(e.hits)) {
		panic("a request without its headers, or of a task that there is not") // the connection is cut, the task not done
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil { // read to its end, the server notices when the agent goes away
		panic(err)
	}
	e.hits[id].Add(1)
	e.total.Add(1)
	raise(&e.attempt, attempt)
	e.mu.Lock()
	e.order = append(e.order, id)
	hold, takes := e.hold, e.takes
	e.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-r.Context().Done():
		case <-e.stop:
		}
	}
	if takes > 0 {
		timer := time.NewTimer(takes)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-e.stop:
		}
	}
}

// connState counts connections. The most at once are those that the other side had open when one more came: the server
// notices late that a connection was closed, where a machine is busy.
func (e *endpoint) connState(conn net.Conn, s http.ConnState) {
	switch s {
	case http.StateNew:
		e.connections.Add(1)
		e.mu.Lock()
		if e.open == nil {
			e.open = make(map[net.Conn]struct{})
		}
		e.open[conn] = struct{}{}
		e.mu.Unlock()
		raise(&e.mostConnections, e.opened())
	case http.StateClosed, http.StateHijacked:
		e.connections.Add(-1)
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.open, conn)
	case http.StateActive, http.StateIdle: // an open one
	}
}

// opened is how many connections the other side has open. net/http dials the next before it closes one, a moment that
// takes long where it waits for a processor in between: more than allowed are so many only if they stay.
func (e *endpoint) opened() (n int64) {
	late := time.After(closeWithin)
	for {
		n = 0
		e.mu.Lock()
		for c := range e.open {
			if !closedThere(c) {
				n++
			}
		}
		e.mu.Unlock()
		if n <= e.allowed.Load() || e.allowed.Load() == 0 {
			return n
		}
		select {
		case <-late:
			return n
		case <-time.After(time.Millisecond):
		}
	}
}

// closedThere reports whether the other side has closed a connection on which nothing is left to be read.
func closedThere(conn net.Conn) (closed bool) {
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return true
	}
	err = raw.Control(func(fd uintptr) {
		n, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		closed = n == 0 && err == nil || err != nil && !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EINTR)
	})
	return closed || err != nil
}

// setHold has requests wait from now on until the channel is closed; nil: not any more.
func (e *endpoint) setHold(hold chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hold = hold
}

// forget forgets what has come so far.
func (e *endpoint) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.order = e.order[:0]
	e.mostConnections.Store(e.connections.Load())
}

// arrivals are the ids in the order in which they came.
func (e *endpoint) arrivals() []int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]int64(nil), e.order...)
}

// twice lists the tasks that came more than once, and fails the test where one never came.
func (e *endpoint) twice(t *testing.T) (ids []int64) {
	t.Helper()
	for id := range e.hits[1:] {
		n := e.hits[id+1].Load()
		require.NotZero(t, n, "task %d never came", id+1)
		if n > 1 {
			ids = append(ids, int64(id+1))
		}
	}
	return ids
}

// raise sets the highest value so far.
func raise(highest *atomic.Int64, value int64) {
	for old := highest.Load(); value > old; old = highest.Load() {
		if highest.CompareAndSwap(old, value) {
			return
		}
	}
}
