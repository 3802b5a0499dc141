package main

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/exec/webhook"
)

// words is what a shell makes of a command line: the words that curl would see.
func words(t *testing.T, command string) []string {
	t.Helper()
	script := `curl() { for word; do printf '%s\036' "$word"; done; }` + "\n" + command
	out, err := exec.CommandContext(t.Context(), "sh", "-c", script).Output()
	require.NoError(t, err)
	return strings.Split(strings.TrimSuffix(string(out), "\x1e"), "\x1e")
}

func TestCurlSaysWhatTheAttemptWouldSend(t *testing.T) {
	secret := "whsec_" + base64.StdEncoding.EncodeToString([]byte("a key for this test only"))
	body := "@file 'single' \"double\" $HOME `id` \\ !x\n{[a-z]} ünï"
	u, err := url.Parse("http://127.0.0.1:1/a[1-3]/{b}/../it's?q=a&b=%20")
	require.NoError(t, err)
	m := &webhook.Message{
		Method: "PUT", URL: u, Host: "other.example", ID: "task_7", Body: []byte(body),
		Header: http.Header{"X-Empty": {""}, "X-Odd": {"it's; $(id)"}, "Webhook-Id": {"task_7"}},
	}
	require.NoError(t, m.Sign([]string{secret}, time.Now()))

	got := words(t, curl(m))
	require.Equal(t, []string{
		"-sS", "-i", "--globoff", "--path-as-is", "-X", "PUT", u.String(), "-H", "Host: other.example",
	}, got[:9])
	header := http.Header{}
	for len(got) > 11 {
		require.Equal(t, "-H", got[9])
		if name, value, ok := strings.Cut(got[10], ": "); ok {
			header.Set(name, value)
		} else {
			require.Equal(t, "X-Empty;", got[10], "curl's way to send an empty header")
		}
		got = append(got[:9], got[11:]...)
	}
	require.Equal(t, []string{"--data-raw", body}, got[9:])
	require.Equal(t, "it's; $(id)", header.Get("X-Odd"))
	receiver, err := standardwebhooks.NewWebhook(secret)
	require.NoError(t, err)
	require.NoError(t, receiver.Verify([]byte(body), header))
}

// TestCurlOnATerminal has a row whose text a terminal would obey: the body means the same, and is signed as it is printed.
func TestCurlOnATerminal(t *testing.T) {
	odd := "{\n\t\"a\":\t\"\u009b31m\u202e \u007f \U000e0041 é\"}"
	body := terminalBody([]byte(odd))
	require.NotRegexp(t, "[\t\n\u007f-\u009f\u202e\U000e0041]", string(body))
	require.JSONEq(t, odd, string(body))
	require.Equal(t, "no JSON\u009b", string(terminalBody([]byte("no JSON\u009b"))), "what is left to the whole command")
}
