//go:build linux

package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/leasehold/leasehold/test/faults/effect"
	"github.com/leasehold/leasehold/test/faults/history"
	"github.com/leasehold/leasehold/test/faults/script"
)

// How long a handler may go on after its request has ended, how long one that is late takes, longer than its lease, and how
// long one floods, well below every timeout.
const (
	handlerWithin = 20 * time.Second
	lateAfter     = 5 * time.Second
	flooding      = 2 * time.Second
)

// endpoint is the application: it is called back, logs what it does, and does what the row's script says.
type endpoint struct {
	log    *history.Log
	app    base
	client *http.Client
	kinds  map[string]history.Kind
	agents func() []string // addresses of agents that are there
	wrong  func(error)     // notes that what came is not the protocol's

	addr     string
	mu       sync.Mutex
	server   *http.Server
	rejected []history.ChunkRange // chunks that were
	downs    int                  // how often it was taken down, and not up again
	everDown int                  // how often it was taken down
	handler  sync.WaitGroup       // handlers, and what goes on after a 202
	ctx      context.Context
	stop     context.CancelFunc
}

// newEndpoint starts an endpoint.
func newEndpoint(log *history.Log, app base, agents func() []string, wrong func(error)) (*endpoint, error) {
	e := &endpoint{log: log, app: app, kinds: Kinds(), agents: agents, wrong: wrong, client: &http.Client{
		Timeout: 3 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 16, Proxy: nil},
	}}
	e.ctx, e.stop = context.WithCancel(context.Background())
	if err := e.up(); err != nil {
		return nil, err
	}
	return e, nil
}

// listen takes a port below the range of ephemeral ports, so that no other process takes it while the endpoint is down.
func (e *endpoint) listen() (l net.Listener, err error) {
	if e.addr != "" {
		return new(net.ListenConfig).Listen(e.ctx, "tcp", e.addr)
	}
	const tries, first, ports = 50, 20_000, 12_000
	for range tries {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(first+rand.IntN(ports)))
		if l, err = new(net.ListenConfig).Listen(e.ctx, "tcp", addr); err == nil {
			e.addr = addr
			return l, nil
		}
	}
	return nil, err
}

// up has the endpoint listen, at the same address each time, once no fault keeps it down.
func (e *endpoint) up() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.downs = max(e.downs-1, 0)
	if e.downs > 0 {
		return nil
	}
	l, err := e.listen()
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	e.server = &http.Server{Handler: http.HandlerFunc(e.serve), ReadHeaderTimeout: 10 * time.Second}
	server := e.server
	e.handler.Go(func() { _ = server.Serve(l) }) // it says that it was closed
	return nil
}

// down cuts all connections off, as the application's end does. What handlers do goes on.
func (e *endpoint) down() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.downs++
	e.everDown++
	_ = e.server.Close()
}

// taken is how often the endpoint was taken down.
func (e *endpoint) taken() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.everDown
}

// close ends the endpoint and waits for all that it does.
func (e *endpoint) close() {
	e.stop()
	e.down()
	e.handler.Wait()
	e.client.CloseIdleConnections()
}

// call is one attempt, as the endpoint sees it.
type call struct {
	*endpoint
	envelope script.Envelope
	who      string
	does     script.Deed
	w        http.ResponseWriter
	ctx      context.Context // of the request
	over     chan struct{}   // closed once the handler has answered
	many     *request        // of which it is one of several, without w and over; nil: it has one of its own
}

func (c *call) report(w history.What, note string) {
	t := c.envelope.Task
	c.log.Add(history.Event{
		What: w, Who: c.who, Kind: c.envelope.Type, Phase: c.envelope.Phase(), ID: t.ID, Fence: t.Fence, Attempt: t.Attempt,
		Note: note,
	})
}

func (e *endpoint) serve(w http.ResponseWriter, r *http.Request) {
	e.handler.Add(1)
	defer e.handler.Done()
	body, err := io.ReadAll(r.Body) // to its end: only then does the server notice that the agent is gone
	if err != nil {
		return
	}
	if isMany(r) {
		e.serveMany(w, r, body)
		return
	}
	c := &call{endpoint: e, who: strings.Trim(r.URL.Path, "/"), w: w, ctx: r.Context(), over: make(chan struct{})}
	if err := json.Unmarshal(body, &c.envelope); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if c.does = c.envelope.Does(); c.envelope.Type == kindMark {
		c.does = e.markDeed(c.envelope.Data)
	}
	c.report(history.Start, "")
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-c.ctx.Done():
			c.report(history.Gone, "")
		case <-c.over:
		}
	})
	c.run() //nolint:contextcheck // its pings get replies whether or not its own response is awaited
	close(c.over)
	watching.Wait()
}

// answer ends the attempt.
func (c *call) answer(how string, status int, body string) {
	if c.many != nil {
		c.many.end(c, how, c.lineOf(how, status, body))
		return
	}
	if how == "superseded" {
		c.w.Header().Set("Content-Type", "application/problem+json")
	}
	c.report(history.End, how)
	c.w.WriteHeader(status)
	_, _ = io.WriteString(c.w, body) // it may be gone
}

// wait waits, while anybody listens.
func (c *call) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.ctx.Done():
	case <-c.endpoint.ctx.Done():
	}
	return false
}

func (c *call) run() {
	switch c.does {
	case script.Fail:
		c.answer("failed", http.StatusInternalServerError, "no")
	case script.Reject:
		c.answer("rejected", http.StatusUnprocessableEntity, "never")
	case script.Later:
		c.answer("deferred", http.StatusTooManyRequests, "later")
	case script.Cut:
		c.cut()
	case script.Hang, script.Stubborn, script.Orphan:
		c.wait(handlerWithin)
	case script.PingOn:
		c.ping(1 << 20)
	case script.Forge:
		c.forge()
		c.wait(handlerWithin)
	case script.Endless:
		c.endless()
	case script.Late:
		timer := time.NewTimer(lateAfter) // whether anybody listens or not
		select {
		case <-timer.C:
		case <-c.endpoint.ctx.Done():
		}
		c.finish()
	case script.Work:
		if c.ping(6) {
			c.finish()
		}
	case script.Pause:
		c.say(c.envelope.Task.PingURL, "before a rest")
		rest := script.Rest
		if c.envelope.Type == "patient" {
			rest = 2 * script.Rest
		}
		if c.wait(rest) {
			c.finish()
		}
	case script.Nap:
		if c.wait(script.Doze) {
			c.finish()
		}
	case script.Flood:
		c.flood()
		c.finish()
	case script.Mute:
	case script.Stray:
		c.stray()
		c.finish()
	case script.Silent:
		c.answer("accepted", http.StatusAccepted, "")
	default:
		c.finish()
	}
}

// finish ends the attempt well, in the way of its type.
func (c *call) finish() {
	if c.envelope.Task.Phase == script.Check {
		c.ask()
		return
	}
	if guard := c.kinds[c.envelope.Type].Guard; guard != "" {
		c.guarded(guard)
		return
	}
	switch c.envelope.Type {
	case "accepted":
		c.answer("accepted", http.StatusAccepted, "")
		later := *c
		later.ctx = c.endpoint.ctx // the request is over, and that is no reason to stop
		c.handler.Go(later.goOn)
	case kindMark:
		c.mark()
	case "streamed":
		c.stream()
	default:
		c.answer("succeeded", http.StatusOK, c.envelope.Result())
	}
}

// cut ends the connection without an answer.
func (c *call) cut() {
	conn, _, err := http.NewResponseController(c.w).Hijack()
	if err != nil {
		return
	}
	c.report(history.End, history.CutOff)
	_ = conn.Close()
}

// endless answers for as long as anybody listens.
func (c *call) endless() {
	c.w.WriteHeader(http.StatusOK)
	for range int(handlerWithin / script.Step) {
		_, _ = io.WriteString(c.w, strings.Repeat("and ", 1000))
		_ = http.NewResponseController(c.w).Flush()
		if !c.wait(script.Step) {
			return
		}
	}
}

// stream reports progress in the response itself.
func (c *call) stream() {
	c.w.Header().Set("Content-Type", "application/x-ndjson")
	c.w.WriteHeader(http.StatusOK)
	for i := range 4 {
		c.report(history.Ping, strconv.Itoa(i))
		_, _ = fmt.Fprintf(c.w, "{\"progress\": %q}\n", strconv.Itoa(i))
		_ = http.NewResponseController(c.w).Flush()
		if !c.wait(script.Step) {
			return
		}
	}
	c.report(history.End, "succeeded")
	_, _ = fmt.Fprintf(c.w, "{\"result\": %s}\n", c.envelope.Result())
}

// ping makes progress n times, while anybody listens and the agent does not say that the row is another's.
func (c *call) ping(n int) bool {
	for i := range n {
		if c.say(c.envelope.Task.PingURL, strconv.Itoa(i)) == http.StatusGone || !c.wait(script.Step) {
			return false
		}
	}
	return true
}

// say sends one ping and gives the answer's status; 0: there was none.
func (c *call) say(url, progress string) int {
	c.report(history.Ping, progress)
	if c.many != nil && c.envelope.Task.ID%2 == 0 && c.many.say(fmt.Sprintf(`{"id": %d, "progress": %q}`, c.envelope.Task.ID, progress)) {
		return http.StatusOK
	}
	status := c.post(url, fmt.Sprintf(`{"progress": %q}`, progress))
	c.report(history.Pinged, strconv.Itoa(status))
	return status
}

func (c *call) post(url, body string) int {
	ctx, cancel := context.WithTimeout(c.endpoint.ctx, 3*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0
	}
	answer, err := c.client.Do(r)
	if err != nil {
		return 0
	}
	defer func() { _ = answer.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<16))
	return answer.StatusCode
}

// flood pings as fast as it can, four at a time, for a while or until the lease is lost. Where there is no answer, or a 503, it
// pauses, as the protocol asks. On a starved machine its attempt would otherwise time out each time, and flood on beside the next
// ones of its row.
func (c *call) flood() {
	on := *c
	on.ctx = c.endpoint.ctx // it goes on when its request has ended
	var all sync.WaitGroup
	until := time.Now().Add(flooding)
	for worker := range 4 {
		all.Go(func() {
			for i := 0; i < 100 && time.Now().Before(until); i++ {
				switch on.say(c.envelope.Task.PingURL, fmt.Sprintf("%d/%d", worker, i)) {
				case http.StatusGone:
					return
				case http.StatusServiceUnavailable, 0:
					on.wait(script.Step)
				}
			}
		})
	}
	all.Wait()
}

// forge pings with what is no token, and by SQL with fences that are not its own.
func (c *call) forge() {
	url := c.envelope.Task.PingURL
	for i := range 8 {
		forged := url[:len(url)-1-i] + "A" + url[len(url)-i:]
		if forged != url {
			c.post(forged, `{"progress": 1}`)
		}
		c.post(url, "{progress: 1") // malformed
		t := c.envelope.Task
		for _, fence := range []int64{t.Fence - 1, t.Fence + 1, t.Fence + 2} {
			// It says that this is another's; the database may be away.
			_, _ = c.app.Exec(c.endpoint.ctx, `SELECT leasehold.ping($1, $2, $3)`, t.ID, fence, strconv.Itoa(i))
		}
		if !c.wait(100 * time.Millisecond) {
			return
		}
	}
}

// guarded makes the effect of a row, or rolls it back, in one transaction with hold or complete.
func (c *call) guarded(guard string) {
	t := c.envelope.Task
	ctx, cancel := context.WithTimeout(c.endpoint.ctx, handlerWithin)
	defer cancel()
	done := effect.Make(ctx, c.app, effect.Effect{
		ID: t.ID, Fence: t.Fence, Who: c.who, Guard: guard, Rollback: t.Phase == script.Rollback, Result: c.envelope.Result(),
	})
	switch {
	case done.Unknown:
		if done.Made {
			c.report(history.Effect, history.NoReply)
		}
		c.answer("failed", http.StatusInternalServerError, "the reply to COMMIT was lost")
	case done.Refused:
		c.report(history.Refused, done.Err.Error())
		c.answer("superseded", http.StatusConflict, `{"title": "another has it", "stale": true}`)
	case done.Err != nil:
		c.answer("failed", http.StatusInternalServerError, done.Err.Error())
	default:
		if done.Made {
			c.report(history.Effect, "")
		}
		c.answer("succeeded", http.StatusOK, c.envelope.Result())
	}
}

// ask answers a check: whether there is anything left to do.
func (c *call) ask() {
	stands, err := effect.Stands(c.ctx, c.app, c.envelope.Task.ID)
	switch {
	case err != nil:
		c.answer("failed", http.StatusInternalServerError, err.Error())
	case stands:
		c.answer(history.Done, http.StatusOK, `{"done": true}`)
	default:
		c.answer("open", http.StatusOK, `{"done": false}`)
	}
}

// goOn is the work that goes on once the task was accepted: pings, and the end, by way of any agent that is there.
func (c *call) goOn() {
	for i := range 4 {
		if c.say(c.anywhere(), strconv.Itoa(i)) == http.StatusGone {
			return
		}
		if !c.wait(script.Step) {
			return
		}
	}
	c.report(history.End, "succeeded")
	for range 20 {
		switch c.post(c.anywhere()+"/complete", fmt.Sprintf(`{"result": %s}`, c.envelope.Result())) {
		case http.StatusOK, http.StatusGone:
			return
		}
		if !c.wait(script.Step) {
			return
		}
	}
}

// anywhere is the ping URL, at some agent that is there.
func (c *call) anywhere() string {
	url := c.envelope.Task.PingURL
	agents := c.agents()
	if len(agents) == 0 {
		return url
	}
	_, path, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	return "http://" + agents[int(time.Now().UnixNano()/1000)%len(agents)] + "/" + path
}
