package rig

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/leasehold/leasehold/bench/work"
)

// How long the endpoints take that are slow, and less so.
const (
	slow  = 10 * time.Millisecond
	brief = 5 * time.Millisecond
)

// Server is what HTTP rows are posted to, the same for all contenders. It reads each body to its end and answers 204; below
// work.Slow and work.Briefly it does so after a while, below work.Hang once the client has gone, and below work.Lines it answers with lines.
type Server struct {
	URL    string
	server *http.Server
	posts  atomic.Int64
	tasks  atomic.Int64 // of requests with many
	bytes  atomic.Int64
}

// StartServer starts it on a free port of 127.0.0.1.
func StartServer(ctx context.Context) (*Server, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the server for posts: %w", err)
	}
	s := &Server{URL: "http://" + l.Addr().String() + "/bench"}
	s.server = &http.Server{Handler: http.HandlerFunc(s.answer), ReadHeaderTimeout: time.Minute}
	go func() { _ = s.server.Serve(l) }() // ends with Close
	return s, nil
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, work.Lines) {
		s.lines(w, r)
		return
	}
	n, err := io.Copy(io.Discard, r.Body)
	if err != nil || r.Method != http.MethodPost {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.posts.Add(1)
	s.bytes.Add(n)
	switch {
	case strings.HasSuffix(r.URL.Path, work.Slow):
		if err := Pause(r.Context(), slow); err != nil {
			return
		}
	case strings.HasSuffix(r.URL.Path, work.Briefly):
		if err := Pause(r.Context(), brief); err != nil {
			return
		}
	case strings.HasSuffix(r.URL.Path, work.Hang):
		<-r.Context().Done()
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// Came is what came: how many POSTs, tasks in requests of many, and bytes of bodies.
type Came struct{ Posts, Tasks, Bytes int64 }

// Reset forgets what came, and returns it.
func (s *Server) Reset() Came { return Came{s.posts.Swap(0), s.tasks.Swap(0), s.bytes.Swap(0)} }

// Close ends it.
func (s *Server) Close() error { return s.server.Close() }
