package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/exec/tryout"
	"github.com/leasehold/leasehold/internal/exec/webhook"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/ops"
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

// tryCurl prints the request of an attempt, and closes it. masked: members of its documents are masked, so this is the request that the
// masked ones would give, without a signature, and a comment: a shell must not send it.
func (a *app) tryCurl(t *tryout.Tryout, typ *task.Type, masked bool) error {
	defer t.Close()
	err := a.printCurl(t.Lease(), typ, masked)
	if masked && err != nil {
		return fmt.Errorf("with its redacted members masked, the request cannot be shown; --unredacted shows them: %w", err)
	}
	if masked {
		_, _ = fmt.Fprintln(a.err, "leasehold: redacted members are masked, so this is not the request that is sent; --unredacted prints that one")
	}
	return err
}

// printCurl prints the request that the attempt would send, signature included, as a command to paste. Receivers take a
// signature for some minutes only. A masked one is not signed, and is printed as a comment.
func (a *app) printCurl(l *lease.Lease, t *task.Type, masked bool) error {
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
	if a.terminal {
		m.Body = terminalBody(m.Body)
	}
	switch {
	case !masked:
		if err := m.Sign(w.Secrets, time.Now()); err != nil {
			return fmt.Errorf("%s: %w", t.Source, err)
		}
	case len(w.Secrets) > 0:
		m.Header.Set("Webhook-Signature", ops.Masked)
	}
	r := request{Method: m.Method, URL: m.URL.String(), Header: map[string]string{}, Body: string(m.Body), Curl: curl(m)}
	for name := range m.Header {
		r.Header[name] = m.Header.Get(name)
	}
	if masked {
		r.Curl = "# " + strings.ReplaceAll(r.Curl, "\n", "\n# ")
	}
	if a.terminal && a.cli.Output == "table" {
		r.Curl = ops.Printable(r.Curl) // of headers, which rows may fill
	}
	return a.print(r, func(out io.Writer) error {
		_, err := fmt.Fprintln(unfolded(out), r.Curl)
		return err
	})
}

// terminalBody is a JSON body that means the same, and has nothing that a terminal obeys. Other bodies stay as they are.
func terminalBody(body []byte) []byte {
	var b bytes.Buffer
	if json.Compact(&b, body) != nil {
		return body
	}
	return terminalJSON(b.Bytes())
}

// curl writes a request as a curl command for a POSIX shell. Nothing in it is taken for a pattern, a file or an option.
func curl(m *webhook.Message) string {
	lines := []string{"curl -sS -i --globoff --path-as-is -X " + ops.ShellQuote(m.Method) + " " + ops.ShellQuote(m.URL.String())}
	header := func(name, value string) {
		line := name + ": " + value
		if value == "" {
			line = name + ";" // with a colon curl would leave it out
		}
		lines = append(lines, "-H "+ops.ShellQuote(line))
	}
	if m.Host != "" {
		header("Host", m.Host)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Header)) {
		for _, value := range m.Header[http.CanonicalHeaderKey(name)] {
			header(name, value)
		}
	}
	lines = append(lines, "--data-raw "+ops.ShellQuote(string(m.Body)))
	return strings.Join(lines, " \\\n  ")
}
