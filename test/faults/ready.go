//go:build linux

package faults

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// How often an agent is asked whether it is ready, and how long it may take to say so. It asks its store at most once a
// second, and waits 2 s for that.
const (
	readyEvery  = 100 * time.Millisecond
	readyAnswer = 5 * time.Second
)

// prober asks every agent whether it is ready.
type prober struct {
	w      *world
	client *http.Client
	asked  atomic.Int64 // how often an agent has said that it is
}

func newProber(w *world) *prober {
	return &prober{w: w, client: &http.Client{Timeout: readyAnswer, Transport: &http.Transport{Proxy: nil}}}
}

// run asks one agent until ctx ends. The run fails if a process that was ready once says otherwise before it is asked to end.
func (p *prober) run(ctx context.Context, a *agent) {
	tick := time.NewTicker(readyEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		round, addr, watched := a.watched()
		if !watched {
			continue
		}
		status, text := p.ask(ctx, addr)
		if ctx.Err() != nil {
			return
		}
		p.note(a, round, status, text)
	}
}

// watched returns where the present process listens. It is false while there is none, or where it is about to end.
func (a *agent) watched() (round int, addr string, watched bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.round, a.addr, a.addr != "" && a.leaving < a.round
}

// note keeps one answer of a process, unless that was asked to end meanwhile.
func (p *prober) note(a *agent, round, status int, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.round != round || a.leaving == round:
	case status == http.StatusOK:
		p.asked.Add(1)
		a.ready = round
	case a.ready == round:
		p.w.fail(fmt.Errorf("%s was ready, and says %d: %s", a.who(), status, text))
		a.leaving = round // once is enough
	}
}

// ask returns the status of /-/ready, 0 where there is none, and the text.
func (p *prober) ask(ctx context.Context, addr string) (status int, text string) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/-/ready", http.NoBody)
	if err != nil {
		return 0, err.Error()
	}
	answer, err := p.client.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<16))
	if err != nil {
		return 0, err.Error()
	}
	return answer.StatusCode, strings.TrimSpace(string(body))
}

// isReady reports whether the present process was seen ready.
func (a *agent) isReady() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.addr != "" && a.ready == a.round
}
