package answer

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/task"
)

func TestResult(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"nothing":             {"", ""},
		"white space":         {" \r\n\t", ""},
		"object":              {` {"a": 1} ` + "\n", `{"a": 1}`},
		"null":                {"null", "null"},
		"number kept exactly": {"12345678901234567890.10", "12345678901234567890.10"},
		"text":                {"done <b>", `"done <b>"`},
		"two documents":       {`{} {}`, `"{} {}"`},
		"invalid UTF-8":       {"a\xffb", `"a` + "\ufffd" + `b"`},
		"invalid UTF-8 JSON":  {"{\"a\xffb\": 1}", `{"a` + "\ufffd" + `b": 1}`},
		"NUL":                 {"a\x00b", `"a` + "\ufffd" + `b"`},
		"escaped NUL":         {`{"a":"\u0000"}`, `{"a":"\ufffd"}`},
		"escaped backslash":   {`{"a":"\\u0000"}`, `{"a":"\\u0000"}`},
		"surrogate pair":      {`"\ud83d\ude00"`, `"\ud83d\ude00"`},
		"lone surrogate":      {`"\ud83d"`, `"\ufffd"`},
		"second half alone":   {`"\ude00"`, `"\ufffd"`},
		"half and other":      {`"\ud83d\u0041"`, `"\ufffd\u0041"`},
		"huge exponent":       {`[1e400000, 2]`, `["1e400000", 2]`},
		"NUL in a name":       {`{"\u0000":{"b":["\u0000\\"]}}`, `{"\ufffd":{"b":["\ufffd\\"]}}`},
		"two halves, wrongly": {`"\ude00\ud83d\ud83d\ude00"`, `"\ufffd\ufffd\ud83d\ude00"`},
		"usual exponent":      {`[1e40, -1E-7]`, `[1e40, -1E-7]`},
		"endless exponent":    {`1e99999999999999999999`, `"1e99999999999999999999"`},
	} {
		t.Run(name, func(t *testing.T) {
			got, note := Result([]byte(c.body), int64(len(c.body)))
			require.Equal(t, c.want, string(got))
			require.Empty(t, note)
		})
	}
}

func TestResultLimits(t *testing.T) {
	fits := `"` + strings.Repeat("x", task.MaxResult-2) + `"`
	got, note := Result([]byte(fits), int64(len(fits)))
	require.Len(t, got, task.MaxResult)
	require.Empty(t, note)

	got, note = Result([]byte(fits+" "), int64(len(fits)+1))
	require.Nil(t, got)
	require.Equal(t, "result not kept: it has 65537 bytes, and the limit is 65536", note)

	got, note = Result([]byte("the beginning"), 1<<30)
	require.Nil(t, got, "the beginning of a long result is no result")
	require.Contains(t, note, "1073741824 bytes")

	quotes := strings.Repeat(`"`, task.MaxResult)
	got, note = Result([]byte(quotes), int64(len(quotes)))
	require.Nil(t, got, "as a string it would be twice as long")
	require.Contains(t, note, "not kept")

	grows := `["` + strings.Repeat("x", task.MaxResult-14) + "\xff" + `",1e9999]`
	got, note = Result([]byte(grows), int64(len(grows)))
	require.Nil(t, got, "mended it would be too long")
	require.Contains(t, note, "not kept")

	deep := strings.Repeat("[", 2000) + strings.Repeat("]", 2000)
	got, _ = Result([]byte(deep), int64(len(deep)))
	require.Equal(t, byte('"'), got[0], "too deep for SQLite: kept as a string")
}

func TestLine(t *testing.T) {
	require.Equal(t, "one two three", Line("  one\r\n\ttwo\x1b \x00three "+"\n"))
	require.LessOrEqual(t, len(Line(strings.Repeat("é", 100_000))), MaxLine)
}

func TestSeconds(t *testing.T) {
	for in, want := range map[float64]time.Duration{
		0: 0, -1: 0, 1: time.Second, 0.25: 250 * time.Millisecond, 30: 30 * time.Second,
		86399: 86399 * time.Second, 86401: MaxRetryAfter, 1e300: MaxRetryAfter,
		math.Inf(1): MaxRetryAfter, math.Inf(-1): 0,
	} {
		require.Equal(t, want, Seconds(in), "%v", in)
	}
	require.Zero(t, Seconds(math.NaN()))
}

func TestAnOddCharacterDoesNotKeepARollbackFromItsState(t *testing.T) {
	for _, odd := range []string{`\u0000`, `\ud800`, `\udc00\ud800`, "\xff"} {
		result, note := Result([]byte(`{"said":"`+odd+`","rollback":{"zone":"a","was":"`+odd+`"}}`), 64)
		require.Empty(t, note)
		row := task.Task{State: task.StateRollbackRunning, Payload: []byte(`{"zone":"b"}`), Result: result}
		require.Contains(t, string(row.Data()), `"zone":"a"`, "%q", odd)
	}
}
