package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestJoinNegative(t *testing.T) {
	for in, want := range map[string]string{
		"enqueue a --priority -5":        "enqueue a --priority=-5",
		"enqueue a --priority=1 -5":      "enqueue a --priority=1 -5",
		"enqueue a --wait --priority -5": "enqueue a --wait --priority=-5",
		"enqueue a --payload -":          "enqueue a --payload -",
		"enqueue a -- --priority -5":     "enqueue a -- --priority -5",
		"-5":                             "-5",
		"task list -o json":              "task list -o json",
	} {
		require.Equal(t, want, strings.Join(joinNegative(strings.Fields(in)), " "))
	}
}

func TestSpan(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"0s": 0, "90s": 90 * time.Second, "1.5s": 1500 * time.Millisecond, "1h30m": 90 * time.Minute,
		"7d": 168 * time.Hour, "1d12h": 36 * time.Hour,
	} {
		var s span
		require.NoError(t, s.UnmarshalText([]byte(in)), in)
		require.Equal(t, want, time.Duration(s), in)
	}
	for _, in := range []string{"", "d", "1", "-1s", "1d-1h", "x", "1x", "36501d", "999999999999d", "1d2d", "9999999h"} {
		var s span
		require.ErrorContains(t, s.UnmarshalText([]byte(in)), "invalid duration", in)
	}
}

func TestMoment(t *testing.T) {
	var m moment
	require.NoError(t, m.UnmarshalText([]byte("2026-11-20T16:00:00+08:00")))
	require.Equal(t, "2026-11-20T08:00:00Z", time.Time(m).UTC().Format(time.RFC3339))
	require.ErrorContains(t, m.UnmarshalText([]byte("2026-11-20 16:00")), "use a form such as")
}

func TestReadPayload(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"from": "file"}`), 0o600))
	for _, c := range []struct{ text, stdin, want string }{
		{"", "unread", ""}, // which is not JSON, as an empty variable in a script is not
		{`{"a": 1}`, "unread", `{"a": 1}`},
		{"@" + file, "unread", `{"from": "file"}`},
		{"-", `[1]`, `[1]`},
		{"-", "", ""},
	} {
		got, err := readDocument("--payload", &c.text, strings.NewReader(c.stdin))
		require.NoError(t, err)
		require.Equal(t, c.want, string(got))
		require.NotNil(t, got)
	}
	got, err := readDocument("--payload", nil, nil)
	require.NoError(t, err)
	require.Nil(t, got)
	nowhere, stdin := "@/nowhere", "-"
	_, err = readDocument("--payload", &nowhere, nil)
	require.ErrorContains(t, err, "--payload: open /nowhere")
	_, err = readDocument("--payload", &stdin, bytes.NewReader(make([]byte, maxPayload+1)))
	require.ErrorContains(t, err, "more than 64 MiB")
}

func TestLiveLine(t *testing.T) {
	var out bytes.Buffer
	tty := &live{out: &out, width: 12}
	require.NoError(t, tty.show("one"))
	require.NoError(t, tty.show("one"))
	require.NoError(t, tty.show("longer than the line"))
	require.NoError(t, tty.end())
	require.Equal(t, "\r\x1b[Kone\r\x1b[Klonger tha…\r\x1b[Klonger than the line\n", out.String())

	out.Reset()
	file := &live{out: &out}
	require.NoError(t, file.show("one"))
	require.NoError(t, file.show("one"))
	require.NoError(t, file.show("two"))
	require.NoError(t, file.end())
	require.Equal(t, "one\ntwo\n", out.String())
}

func TestOneLine(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                          "plain",
		"connect:\n\tto a\n\tto a\n":     "connect: to a",
		"connect:\n\tto a\n\tto a: mend": "connect: to a: mend",
		"connect:\n\tone\n\ttwo":         "connect: one; two",
		"first\n\nsecond":                "first; second",
		"":                               "",
	} {
		require.Equal(t, want, oneLine(in), in)
	}
}
