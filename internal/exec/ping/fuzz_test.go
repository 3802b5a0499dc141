package ping

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/exec/answer"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// seeds are what fuzzing begins with, for every parser: what is right somewhere is wrong elsewhere.
func seeds(f *testing.F) {
	f.Helper()
	for _, s := range []string{
		"", "\n", "{}", "null", "0.4", ".5", "page 40", "# comment", `{"progress": 0.4, "message": "page 40", "checkpoint": {"page": 40}, "next_within_s": 600}`,
		`{"progress": {"done": 40, "total": 100}}`, `{"progress": "a\u0000\ud800"}`, `{"checkpoint": "\u0000"}`, `{"checkpoint": 1e9999}`,
		`{"progress": -0}`, `{"progress": 1e-999}`, `{"next_within_s": 1e-999}`, `{"next_within_s": 1e308}`, "{\"message\": \"\xff\"}",
		"WATCHDOG=1", "WATCHDOG=trigger\nSTATUS=x", "X_LEASEHOLD_PROGRESS=0.4\nX_LEASEHOLD_CHECKPOINT={}\nEXTEND_TIMEOUT_USEC=5",
		`{"result": 5}`, `{"error": "why", "retryable": false}`, `{"error": {"a": "\u0000"}}`, strings.Repeat("[", 600),
		`4211.9.Wzzt0vkhY-T322AAr5ra5pWu`, "one\ntwo\nthree",
	} {
		f.Add([]byte(s))
	}
}

// fit requires that a ping is what every store takes, and that it stays itself when it is sent once more.
func fit(t *testing.T, p store.Ping) {
	t.Helper()
	require.LessOrEqual(t, len(p.Progress), store.MaxProgress)
	require.LessOrEqual(t, len(p.Checkpoint), store.MaxCheckpoint)
	require.LessOrEqual(t, len(p.Message), store.MaxMessage)
	require.True(t, utf8.ValidString(p.Message))
	require.NotContains(t, p.Message, "\x00")
	require.GreaterOrEqual(t, p.NextWithin, 0*p.NextWithin)
	require.LessOrEqual(t, p.NextWithin, maxWithin)
	doc := map[string]any{"message": p.Message}
	for name, raw := range map[string]json.RawMessage{"progress": p.Progress, "checkpoint": p.Checkpoint} {
		if raw == nil {
			continue
		}
		require.True(t, answer.Storable(raw), "%s", raw)
		var compact bytes.Buffer
		require.NoError(t, json.Compact(&compact, raw))
		require.Equal(t, compact.String(), string(raw), "compact")
		doc[name] = raw
	}
	if p.NextWithin > 0 {
		doc["next_within_s"] = p.NextWithin.Seconds()
	}
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	require.NoError(t, enc.Encode(doc))
	if body.Len() > MaxBody { // some characters are escaped that need not be
		return
	}
	again, err := Parse(body.Bytes())
	require.NoError(t, err, "%s", body.Bytes())
	require.JSONEq(t, string(orNull(p.Progress)), string(orNull(again.Progress)))
	require.Equal(t, p.Message, again.Message)
	require.InDelta(t, p.NextWithin.Seconds(), again.NextWithin.Seconds(), 1e-6*p.NextWithin.Seconds()+1e-8)
}

func orNull(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return json.RawMessage("null")
	}
	return raw
}

// refused requires an error whose reason can be passed on to the task.
func refused(t *testing.T, err error) {
	t.Helper()
	var e *Error
	require.ErrorAs(t, err, &e)
	require.NotEmpty(t, e.Reason)
	require.LessOrEqual(t, len(e.Reason), 2*answer.MaxLine)
	require.True(t, utf8.ValidString(e.Reason))
}

func FuzzParse(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		p, err := Parse(body)
		if err != nil {
			refused(t, err)
			require.Equal(t, store.Ping{}, p)
			return
		}
		fit(t, p)
	})
}

func FuzzLine(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, line []byte) {
		p, ok, err := Line(line)
		if err != nil {
			refused(t, err)
			require.False(t, ok)
			return
		}
		fit(t, p)
		said := bytes.TrimSpace(line)
		require.Equal(t, len(said) > 0 && said[0] != '#', ok)
	})
}

func FuzzDatagram(f *testing.F) {
	seeds(f)
	f.Add([]byte("X_LEASEHOLD_CHECKPOINT=next page\nWATCHDOG=1"))
	f.Add([]byte("X_LEASEHOLD_PROGRESS=0.4\nX_LEASEHOLD_PROGRESS=\nSTATUS=\xff\x00\r\n=\n\nWATCHDOG=1=1"))
	f.Add([]byte("EXTEND_TIMEOUT_USEC=18446744073709551615\nREADY=1\nSTATUS=a\nSTATUS=b\nX_LEASEHOLD_CHECKPOINT= null"))
	f.Fuzz(func(t *testing.T, d []byte) {
		p, alive, err := Datagram(d)
		among := append([]byte("READY=1\nWATCHDOG=trigger\nMAINPID=7\n"), d...)
		if among = append(among, "\nFDSTORE=1\nWATCHDOG=trigger"...); len(among) <= MaxBody {
			p2, alive2, err2 := Datagram(among)
			require.Equal(t, err, err2, "what is for the manager changes nothing")
			require.Equal(t, p, p2)
			require.Equal(t, alive, alive2)
		}
		if err != nil {
			refused(t, err)
			require.False(t, alive)
			require.Equal(t, store.Ping{}, p)
			return
		}
		fit(t, p)
		if p.Progress != nil || p.Checkpoint != nil || p.NextWithin > 0 {
			require.True(t, alive)
		}
		if len(d) > 0 && !bytes.ContainsAny(d, "=\n") {
			require.False(t, alive)
			require.Equal(t, store.Ping{}, p)
		}
	})
}

// FuzzText reads words as they stand in a shell. A number is what it is in JSON, and a checkpoint is JSON or is refused:
// what is dropped without a word would be missed by the next attempt.
func FuzzText(f *testing.F) {
	seeds(f)
	for _, s := range []string{"next", " null ", "nil", "\u00a0{}", "1e-7", "+.5e-0", "0.40", "-0", "1.0000000000000000001", `{"done": 1e2, "total": 9007199254740993}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		said := strings.TrimSpace(string(text))
		if p, err := Text(said); err != nil {
			refused(t, err)
			require.Nil(t, p)
		} else {
			fit(t, store.Ping{Progress: p})
			require.Equal(t, said == "", p == nil)
			again, err := progress(p) // in JSON it means the same
			require.NoError(t, err)
			require.Equal(t, string(p), string(again))
		}
		c, err := Checkpoint(string(text))
		if err != nil {
			refused(t, err)
			require.Nil(t, c)
			return
		}
		require.True(t, said == "" || json.Valid([]byte(said)), "dropped without a word: %q", said)
		require.Equal(t, said == "" || said == "null", c == nil)
		fit(t, store.Ping{Checkpoint: c})
	})
}

func FuzzStream(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, line []byte) {
		p, end, ok, err := Stream(line)
		if err != nil {
			refused(t, err)
			require.False(t, ok)
			require.Nil(t, end)
			return
		}
		fit(t, p)
		if end == nil {
			return
		}
		require.True(t, ok)
		require.LessOrEqual(t, len(end.Error), task.MaxError)
		require.True(t, utf8.ValidString(end.Error))
		require.True(t, end.Result == nil || json.Valid(end.Result))
		require.False(t, end.Failed && end.Result != nil)
	})
}

func FuzzEnds(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		if result, err := ParseResult(body); err != nil {
			refused(t, err)
		} else if result != nil {
			require.True(t, answer.Storable(result))
			require.LessOrEqual(t, len(result), task.MaxResult)
		}
		if end, err := ParseFailure(body); err != nil {
			refused(t, err)
		} else {
			require.True(t, end.Failed)
			require.LessOrEqual(t, len(end.Error), task.MaxError)
		}
	})
}

func FuzzToken(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, token []byte) {
		s := signer(t, "s")
		if id, fence, ok := s.Parse(string(token)); ok {
			require.Equal(t, Path+string(token), s.URL("", id, fence), "there is one way to write it")
		}
	})
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("one\ntwo\nthree"), uint8(3))
	f.Add([]byte("\n\n"), uint8(1))
	f.Add([]byte(strings.Repeat("x", 100)+"\ny"), uint8(7))
	f.Fuzz(func(t *testing.T, text []byte, size uint8) {
		const most = 16
		l := Lines{Most: most}
		var got [][]byte
		for rest := text; len(rest) > 0; {
			n := min(int(size)+1, len(rest))
			l.Add(rest[:n], func(line []byte) { got = append(got, bytes.Clone(line)) })
			rest = rest[n:]
			require.LessOrEqual(t, len(l.part), most)
			require.LessOrEqual(t, cap(l.part), 4*most, "what is kept is bounded, however long a line is")
		}
		lines := bytes.Split(text, []byte("\n"))
		last := lines[len(lines)-1]
		for i, line := range lines[:len(lines)-1] {
			if len(line) > most {
				require.Nil(t, got[i])
				continue
			}
			require.Equal(t, string(line), string(got[i]))
		}
		require.Len(t, got, len(lines)-1)
		rest, ok := l.Rest()
		require.Equal(t, len(last) > 0, ok)
		if len(last) <= most {
			require.Equal(t, string(last), string(rest))
		}
	})
}
