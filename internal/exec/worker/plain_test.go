package worker

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Lines that plainLast reads.
func plainLines() []string {
	return []string{
		`{"id": 4211, "fence": 9, "result": null}`,
		`{"id":4211,"fence":9,"result":null}`,
		"{\t\"fence\" : 0 ,\r\"id\":123456789012345678, \"result\" :{\"a\":[1,\"}\"]} }",
		`{"id": 4211, "result": null, "fence": 9}`,
		`{"result": null, "fence": 9, "id": 4211}`,
		`{"id": 4211, "fence": 9, "result": "\u0000\ud800"}`,
		`{"id": 4211, "fence": 9, "result": 1e9999}`,
	}
}

// Lines that it leaves to parse.
func otherLines() []string {
	return []string{
		"{", "null", "[]", `{"ready": true}`, `{"progress": 1}`,
		`{"id": 4211, "fence": 9}`, `{"id": 4211, "fence": 9, "result": }`, `{"id": 4211, "fence": 9, "result": null`,
		`{"id": 4211, "fence": 9, "result": null} `, `{"id": 4211, "fence": 9, "result": null}}`, `{"id": 4211, "fence": 9, "result": nullx}`,
		`{"id": 4211, "fence": 9, "result": null,}`, `{"id": 4211, "fence": 9, "result": null, "error": null}`,
		`{"id": 4211, "fence": 9, "result": 1, "error": "x"}`, `{"id": 4211, "fence": 9, "result": 1, "result": 2}`,
		`{"id": 1, "id": 4211, "fence": 9, "result": null}`, `{"id": 4211, "fence": 9, "result": null, "id": 1}`, `{"id": 4211, "id": 4211, "result": null}`,
		`{"id": 4211, "result": 1, "fence": 9}`, `{"id": 04211, "fence": 9, "result": null}`, `{"id": 4211.0, "fence": 9, "result": null}`,
		`{"id": "4211", "fence": 9, "result": null}`, `{"id": -4211, "fence": 9, "result": null}`, `{"id": 9223372036854775807, "fence": 9, "result": null}`,
		`{"id": 92233720368547758079, "fence": 9, "result": null}`, `{"i\u0064": 4211, "fence": 9, "result": null}`,
		`{"ID": 4211, "fence": 9, "result": null}`, `{"id": null, "fence": 9, "result": null}`, `{"id": 4211 "fence": 9, "result": null}`,
		`{"id": 4211, "fence": 9, "result": ` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + `}`,
		`{"id": 4211, "fence": 9, "result": "` + strings.Repeat("a", plainResult) + `"}`,
	}
}

func TestPlainLast(t *testing.T) {
	for _, line := range plainLines() {
		l, ok := plainLast([]byte(line))
		require.True(t, ok, line)
		want, err := parse([]byte(line))
		require.NoError(t, err, line)
		require.Equal(t, want, l, line)
	}
	for _, line := range otherLines() {
		l, ok := plainLast([]byte(line))
		require.False(t, ok, line)
		require.Equal(t, Line{}, l, line)
	}
}

// FuzzPlainLast compares what plainLast reads with what parse reads.
func FuzzPlainLast(f *testing.F) {
	for _, line := range append(plainLines(), otherLines()...) {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		given := string(line)
		l, ok := plainLast(line)
		require.Equal(t, given, string(line), "the line is the caller's")
		if !ok {
			require.Equal(t, Line{}, l)
			return
		}
		clear(line) // as the next line will
		want, err := parse([]byte(given))
		require.NoError(t, err)
		require.Equal(t, want, l)
	})
}
