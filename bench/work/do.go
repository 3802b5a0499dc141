package work

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Program is what an Exec row runs.
const Program = "/bin/true"

// Doer does the work of rows for contenders that have no targets of their own, and counts. It is safe for use by many
// at once.
type Doer struct {
	job    Job
	client *http.Client

	done      atomic.Int64
	enough    chan struct{} // closed once Job.Rows rows are done
	mu        sync.Mutex
	latencies []int64
}

// NewDoer makes one for the job, with as many connections as workers.
func NewDoer(j Job, workers int) *Doer {
	return &Doer{
		job: j, enough: make(chan struct{}),
		client: &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
			MaxIdleConnsPerHost: workers, MaxConnsPerHost: workers, DisableCompression: true,
		}},
	}
}

// Do does the work of one row.
func (d *Doer) Do(ctx context.Context, id int64, payload []byte) error {
	defer d.Done()
	switch d.job.Kind {
	case Noop, Idle:
		return nil
	case HTTP:
		return d.post(ctx, Body(id, payload, time.Now()))
	case Exec:
		return exec.CommandContext(ctx, Program).Run()
	case Latency:
		return d.Note(payload)
	case Hold:
		<-ctx.Done()
		return ctx.Err()
	default:
		return fmt.Errorf("no such work: %q", d.job.Kind)
	}
}

func (d *Doer) post(ctx context.Context, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.job.Target, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := d.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("post: %s", resp.Status)
	}
	return nil
}

// Note notes how long ago a Latency row was inserted.
func (d *Doer) Note(payload []byte) error {
	now := time.Now().UnixMicro()
	at, err := readStamp(string(payload))
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.latencies = append(d.latencies, now-at)
	return nil
}

// Stamp is the payload of a Latency row that is inserted now: microseconds since 1970.
func Stamp(now time.Time) string { return `{"at": ` + strconv.FormatInt(now.UnixMicro(), 10) + `}` }

func readStamp(payload string) (int64, error) {
	_, number, ok := strings.Cut(payload, ":")
	if !ok {
		return 0, fmt.Errorf("a payload without a time: %q", payload)
	}
	return strconv.ParseInt(strings.Trim(number, " }"), 10, 64)
}

// Done counts one row that was worked on.
func (d *Doer) Done() {
	if d.done.Add(1) == int64(d.job.Rows) {
		close(d.enough)
	}
}

// Enough is closed once as many rows were worked on as there are.
func (d *Doer) Enough() <-chan struct{} { return d.enough }

// Latencies are those noted, in the order of the starts.
func (d *Doer) Latencies() []int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.latencies
}
