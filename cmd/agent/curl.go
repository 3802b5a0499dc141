package main

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/exec/webhook"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"
)

// request is a webhook's request as JSON.
type request struct {
	Method string            `json:"method"`
	URL    string            `json:"url"`
	Header map[string]string `json:"header"`
	Body   string            `json:"body"`
	Curl   string            `json:"curl"`
}

// printCurl prints the request that the attempt would send, signature included, as a command to paste. Receivers take a
// signature for some minutes only.
func (a *app) printCurl(l *lease.Lease, t *task.Type) error {
	w, ok := t.TargetOf(l.Phase()).(*task.Webhook)
	if !ok {
		return usagef("--curl requires a webhook, but the %s of task %q is a command", l.Phase(), t.Name)
	}
	client := webhook.New(webhook.Options{Version: readBuild().Version, Workers: 1})
	defer client.Close()
	m, err := client.Message(l, t, w)
	if err != nil {
		return err
	}
	if err := m.Sign(w.Secrets, time.Now()); err != nil {
		return fmt.Errorf("%s: %w", t.Source, err)
	}
	r := request{Method: m.Method, URL: m.URL.String(), Header: map[string]string{}, Body: string(m.Body), Curl: curl(m)}
	for name := range m.Header {
		r.Header[name] = m.Header.Get(name)
	}
	return a.print(r, func(out io.Writer) error {
		_, err := fmt.Fprintln(out, r.Curl)
		return err
	})
}

// curl writes a request as a curl command for a POSIX shell. Nothing in it is taken for a pattern, a file or an option.
func curl(m *webhook.Message) string {
	lines := []string{"curl -sS -i --globoff --path-as-is -X " + shellQuote(m.Method) + " " + shellQuote(m.URL.String())}
	header := func(name, value string) {
		line := name + ": " + value
		if value == "" {
			line = name + ";" // with a colon curl would leave it out
		}
		lines = append(lines, "-H "+shellQuote(line))
	}
	if m.Host != "" {
		header("Host", m.Host)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Header)) {
		for _, value := range m.Header[http.CanonicalHeaderKey(name)] {
			header(name, value)
		}
	}
	lines = append(lines, "--data-raw "+shellQuote(string(m.Body)))
	return strings.Join(lines, " \\\n  ")
}
