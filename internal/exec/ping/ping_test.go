package ping

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// raw is JSON, or nil for "".
func raw(s string) json.RawMessage {
	if s == "" {
		return nil
	}
	return json.RawMessage(s)
}

// checkpointOf is a checkpoint in JSON that is n bytes long.
func checkpointOf(n int) string { return `"` + strings.Repeat("c", n-2) + `"` }

func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		want store.Ping
	}{
		"nothing":             {"", store.Ping{}},
		"white space":         {" \r\n\t", store.Ping{}},
		"an empty object":     {"{}", store.Ping{}},
		"nulls":               {`{"progress": null, "message": null, "checkpoint": null, "next_within_s": null}`, store.Ping{}},
		"other members":       {`{"progres": 2, "Progress": 3, "MESSAGE": 4, "x": {"progress": 5}}`, store.Ping{}},
		"everything":          {`{"progress": 0.4, "message": "page 40 of 100", "checkpoint": {"page": 40}, "next_within_s": 600}`, store.Ping{Progress: raw("0.4"), Message: "page 40 of 100", Checkpoint: raw(`{"page":40}`), NextWithin: 10 * time.Minute}},
		"zero":                {`{"progress": 0}`, store.Ping{Progress: raw("0")}},
		"minus zero":          {`{"progress": -0.0}`, store.Ping{Progress: raw("0")}},
		"one":                 {`{"progress": 1.000}`, store.Ping{Progress: raw("1")}},
		"the same number":     {`{"progress": 40e-2}`, store.Ping{Progress: raw("0.4")}},
		"a fraction":          {`{"progress": { "total": 100, "done": 40, "what": "pages" }}`, store.Ping{Progress: raw(`{"done":40,"total":100}`)}},
		"large counts":        {`{"progress": {"done": 9007199254740993, "total": 9223372036854775807}}`, store.Ping{Progress: raw(`{"done":9007199254740993,"total":9223372036854775807}`)}},
		"counts with a point": {`{"progress": {"done": 1.50, "total": 2e3}}`, store.Ping{Progress: raw(`{"done":1.5,"total":2000}`)}},
		"past a guess":        {`{"progress": {"done": 12, "total": 10}}`, store.Ping{Progress: raw(`{"done":12,"total":10}`)}},
		"a position":          {`{"progress": "page <40>"}`, store.Ping{Progress: raw(`"page <40>"`)}},
		"an odd position":     {`{"progress": "a\u0000\ud800b"}`, store.Ping{Progress: raw("\"a\uFFFD\uFFFDb\"")}},
		"no position":         {`{"progress": ""}`, store.Ping{}},
		"an odd checkpoint":   {"{\"checkpoint\": {\"a\": [\"\\u0000\\ud800\xff\", 1e99999]}}", store.Ping{Checkpoint: raw("{\"a\":[\"\\ufffd\\ufffd\uFFFD\",\"1e99999\"]}")}},
		"an odd message":      {"{\"message\": \"a\\u0000\xff\"}", store.Ping{Message: "a\uFFFD\uFFFD"}},
		"a long message":      {`{"message": "` + strings.Repeat("m", 2*store.MaxMessage) + `"}`, store.Ping{Message: strings.Repeat("m", store.MaxMessage-len("…")) + "…"}},
		"the largest":         {`{"checkpoint": ` + checkpointOf(store.MaxCheckpoint) + `}`, store.Ping{Checkpoint: raw(checkpointOf(store.MaxCheckpoint))}},
		"white space in it":   {`{"checkpoint": [` + strings.Repeat(" ", store.MaxCheckpoint) + `1 ]}`, store.Ping{Checkpoint: raw("[1]")}},
		"a false checkpoint":  {`{"checkpoint": false}`, store.Ping{Checkpoint: raw("false")}},
		"the longest string":  {`{"progress": "` + strings.Repeat("p", store.MaxProgress-2) + `"}`, store.Ping{Progress: raw(`"` + strings.Repeat("p", store.MaxProgress-2) + `"`)}},
		"a short window":      {`{"next_within_s": 1e-300}`, store.Ping{NextWithin: 1}},
		"an endless window":   {`{"next_within_s": 1e300}`, store.Ping{NextWithin: maxWithin}},
		"the last one counts": {`{"progress": 0.1, "progress": 0.2}`, store.Ping{Progress: raw("0.2")}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse([]byte(c.body))
			require.NoError(t, err)
			require.Equal(t, c.want, got)
			again, ok, err := Line([]byte(c.body))
			require.NoError(t, err)
			require.Equal(t, strings.TrimSpace(c.body) != "", ok)
			require.Equal(t, c.want, again, "a line means the same")
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		body, says string
		large      bool
	}{
		"not valid JSON":       {"progress=0.4", "not valid JSON", false},
		"half of it":           {`{"progress": 0.4`, "not valid JSON", false},
		"two of them":          {`{"progress": 0.4} {}`, "not valid JSON", false},
		"a number":             {"0.4", "not a JSON object", false},
		"a list":               {"[1]", "not a JSON object", false},
		"null":                 {"null", "not a JSON object", false},
		"beyond one":           {`{"progress": 1.01}`, "from 0 to 1", false},
		"a percentage":         {`{"progress": 40}`, "from 0 to 1", false},
		"below zero":           {`{"progress": -0.1}`, "from 0 to 1", false},
		"a list of it":         {`{"progress": [0.4]}`, "progress is neither", false},
		"true":                 {`{"progress": true}`, "progress is neither", false},
		"done alone":           {`{"progress": {"done": 1}}`, `"done" and "total"`, false},
		"done as a string":     {`{"progress": {"done": "1", "total": 2}}`, `"done" and "total"`, false},
		"negative":             {`{"progress": {"done": -1, "total": 2}}`, `"done" and "total"`, false},
		"too large to be one":  {`{"progress": {"done": 1, "total": 1e400}}`, `"done" and "total"`, false},
		"null in it":           {`{"progress": {"done": null, "total": 2}}`, `"done" and "total"`, false},
		"a long position":      {`{"progress": "` + strings.Repeat("p", store.MaxProgress-1) + `"}`, "progress has", true},
		"a message of numbers": {`{"message": 5}`, "message is not a string", false},
		"a window of zero":     {`{"next_within_s": 0}`, "above 0", false},
		"a negative window":    {`{"next_within_s": -5}`, "above 0", false},
		"a window in words":    {`{"next_within_s": "600"}`, "above 0", false},
		"an infinite window":   {`{"next_within_s": 1e999}`, "above 0", false},
		"a large checkpoint":   {`{"checkpoint": ` + checkpointOf(store.MaxCheckpoint+1) + `}`, "checkpoint has 65537 bytes", true},
		"a deep one":           {`{"checkpoint": ` + strings.Repeat("[", 501) + strings.Repeat("]", 501) + `}`, "more than 500 deep", false},
		"too long at all":      {strings.Repeat(" ", MaxBody+1), "the ping has", true},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(c.body))
			var e *Error
			require.ErrorAs(t, err, &e)
			require.Contains(t, e.Error(), c.says)
			require.Equal(t, c.large, e.TooLarge)
			require.Less(t, len(e.Reason), 1000)
		})
	}
}

func TestLine(t *testing.T) {
	for line, want := range map[string]string{
		"0.4": "0.4", " 0.40\r": "0.4", ".5": "0.5", "1": "1", "0": "0", "-0": "0", "1e-1": "0.1",
		"page": `"page"`, "page 40 of 100": `"page 40 of 100"`, "40": `"40"`, "40%": `"40%"`, "-1": `"-1"`, "1.5": `"1.5"`,
		"inf": `"inf"`, "0x1p-2": `"0x1p-2"`, "-": `"-"`, `"quoted"`: `"\"quoted\""`, "[1]": `"[1]"`, "a\x00\xff": "\"a\uFFFD\uFFFD\"",
	} {
		p, ok, err := Line([]byte(line))
		require.NoError(t, err, "%q", line)
		require.True(t, ok, "%q", line)
		require.Equal(t, want, string(p.Progress), "%q", line)
	}
	for _, line := range []string{"", " \t\r", "#", "# 0.4", "  #{}"} {
		_, ok, err := Line([]byte(line))
		require.NoError(t, err)
		require.False(t, ok, "%q says nothing", line)
	}
	for line, large := range map[string]bool{
		"{": false, `{"progress": 2}`: false, strings.Repeat("w", store.MaxProgress): true, "{" + strings.Repeat(" ", MaxBody) + "}": true,
	} {
		_, ok, err := Line([]byte(line))
		var e *Error
		require.ErrorAs(t, err, &e)
		require.False(t, ok)
		require.Equal(t, large, e.TooLarge)
	}
}

func TestText(t *testing.T) {
	for s, want := range map[string]string{
		"": "", "0.4": "0.4", `{"done":1,"total":2}`: `{"done":1,"total":2}`, ` { "total": 2, "done": 1 } `: `{"done":1,"total":2}`,
		"page 4": `"page 4"`,
	} {
		got, err := Text(s)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
	for _, s := range []string{"{", "{}", `{"done":1}`, strings.Repeat("w", store.MaxProgress), "{" + strings.Repeat(" ", MaxBody) + "}"} {
		_, err := Text(s)
		require.Error(t, err)
	}
}

func TestDatagram(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		want  store.Ping
		alive bool
	}{
		"nothing":         {"", store.Ping{}, false},
		"life":            {"WATCHDOG=1", store.Ping{}, true},
		"life, a line":    {"WATCHDOG=1\n", store.Ping{}, true},
		"trigger":         {"WATCHDOG=trigger", store.Ping{}, false},
		"no life":         {"WATCHDOG=0\nWATCHDOG=\nWATCHDOG\nXWATCHDOG=1\n WATCHDOG=1\nwatchdog=1", store.Ping{}, false},
		"a manager's":     {"READY=1\nMAINPID=7\nFDSTORE=1\nFDNAME=x\nBARRIER=1\nWATCHDOG_USEC=5\nRELOADING=1\nSTOPPING=1\nERRNO=2", store.Ping{}, false},
		"a message":       {"STATUS=page 40", store.Ping{Message: "page 40"}, false},
		"both":            {"READY=1\nSTATUS=a=b\nWATCHDOG=1", store.Ping{Message: "a=b"}, true},
		"a long message":  {"STATUS=" + strings.Repeat("m", 2*store.MaxMessage), store.Ping{Message: strings.Repeat("m", store.MaxMessage-len("…")) + "…"}, false},
		"progress":        {"X_LEASEHOLD_PROGRESS=0.4", store.Ping{Progress: raw("0.4")}, true},
		"a fraction":      {`X_LEASEHOLD_PROGRESS={"done": 1, "total": 2}`, store.Ping{Progress: raw(`{"done":1,"total":2}`)}, true},
		"no progress":     {"X_LEASEHOLD_PROGRESS=", store.Ping{}, false},
		"a checkpoint":    {`X_LEASEHOLD_CHECKPOINT={"page": 40}`, store.Ping{Checkpoint: raw(`{"page":40}`)}, true},
		"no checkpoint":   {`X_LEASEHOLD_CHECKPOINT=null`, store.Ping{}, false},
		"more time":       {"EXTEND_TIMEOUT_USEC=5000000", store.Ping{NextWithin: 5 * time.Second}, true},
		"endless time":    {"EXTEND_TIMEOUT_USEC=18446744073709551615", store.Ping{NextWithin: maxWithin}, true},
		"the last counts": {"X_LEASEHOLD_PROGRESS=0.1\nX_LEASEHOLD_PROGRESS=0.2\n", store.Ping{Progress: raw("0.2")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			p, alive, err := Datagram([]byte(c.text))
			require.NoError(t, err)
			require.Equal(t, c.want, p)
			require.Equal(t, c.alive, alive)
		})
	}
	for text, large := range map[string]bool{
		"WATCHDOG=1\nX_LEASEHOLD_PROGRESS={":                                                        false,
		"WATCHDOG=1\nX_LEASEHOLD_CHECKPOINT={page}":                                                 false,
		"WATCHDOG=1\nEXTEND_TIMEOUT_USEC=soon":                                                      false,
		"WATCHDOG=1\nEXTEND_TIMEOUT_USEC=0":                                                         false,
		"WATCHDOG=1\nEXTEND_TIMEOUT_USEC=-1":                                                        false,
		"WATCHDOG=1\n" + strings.Repeat("x", MaxBody):                                               true,
		"WATCHDOG=1\nX_LEASEHOLD_PROGRESS=" + strings.Repeat("x", store.MaxProgress):                true,
		"WATCHDOG=1\nX_LEASEHOLD_CHECKPOINT=\"" + strings.Repeat("x", store.MaxCheckpoint-1) + "\"": true,
	} {
		_, alive, err := Datagram([]byte(text))
		var e *Error
		require.ErrorAs(t, err, &e)
		require.False(t, alive, "nothing of it counts")
		require.Equal(t, large, e.TooLarge)
	}
}

func TestStream(t *testing.T) {
	for line, want := range map[string]End{
		`{"result": {"a": 1}}`:                       {Result: raw(`{"a": 1}`)},
		`{"result": null}`:                           {},
		`{"result": 0, "error": null}`:               {Result: raw("0")},
		`{"result": 5, "progress": 7}`:               {Result: raw("5")},
		`{"error": "why"}`:                           {Failed: true, Error: "why"},
		`{"error": "why", "retryable": true}`:        {Failed: true, Error: "why"},
		`{"error": "why", "retryable": false}`:       {Failed: true, Error: "why", Final: true},
		`{"error": "", "result": 5}`:                 {Failed: true},
		`{"error": {"code": 7}}`:                     {Failed: true, Error: `{"code": 7}`},
		`{"error": "why", "retryable": null}` + "\r": {Failed: true, Error: "why"},
	} {
		_, end, ok, err := Stream([]byte(line))
		require.NoError(t, err, line)
		require.True(t, ok, line)
		require.NotNil(t, end, line)
		require.Equal(t, want, *end, line)
	}
	for line, want := range map[string]store.Ping{
		"{}": {}, `{"error": null}`: {}, ` {"progress": 0.5} `: {Progress: raw("0.5")}, `{"Result": 1}`: {},
	} {
		p, end, ok, err := Stream([]byte(line))
		require.NoError(t, err, line)
		require.True(t, ok, line)
		require.Nil(t, end, line)
		require.Equal(t, want, p, line)
	}
	for _, line := range []string{"", "  ", "\r"} {
		_, end, ok, err := Stream([]byte(line))
		require.NoError(t, err)
		require.Nil(t, end)
		require.False(t, ok)
	}
	for _, line := range []string{
		"0.4", "working", "# comment", ": keep-alive", "<b>Warning</b>", `{"progress": 2}`, `{"result": 1`, "[]",
		`{"error": "why", "retryable": "no"}`,
	} {
		_, end, ok, err := Stream([]byte(line))
		require.Error(t, err, line)
		require.Nil(t, end, line)
		require.False(t, ok, line)
	}
}

func TestEnds(t *testing.T) {
	for body, want := range map[string]string{
		"": "", "{}": "", `{"result": null}`: "", `{"result": [1, 2]}`: "[1, 2]", `{"result": false, "more": 1}`: "false",
		`{"result": {"rollback": {"a": "\u0000\ud800"}}}`: `{"rollback": {"a": "\ufffd\ufffd"}}`,
		`{"result": ` + checkpointOf(64<<10) + `}`:        checkpointOf(64 << 10),
	} {
		got, err := ParseResult([]byte(body))
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
	for body, large := range map[string]bool{
		"x": false, "1": false, `{"result": }`: false, `{"result": ` + strings.Repeat("[", 501) + strings.Repeat("]", 501) + `}`: false,
		`{"result": ` + checkpointOf(64<<10+1) + `}`: true, strings.Repeat(" ", MaxBody+1): true,
	} {
		_, err := ParseResult([]byte(body))
		var e *Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, large, e.TooLarge)
	}
	for body, want := range map[string]End{
		"": {Failed: true}, "{}": {Failed: true}, `{"error": "why", "retryable": false}`: {Failed: true, Error: "why", Final: true},
	} {
		got, err := ParseFailure([]byte(body))
		require.NoError(t, err)
		require.Equal(t, want, *got)
	}
	for _, body := range []string{"x", "[]", `{"retryable": 1}`, strings.Repeat(" ", MaxBody+1)} {
		_, err := ParseFailure([]byte(body))
		require.Error(t, err)
	}
}

func TestLines(t *testing.T) {
	const text = "one\n\ntwo\r\n123456789\n1234567890\nthree\nrest"
	want := []string{"one", "", "two\r", "123456789", "TOO LONG", "three"}
	for size := 1; size <= len(text); size++ {
		l := Lines{Most: 9}
		var got []string
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			l.Add([]byte(rest[:n]), func(line []byte) {
				if line == nil {
					line = []byte("TOO LONG")
				}
				got = append(got, string(line))
			})
			require.LessOrEqual(t, cap(l.part), 64)
			rest = rest[n:]
		}
		require.Equal(t, want, got, "in pieces of %d", size)
		rest, ok := l.Rest()
		require.True(t, ok)
		require.Equal(t, "rest", string(rest))
		_, ok = l.Rest()
		require.False(t, ok)
	}
	l := Lines{Most: 9}
	l.Add([]byte("1234567890"), func([]byte) { t.Fatal("no line") })
	rest, ok := l.Rest()
	require.True(t, ok)
	require.Nil(t, rest, "too long")
}
