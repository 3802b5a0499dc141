package ping

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func objects() []string {
	return []string{
		`{}`, ` { } `, `{"id": 4211, "fence": 9, "result": {"a": [1, "}", {"b": "\"]"}]}}`, "\t{\"a\" :\r\n-1.5e3 , \"b\":true}\n", `{"a":null}`,
		`{"a":1,"a":2}`, `{"a":"x\\","b":"\\\""}`, `{"":0}`, `{"\u0061":1}`, `{"é":1}`, "{\"\xff\":1}", "{\"a\":\"\xff\"}", `{"a":[],"b":{}}`,
		`[]`, `null`, `1`, `"x"`, `{`, ``, ` `, `{"a"}`, `{"a":1}{`, `{"a":1,}`, `{"a":01}`,
	}
}

// same requires of Object what encoding/json says.
func same(t *testing.T, body string) {
	var want map[string]json.RawMessage
	err := json.Unmarshal([]byte(body), &want)
	doc := []byte(body)
	got, failed := Object("it", doc)
	clear(doc)
	if err != nil || want == nil {
		require.Error(t, failed, "%q", body)
		return
	}
	require.NoError(t, failed, "%q", body)
	require.Equal(t, want, got, "%q", body)
}

func TestObject(t *testing.T) {
	for _, body := range objects() {
		same(t, body)
	}
}

func FuzzObject(f *testing.F) {
	for _, body := range objects() {
		f.Add(body)
	}
	f.Fuzz(same)
}

func BenchmarkObject(b *testing.B) {
	b.ReportAllocs()
	line := []byte(`{"id": 4211, "fence": 9, "result": null}`)
	for b.Loop() {
		if _, err := Object("the line", line); err != nil {
			b.Fatal(err)
		}
	}
}
