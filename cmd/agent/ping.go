package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leasehold/leasehold/internal/exec/answer"
	"github.com/leasehold/leasehold/internal/exec/ping"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

type pingCmd struct {
	Progress string `arg:"" optional:"" help:"Progress: a number from 0 to 1, {\"done\": 40, \"total\": 100}, or any text."`

	Message    string `help:"Human-readable status." placeholder:"TEXT"`
	Checkpoint string `help:"Checkpoint from which the next attempt resumes." placeholder:"JSON"`
	NextWithin span   `help:"Request more time until the next ping, once, such as 10m." placeholder:"TIME"`
}

// Help gives examples.
func (pingCmd) Help() string {
	return `Run it inside a command that an agent runs, to report that the task makes progress. It needs no configuration. If the task
must stop, it prints that to stderr and exits 0. If the lease was lost, it exits 1.

Examples:

    leasehold ping
    leasehold ping 0.4
    leasehold ping '{"done": 40, "total": 100}' --message "page 40" \
        --checkpoint '{"page": 40}'
    leasehold ping "uploading" --next-within 10m`
}

// Bounds of one ping.
const (
	pingWithin = 15 * time.Second // one request: the agent itself waits for its store, but less than that
	pingTries  = 3                // while the agent does not know
	pingPause  = time.Second
)

// Run pings.
func (c pingCmd) Run(a *app) error {
	body, err := c.body()
	if err != nil {
		return err
	}
	if to := os.Getenv("LEASEHOLD_PING_URL"); to != "" {
		return a.pingURL(to, body)
	}
	if fd := os.Getenv("LEASEHOLD_PING_FD"); fd != "" {
		return pingFD(fd, body)
	}
	if os.Getenv("LEASEHOLD_WORKER") != "" {
		return usagef("the environment of a worker names no attempt: set LEASEHOLD_PING_URL to the envelope's ping_url, " +
			"or write the ping as a line to descriptor 3")
	}
	return usagef("neither LEASEHOLD_PING_URL nor LEASEHOLD_PING_FD is set: run this inside a command that an agent runs")
}

// body is the ping in JSON.
func (c pingCmd) body() ([]byte, error) {
	var doc struct {
		Progress   json.RawMessage `json:"progress,omitempty"`
		Message    string          `json:"message,omitempty"`
		Checkpoint json.RawMessage `json:"checkpoint,omitempty"`
		NextWithin float64         `json:"next_within_s,omitempty"`
	}
	var err error
	if doc.Progress, err = ping.Text(c.Progress); err != nil {
		return nil, usagef("%w", err)
	}
	if doc.Checkpoint, err = ping.Checkpoint(c.Checkpoint); err != nil {
		return nil, usagef("%w", err)
	}
	doc.Message, doc.NextWithin = task.Text(c.Message, store.MaxMessage), time.Duration(c.NextWithin).Seconds()
	return json.Marshal(doc)
}

// pingAnswer is what an agent says to a ping, or why it does not take it.
type pingAnswer struct {
	Counted   bool    `json:"counted"`
	Cancel    bool    `json:"cancel"`
	Remaining float64 `json:"remaining_s"`
	Reason    string  `json:"reason,omitempty"`

	Detail string `json:"-"` // of a problem document
}

// pingURL sends a ping to the agent and returns its reply.
func (a *app) pingURL(to string, body []byte) error {
	client := &http.Client{
		Timeout:       pingWithin,
		Transport:     &http.Transport{}, // no proxy, whatever the environment says
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer client.CloseIdleConnections()
	for try := 1; ; try++ {
		status, reply, err := send(client, to, body)
		switch {
		case err != nil:
			return err
		case status == http.StatusOK:
			return a.printReply(reply)
		case status == http.StatusServiceUnavailable && try < pingTries:
			<-time.After(pingPause)
		case status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge:
			return usagef("%s", reply.Detail)
		default:
			return fmt.Errorf("the agent responded with %d: %s", status, reply.Detail)
		}
	}
}

func send(client *http.Client, to string, body []byte) (status int, reply pingAnswer, err error) {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, to, bytes.NewReader(body)) //nolint:gosec // from the agent
	if err != nil {
		return 0, reply, errors.New("LEASEHOLD_PING_URL is not a valid URL")
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(r) //nolint:gosec // as above
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok { // it repeats the URL, which is the task's secret
			err = u.Err
		}
		return 0, reply, fmt.Errorf("reach the agent: %w", err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	const most = 64 << 10
	text, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err != nil {
		return 0, reply, fmt.Errorf("read the agent's response: %w", err)
	}
	if resp.StatusCode == http.StatusOK {
		if err := json.Unmarshal(text, &reply); err != nil {
			return 0, reply, fmt.Errorf("read the agent's response: %w", err)
		}
		return resp.StatusCode, reply, nil
	}
	var problem struct {
		Detail string `json:"detail"`
	}
	if json.Unmarshal(text, &problem) != nil || problem.Detail == "" {
		problem.Detail = http.StatusText(resp.StatusCode)
	}
	reply.Detail = problem.Detail
	return resp.StatusCode, reply, nil
}

// printReply says on stderr what a task should know, and on stdout nothing unless JSON is wanted.
func (a *app) printReply(p pingAnswer) error {
	switch {
	case p.Cancel:
		_, _ = fmt.Fprintln(a.err, "leasehold: stop soon: "+answer.Line(p.Reason))
	case !p.Counted:
		_, _ = fmt.Fprintln(a.err, "leasehold: the ping did not count: "+answer.Line(p.Reason))
	}
	return a.print(p, func(io.Writer) error { return nil })
}

// pingFD writes a ping on the descriptor that the agent has opened. Nothing comes back.
func pingFD(number string, body []byte) error {
	fd, err := strconv.Atoi(number)
	if err != nil || fd < 0 {
		return usagef("LEASEHOLD_PING_FD is %q, which is not a descriptor number", number)
	}
	// What is not handed on to this process may be something else here by now.
	var info unix.Stat_t
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil || unix.Fstat(fd, &info) != nil || info.Mode&unix.S_IFMT != unix.S_IFIFO || flags&unix.O_ACCMODE == unix.O_RDONLY {
		return fmt.Errorf("descriptor %d is not the agent's pipe: a process between the agent and this one has closed it", fd)
	}
	file := os.NewFile(uintptr(fd), "descriptor "+number)
	if _, err := file.Write(append(body, '\n')); err != nil {
		return fmt.Errorf("ping: %w: the attempt is over", err)
	}
	return nil
}
