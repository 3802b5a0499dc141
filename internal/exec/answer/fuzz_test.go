package answer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/task"
)

func seeds(f *testing.F) {
	f.Helper()
	for _, s := range []string{
		"", "{}", `{"a":"\ud83d\ude00"}`, `"\u0000"`, `[1e5,-0.5]`, "\xff", `{"a":[{}]}`, `"\\u0000"`, `"\\\u0000"`, `"\ud83d"`, `"\ude00\ud83d"`, `"\uD83D\u0041"`, `"\ufffd"`,
		"\"\ufffd\"", `[1E+1000, 1e-1001]`, `1e99999999999999999999`, `{"\u0000": 1}`, `{"a": "x\ud800y"}`, strings.Repeat("[", 501) + strings.Repeat("]", 501), "\"\x7f\"", " 1 2 ",
		strings.Repeat("9", 1001), "a\x00b",
	} {
		f.Add([]byte(s))
	}
}

// FuzzResult keeps anything as a result: storable JSON as it is, other JSON with its structure, all else as a string that
// says the same.
func FuzzResult(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		line := Line(string(body))
		require.LessOrEqual(t, len(line), MaxLine)
		require.True(t, utf8.ValidString(line))
		require.False(t, strings.ContainsFunc(line, unicode.IsControl), "%q", line)
		got, note := Result(body, int64(len(body)))
		said := bytes.TrimSpace(body)
		if got == nil {
			require.True(t, len(said) == 0 || note != "", "nothing is dropped without a word")
			return
		}
		require.Empty(t, note)
		require.LessOrEqual(t, len(got), task.MaxResult)
		require.True(t, Storable(got), "%s", got)
		if Storable(said) {
			require.Equal(t, string(said), string(got))
			return
		}
		if _, mended := Mend(said); mended {
			require.Equal(t, tokens(t, said), tokens(t, got), "the structure stays, and all but what no store keeps")
			return
		}
		var text string
		require.NoError(t, json.Unmarshal(got, &text))
		require.Equal(t, task.Text(string(body), 4*len(body)+8), text)
	})
}

// odd is what a character becomes that cannot be kept, however many bytes it was spelled with.
var odd = regexp.MustCompile("[\x00\ufffd]+")

// tokens is a document piece by piece, without what makes a difference only to stores.
func tokens(t *testing.T, doc []byte) (all []string) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		all = append(all, odd.ReplaceAllString(fmt.Sprint(token), "\ufffd"))
	}
}

// FuzzStorable asks a second time, by decoding, whether every store takes a document.
func FuzzStorable(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		require.Equal(t, takenEverywhere(body), Storable(body), "%s", body)
	})
}

// replacement is how U+FFFD can be escaped.
var replacement = regexp.MustCompile(`(?i)\\ufffd`)

// takenEverywhere is Storable, derived from what a decoder makes of a document. The decoder replaces each lone surrogate by
// U+FFFD, so the document has one if the decoder returns more U+FFFD than are written.
func takenEverywhere(body []byte) bool {
	if !json.Valid(body) || !utf8.Valid(body) {
		return false
	}
	plain := strings.ReplaceAll(string(body), `\\`, "")
	written := strings.Count(plain, "\ufffd") + len(replacement.FindAllString(plain, -1))
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	depth := 0
	for {
		token, err := dec.Token()
		if err != nil {
			return errors.Is(err, io.EOF) && written == 0
		}
		switch token := token.(type) {
		case json.Delim:
			switch token {
			case '[', '{':
				depth++
			default:
				depth--
			}
			if depth > maxDepth {
				return false
			}
		case string:
			if strings.Contains(token, "\x00") {
				return false
			}
			written -= strings.Count(token, "\ufffd")
		case json.Number:
			_, exponent, _ := strings.Cut(strings.ToLower(token.String()), "e")
			e, err := strconv.Atoi(exponent)
			if len(token) > maxNumber || exponent != "" && (err != nil || e > maxExponent || e < -maxExponent) {
				return false
			}
		}
	}
}

// FuzzWords has any page say something that fits a store.
func FuzzWords(f *testing.F) {
	seeds(f)
	for _, page := range []string{django, rails, nginx, express, "<svg><title>", "<title>\xff", "<p/><script", "a<![CDATA[b]]>c&#0;"} {
		f.Add([]byte(page))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, media := range []string{"", "text/html"} {
			said := Words(media, body)
			require.LessOrEqual(t, len(said), MaxLine)
			require.True(t, utf8.ValidString(said))
			require.False(t, strings.ContainsFunc(said, unicode.IsControl), "%q", said)
			if !isPage(media, body) {
				require.Equal(t, Line(string(body)), said)
			}
		}
	})
}

// FuzzSeconds takes any number of seconds.
func FuzzSeconds(f *testing.F) {
	for _, s := range []float64{0, -1, 0.25, 86400, 86399.9999999999, 1e300, 5e-324} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s float64) {
		d := Seconds(s)
		require.GreaterOrEqual(t, d, 0*d)
		require.LessOrEqual(t, d, MaxRetryAfter)
		if 0 < s && s < MaxRetryAfter.Seconds() {
			require.InDelta(t, s, d.Seconds(), 1e-6)
		}
	})
}
