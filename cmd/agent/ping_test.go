package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// runPing runs `leasehold ping` against a server, and gives its exit code and what it printed.
func runPing(t *testing.T, h http.HandlerFunc, format string, c pingCmd) (code int, stdout, stderr string) {
	t.Helper()
	server := httptest.NewServer(h)
	defer server.Close()
	t.Setenv("LEASEHOLD_PING_URL", server.URL+"/ping/4211.9.mac")
	t.Setenv("LEASEHOLD_PING_FD", "")
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	dir := t.TempDir()
	create := func(name string) *os.File {
		f, err := os.Create(filepath.Join(dir, name))
		require.NoError(t, err)
		return f
	}
	out, errs := create("out"), create("err")
	a := newApp(nil, out, errs)
	a.cli.Output = format
	code = a.fail(c.Run(a))
	require.NoError(t, out.Close())
	require.NoError(t, errs.Close())
	text, err := os.ReadFile(out.Name())
	require.NoError(t, err)
	errText, err := os.ReadFile(errs.Name())
	require.NoError(t, err)
	return code, string(text), string(errText)
}

func TestPingAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		code   int
		stderr string
	}{
		"counted":     {200, `{"counted": true, "cancel": false, "remaining_s": 9.8}`, 0, ""},
		"not counted": {200, `{"counted": false, "cancel": false, "remaining_s": 9.8, "reason": "progress did not change"}`, 0, "leasehold: the ping did not count: progress did not change\n"},
		"cancel":      {200, `{"counted": true, "cancel": true, "remaining_s": 9.8, "reason": "by hand"}`, 0, "leasehold: stop soon: by hand\n"},
		"gone":        {410, `{"detail": "task 4211 is not held with fence 9 any more"}`, 1, "leasehold: the agent responded with 410: task 4211 is not held with fence 9 any more\n"},
		"malformed":   {400, `{"detail": "progress is no number"}`, 2, "leasehold: progress is no number\n"},
		"too large":   {413, `{"detail": "checkpoint is too large"}`, 2, "leasehold: checkpoint is too large\n"},
		"not found":   {404, `<html>`, 1, "leasehold: the agent responded with 404: Not Found\n"},
		"redirected":  {307, ``, 1, "leasehold: the agent responded with 307: Temporary Redirect\n"},
		"no agent":    {200, `<html>`, 1, "leasehold: read the agent's response: invalid character '<' looking for beginning of value\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var got string
			handler := func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				got = r.Method + " " + r.URL.Path + " " + string(body)
				if c.status == http.StatusTemporaryRedirect {
					w.Header().Set("Location", "/elsewhere")
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			}
			code, stdout, stderr := runPing(t, handler, "table", pingCmd{Progress: ".4", Message: "m"})
			require.Equal(t, `POST /ping/4211.9.mac {"progress":0.4,"message":"m"}`, got)
			require.Equal(t, c.code, code)
			require.Equal(t, c.stderr, stderr)
			require.Empty(t, stdout)
		})
	}
	code, stdout, _ := runPing(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"counted": true, "cancel": false, "remaining_s": 9.8}`)
	}, "jsonl", pingCmd{})
	require.Zero(t, code)
	require.Equal(t, `{"counted":true,"cancel":false,"remaining_s":9.8}`+"\n", stdout)
}

// The command repeats a ping that the agent answers with a 503, and gives up in the end.
func TestPingBusy(t *testing.T) {
	tries, well := 0, 2
	handler := func(w http.ResponseWriter, _ *http.Request) {
		if tries++; tries < well {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"detail": "the row is busy"}`)
			return
		}
		_, _ = io.WriteString(w, `{"counted": true}`)
	}
	code, _, _ := runPing(t, handler, "table", pingCmd{})
	require.Zero(t, code)
	tries, well = 0, 100
	code, _, stderr := runPing(t, handler, "table", pingCmd{})
	require.Equal(t, 1, code)
	require.Equal(t, "leasehold: the agent responded with 503: the row is busy\n", stderr)
	require.Equal(t, pingTries, tries)
}
