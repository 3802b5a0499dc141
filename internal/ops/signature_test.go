package ops

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/task"
)

func TestSignature(t *testing.T) {
	for text, want := range map[string]string{
		"":       "",
		" \n\t ": "",
		"attempt 3 of 3 failed: answered 500: quota of tenant 17 exceeded": "answered 500: quota of tenant # exceeded",
		"answered 500: quota of tenant 4711 exceeded":                      "answered 500: quota of tenant # exceeded",
		"answered 503: x": "answered 503: x",
		"attempt 1 of 5 timed out: ran longer than 20s":              "timed out: ran longer than #s",
		"attempt 2 of 2 was lost: agent billing-1 is gone":           "was lost: agent billing-# is gone",
		"rollback attempt 2 of 6 failed: exit code 42":               "rollback exit code 42",
		"rollback attempt 2 of 6 timed out":                          "rollback timed out",
		"attempt of 3 failed: x":                                     "attempt of # failed: x",
		"attempt 1 of many failed: x":                                "attempt # of many failed: x",
		`open "/srv/data/17.csv": no such file`:                      `open "…": no such file`,
		"service 'web-3' isn't there":                                "service '…' isn't there",
		"they can't and won't":                                       "they can't and won't",
		`a "b\"c" d`:                                                 `a "…" d`,
		`an "open end`:                                               `an "open end`,
		"dial tcp 10.0.0.17:5432: connect: connection refused":       "dial tcp #: connect: connection refused",
		"dial tcp [::1]:80: connection refused":                      "dial tcp [::#]:#: connection refused",
		"at 2026-11-20T08:00:00.123Z":                                "at #T#Z",
		"row 3f2a9c1b-0d4e-4f6a-8b7c-9d0e1f2a3b4c is gone":           "row # is gone",
		"object 3f2a9c1b77 and decade":                               "object # and decade",
		"upload 01JD2XK7V9QWERTYUIOP0 failed":                        "upload # failed",
		"0x7fff5fbff8a0: bad address":                                "#: bad address",
		"1,234.50 of 9 bytes":                                        "# of # bytes",
		`answered 409: {"code":"busy","service":17,"why":"moved"}`:   `answered 409: {"code":"busy","service":#,"why":"moved"}`,
		"first line 1\nsecond line 2":                                "first line # second line #",
		"in az2 of eu-central-1":                                     "in az# of eu-central-#",
		"ERROR: deadlock detected (SQLSTATE 40P01)":                  "ERROR: deadlock detected (SQLSTATE 40P01)",
		"größer als 12 GB":                                           "größer als # GB",
		"killed by signal 9":                                         "killed by signal 9",
		"deploy of deadbeef01, of beef, and of 12345678 is finished": "deploy of #, of beef, and of # is finished",
	} {
		require.Equal(t, want, Signature(text), "%q", text)
	}
}

func TestSignatureIsBounded(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("x", 1<<16), strings.Repeat(`"`, 1<<16), strings.Repeat("1.", 1<<16), strings.Repeat("{\"", 1<<16),
		strings.Repeat("\xff", 1<<10), strings.Repeat("ä'", 1<<10),
	} {
		got := Signature(text)
		require.True(t, utf8.ValidString(got))
		require.LessOrEqual(t, utf8.RuneCountInString(got), maxSignature)
	}
}

func FuzzSignature(f *testing.F) {
	f.Add("attempt 3 of 3 failed: answered 500: 'x' \"y\" 17 3f2a9c1b-0d4e-4f6a-8b7c-9d0e1f2a3b4c")
	f.Add("rollback attempt 1 of 2 \"")
	f.Fuzz(func(t *testing.T, text string) {
		got := Signature(text)
		require.True(t, utf8.ValidString(got))
		require.NotContains(t, got, "\n")
		require.Equal(t, got, Signature(text))
	})
}

func TestFailures(t *testing.T) {
	var none Failures
	require.Empty(t, none.Groups(5))
	var f Failures
	for id, text := range []string{1: "rare 7", 2: "common 1", 3: "", 4: "common 22", 5: ""} {
		if id > 0 {
			f.Add(task.ID(id), text)
		}
	}
	require.Equal(t, []FailureGroup{
		{Signature: "common #", N: 2, Example: 2, Error: "common 1"},
		{Signature: "no reason given", N: 2, Example: 3},
		{Signature: "rare #", N: 1, Example: 1, Error: "rare 7"},
	}, f.Groups(5))
	require.Len(t, f.Groups(1), 1)
	require.Empty(t, f.Groups(-1))
}
