package config

import (
	"encoding/json"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestScanIsDecoding compares what is found in place with what encoding/json decodes.
func TestScanIsDecoding(t *testing.T) {
	var value func(depth int) *rapid.Generator[string]
	value = func(depth int) *rapid.Generator[string] {
		return rapid.Custom(func(t *rapid.T) string {
			space := rapid.SampledFrom([]string{"", " ", "\n\t"}).Draw(t, "space")
			kind := rapid.IntRange(0, 5).Draw(t, "kind")
			if depth == 0 {
				kind = min(kind, 3)
			}
			switch kind {
			case 0:
				text := rapid.SampledFrom([]string{"", "a", `\`, `"`, "}", "]", ",", ":", "{["}).Draw(t, "text")
				return space + strconv.Quote(text) + space
			case 1, 2, 3:
				words := []string{"0", "-1.5e3", "true", "null", `"\u00e9\"\\"`, "[]", "{ }"}
				return space + rapid.SampledFrom(words).Draw(t, "word") + space
			case 4:
				out := "["
				for i := range rapid.IntRange(0, 3).Draw(t, "items") {
					if i > 0 {
						out += ","
					}
					out += value(depth-1).Draw(t, "item")
				}
				return out + "]" + space
			}
			out := "{" + space
			for i := range rapid.IntRange(0, 3).Draw(t, "members") {
				if i > 0 {
					out += "," + space
				}
				name := rapid.SampledFrom([]string{`"a"`, `"b"`, `"\u0061"`, `"a\"}"`, `""`}).Draw(t, "name")
				out += name + space + ":" + value(depth-1).Draw(t, "member")
			}
			return out + "}"
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		inner := value(3).Draw(t, "json")
		object := `{"x": 1, "a": ` + inner + `, "z": {}}`
		var want map[string]json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(object), &want))
		for _, name := range []string{"x", "a", "z", "b"} {
			got, found, err := member([]byte(object), name)
			require.NoError(t, err)
			require.Equal(t, want[name] != nil, found)
			require.Equal(t, string(want[name]), string(got))
		}
		list := "[" + inner + "," + inner + ", 7]"
		var items []json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(list), &items))
		for i := range 4 {
			got, n, err := item([]byte(list), i)
			require.NoError(t, err)
			require.Equal(t, 3, n)
			if i < 3 {
				require.Equal(t, string(items[i]), string(got))
			}
		}
	})
}

// TestScanOfBrokenText cuts and spoils JSON in every place: nothing may panic.
func TestScanOfBrokenText(t *testing.T) {
	const text = `{"a": [1, {"b": "c\"d"}], "e\u0041": null, "f": -1.5}`
	for i := range len(text) {
		for _, b := range []string{text[:i], text[:i] + "}" + text[i:], text[:i] + "\"" + text[i:],
			text[:i] + "\\" + text[i:], text[i:]} {
			if b == "" {
				continue
			}
			_, _, _ = member([]byte(b), "a")
			_, _, _ = item([]byte(b), 1)
		}
		if i > 0 {
			_, _, err := member([]byte(text[:i]), "a")
			require.ErrorIs(t, err, errJSON, text[:i])
		}
	}
}
