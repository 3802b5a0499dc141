package config

import (
	"encoding/json"
	"math/big"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/task"
)

// rowsEverywhere has templates in every place that a row may fill.
const rowsEverywhere = `
task "path" {
  webhook {
    url     = "http://127.0.0.1:8080/t/${task.data.v}/a-${task.key}.json?q=${task.data.v}&r=${task.region}"
    headers = { X-Value = task.data.v, X-Key = "k ${task.key}" }
  }
}

task "beside" {
  webhook {
    url = "https://h.example/${task.key}${task.labels.x}?a=/../&${task.data.v}=1"
  }
}

task "bare" {
  webhook {
    url = "http://[::1]:1?q=${lower(task.key)}${task.data.v}"
  }
}

task "command" {
  command {
    argv = ["echo", task.data.v, "--x=${task.data.v}", "-${task.labels.x}", "${task.key}-y", "%{if task.key != null}z${task.data.v}%{endif}"]
    env  = { A = "${task.data.v}${task.region}" }
  }
}
`

// FuzzRows fills a row's text into templates. Wherever it stands it comes out as itself, and nothing else of a URL is
// different: not its scheme, host or port, not how many segments its path has or its query members, and no argument
// loses what it was declared to begin with.
func FuzzRows(f *testing.F) {
	for _, s := range []string{
		"x", "", ".", "..", "%2e%2e", "/", "../admin", "?a=b&c=d", "#f", "@evil", "://evil/", "a b+c", "\r\nHost: evil", "é\u0301", "\x00", "-rf", "\xff", "\\..\\",
		"http://evil/", ":80", ";", "\u2028", "\u2024\u2024", strings.Repeat("/", 3000),
	} {
		f.Add(s, s, "sg", "1")
		f.Add("v", s, s, s)
	}
	cfg := mustLoad(f, rowsEverywhere, nil)
	f.Fuzz(func(t *testing.T, value, key, region, label string) {
		if len(value)+len(key)+len(region)+len(label) > 16<<10 {
			return
		}
		r := &task.Task{ID: 7, Type: "a", Key: key, Region: region, Payload: asJSON(t, "v", value), Labels: asJSON(t, "x", label)}
		value, label = asUTF8(value), asUTF8(label)
		w := cfg.Type("path").Target.(*task.Webhook)
		if u := filled(t, w.URL, r, "http", "127.0.0.1:8080", key == "" || region == "" || isDotted(value) || climbs("a-"+key+".json")); u != nil {
			require.Equal(t, []string{"", "t", value, "a-" + key + ".json"}, segments(t, u))
			require.Equal(t, url.Values{"q": {value}, "r": {region}}, queried(t, u))
		}
		w = cfg.Type("beside").Target.(*task.Webhook)
		if u := filled(t, w.URL, r, "https", "h.example", key == "" || isDotted(key+label)); u != nil {
			require.Equal(t, []string{"", key + label}, segments(t, u))
			want := url.Values{"a": {"/../"}}
			want.Add(value, "1")
			require.Equal(t, want, queried(t, u))
		}
		w = cfg.Type("bare").Target.(*task.Webhook)
		if u := filled(t, w.URL, r, "http", "[::1]:1", key == ""); u != nil {
			require.Equal(t, []string{""}, segments(t, u))
			require.True(t, strings.HasSuffix(queried(t, u).Get("q"), value))
		}
		headersFilled(t, cfg.Type("path").Target.(*task.Webhook), r, value)
		argumentsFilled(t, cfg.Type("command").Target.(*task.Command), r, value, label)
	})
}

// asJSON is an object of one string, as a store gives it.
func asJSON(t *testing.T, name, value string) json.RawMessage {
	t.Helper()
	doc, err := json.Marshal(map[string]string{name: value})
	require.NoError(t, err)
	return doc
}

// asUTF8 is what becomes of a string in JSON.
func asUTF8(s string) string { return string([]rune(s)) }

func isDotted(s string) bool { return s == "" || s == "." || climbs(s) }

// filled evaluates a URL for a row; nil where the row does not fit, which it does not where bad, or where it is long.
func filled(t *testing.T, template task.Template, r *task.Task, scheme, host string, bad bool) *url.URL {
	t.Helper()
	got, err := template(r)
	if err != nil {
		most := 3 * (2*len(r.Payload) + len(r.Labels) + len(r.Key) + len(r.Region)) // each byte escaped, a field twice
		require.True(t, bad || most > maxURL/2, "refused for no reason: %s", err)
		require.Contains(t, err.Error(), "leasehold.hcl:")
		require.Less(t, len(err.Error()), 1000)
		return nil
	}
	require.False(t, bad, got)
	require.LessOrEqual(t, len(got), maxURL)
	for i := range len(got) {
		require.True(t, ' ' < got[i] && got[i] < 0x7f, "%q", got)
	}
	require.True(t, strings.HasPrefix(got, scheme+"://"+host), got)
	u, err := url.Parse(got)
	require.NoError(t, err)
	require.Equal(t, scheme, u.Scheme)
	require.Equal(t, host, u.Host)
	require.Nil(t, u.User)
	require.Empty(t, u.Opaque)
	require.NotContains(t, got, "#")
	return u
}

// segments are those of the path as it is sent, unescaped.
func segments(t *testing.T, u *url.URL) []string {
	t.Helper()
	parts := strings.Split(u.EscapedPath(), "/")
	for i, p := range parts {
		require.True(t, i == 0 || !isDots(p), u.EscapedPath())
		for range 3 { // as a server that decodes again and again, and then looks for ".."
			for s := range strings.FieldsFuncSeq(p, func(r rune) bool { return r == '/' || r == '\\' }) {
				require.NotEqual(t, "..", s, u.EscapedPath())
			}
			if plain, err := url.PathUnescape(p); err == nil {
				p = plain
			}
		}
		p = parts[i]
		plain, err := url.PathUnescape(p)
		require.NoError(t, err)
		parts[i] = plain
	}
	return parts
}

func queried(t *testing.T, u *url.URL) url.Values {
	t.Helper()
	q, err := url.ParseQuery(u.RawQuery)
	require.NoError(t, err)
	return q
}

func headersFilled(t *testing.T, w *task.Webhook, r *task.Task, value string) {
	t.Helper()
	for name, want := range map[string]string{"X-Value": value, "X-Key": "k " + r.Key} {
		got, err := w.Headers[name](r)
		if err != nil {
			broken := strings.ContainsFunc(want, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f })
			require.True(t, broken || len(want) > maxHeader || name == "X-Key" && r.Key == "", "refused for no reason: %s", err)
			continue
		}
		require.Equal(t, want, got)
		require.False(t, strings.ContainsAny(got, "\r\n\x00"))
	}
}

func argumentsFilled(t *testing.T, c *task.Command, r *task.Task, value, label string) {
	t.Helper()
	dashes := []bool{false, false, true, true, false, false}
	for i, want := range []string{"echo", value, "--x=" + value, "-" + label, r.Key + "-y", ""} {
		require.Equal(t, dashes[i], c.Argv[i].Dash)
		got, err := c.Argv[i].Template(r)
		if err != nil {
			require.True(t, strings.Contains(want+value, "\x00") || r.Key == "", "refused for no reason: %s", err)
			continue
		}
		require.NotContains(t, got, "\x00")
		if i < 5 { // HCL, which evaluates the last, normalises text
			require.Equal(t, want, got)
		}
	}
	got, err := c.Env["A"](r)
	if err == nil {
		require.Equal(t, value+r.Region, got)
	}
}

// FuzzScan looks into anything for a path, and finds what encoding/json finds; where it is no JSON nothing may panic.
func FuzzScan(f *testing.F) {
	for _, s := range []string{
		`{"a": {"b": [1, {"c": "x"}]}}`, `{"a": 1, "\u0061": 2}`, `{"a": "\ud800"}`, `{"a": -0.0e-0}`, `{"a": 1e400}`, `{"a": 1.50E+2}`, `[[], [0]]`, `{"a": nul}`, `{"a": "`,
		`{"a": }`, "{\"a\"\v: 1}", `{"": {"": true}}`, `{"a": [1,]}`, `{"a": 0.000e3}`, `{"a": 12e-1, "a": 1}`, " {\n} ", `{"a": 01}`,
	} {
		for _, path := range []string{"a", "a/b/1/c", "0", "1/0", "", "a/-1"} {
			f.Add([]byte(s), path)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, path string) {
		if len(text) > 16<<10 || len(path) > 256 {
			return
		}
		p := rowPath{field: "data", text: "task.data"}
		for s := range strings.SplitSeq(path, "/") {
			p.steps = append(p.steps, pathStep(s))
		}
		r := &task.Task{Payload: text}
		raw, err := p.raw(r)
		value, valueErr := p.value(r)
		if err != nil {
			require.Error(t, valueErr)
		}
		if !json.Valid(text) || !utf8.Valid(text) { // invalid UTF-8 in names is the one thing in which they differ
			return
		}
		want, found := walk(text, strings.Split(path, "/"))
		require.Equal(t, found, err == nil, "%v", err)
		if err == nil {
			require.Equal(t, string(want), string(raw))
			sameScalar(t, want, value, valueErr)
		}
	})
}

// walk finds a path by decoding.
func walk(at json.RawMessage, steps []string) (json.RawMessage, bool) {
	for _, step := range steps {
		var members map[string]json.RawMessage
		var items []json.RawMessage
		switch i, err := strconv.Atoi(step); {
		case json.Unmarshal(at, &members) == nil && members != nil:
			next, ok := members[step]
			if !ok {
				return nil, false
			}
			at = next
		case err == nil && json.Unmarshal(at, &items) == nil && 0 <= i && i < len(items):
			at = items[i]
		default:
			return nil, false
		}
	}
	return at, true
}

// sameScalar requires that a template's text of a JSON value is that value.
func sameScalar(t *testing.T, raw json.RawMessage, got string, err error) {
	t.Helper()
	switch raw[0] {
	case '{', '[', 'n':
		require.Error(t, err)
	case '"':
		var want string
		require.NoError(t, json.Unmarshal(raw, &want))
		require.NoError(t, err)
		require.Equal(t, want, got)
	case 't', 'f':
		require.NoError(t, err)
		require.Equal(t, string(raw), got)
	default:
		if err != nil {
			require.ErrorIs(t, err, errNumber)
			return
		}
		want, ok := new(big.Rat).SetString(string(raw))
		require.True(t, ok, "%s", raw)
		same, ok := new(big.Rat).SetString(got)
		require.True(t, ok, got)
		require.Zero(t, want.Cmp(same), "%s became %s", raw, got)
		require.LessOrEqual(t, len(got), maxDigits+maxExponent+3)
		if strings.ContainsAny(string(raw), "eE") {
			require.NotContains(t, strings.ToLower(got), "e")
		}
	}
}
