package ops

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"
)

func TestMaskDocument(t *testing.T) {
	digits := strings.Repeat("9876543210", 10)
	m := NewMask("card", "a.b", "é", "${x}", `q"\`)
	for doc, want := range map[string]string{
		`{"card":4111}`: `{"card":"(redacted)"}`,
		`{"card" : "4111" , "n":` + digits + `.0}`: `{"card" : "(redacted)" , "n":` + digits + `.0}`,
		`[{"x":{"card":{"n":[1,{"card":2}]}}},7]`:  `[{"x":{"card":"(redacted)"}},7]`,
		"{\n\t\"card\"\r:\n [1, \"]}\\\"\"] }":     "{\n\t\"card\"\r:\n \"(redacted)\" }",
		`{"\u0063ar\u0064":1,"card":2,"card":3}`:   `{"\u0063ar\u0064":"(redacted)","card":"(redacted)","card":"(redacted)"}`,
		`{"card":null,"x":"card","card2":"card:"}`: `{"card":"(redacted)","x":"card","card2":"card:"}`,
		`{"card":""}`:                          `{"card":"(redacted)"}`,
		`{"Card":1,"a.b":1,"a":{"b":2}}`:       `{"Card":1,"a.b":"(redacted)","a":{"b":2}}`,
		`{"é":1,"e\u0301":2,"\u00e9":3,"ê":4}`: `{"é":"(redacted)","e\u0301":"(redacted)","\u00e9":"(redacted)","ê":4}`,
		`{"${x}":1,"q\"\\":-1.5e+7}`:           `{"${x}":"(redacted)","q\"\\":"(redacted)"}`,
		`"card"`:                               `"card"`,
		`["card",":",{"x":"card"}]`:            `["card",":",{"x":"card"}]`,
		`{"x":"\"card\":4111"}`:                `{"x":"\"card\":4111"}`,
		` 7 `:                                  ` 7 `,
		`{"card":tru}`:                         `"(redacted)"`,
		`{"card":4111`:                         `"(redacted)"`,
		``:                                     `"(redacted)"`,
		"{\"c\xff\":1,\"card\":\"\xff\"}":      "{\"c\xff\":1,\"card\":\"(redacted)\"}",
	} {
		before := json.RawMessage(doc)
		require.Equal(t, want, string(m.Document(before)), doc)
		require.Equal(t, doc, string(before), "it is not changed in place")
	}
	require.Nil(t, m.Document(nil))
	require.Equal(t, `{"card":`, string(Mask{}.Document(json.RawMessage(`{"card":`))), "what is not masked is not looked at")
	require.Equal(t, `"(redacted)"`, string(m.Document(json.RawMessage(strings.Repeat("[", 20_000)+strings.Repeat("]", 20_000)))),
		"deeper than Go reads")
	deep := strings.Repeat(`{"a":[`, 4000) + `{"card":1}` + strings.Repeat(`]}`, 4000)
	require.Equal(t, strings.Replace(deep, `:1}`, `:"(redacted)"}`, 1), string(m.Document(json.RawMessage(deep))))
}

// FuzzMask compares the rewriter with one that reads the document.
func FuzzMask(f *testing.F) {
	for _, doc := range []string{
		`{"card":4111}`, `[{"x":{"\u0063ard":{"n":[1,{"card":2}]}}},7]`, "{\n\"card\" :\t-1.50e9 ,\"card\":[{},[]], \"é\":\"\\\\\"}", `"card"`,
		`{"a":{"card":null},"b":"\"card\":1","card":"\\"}`, `{"card":`, `{"\ud800":1,"\u00e9":2}`,
	} {
		f.Add([]byte(doc), "card", "é")
	}
	f.Fuzz(func(t *testing.T, doc []byte, first, second string) {
		if first == "" || second == "" {
			return
		}
		m := NewMask(first, second)
		given := slices.Clone(doc)
		got := m.Document(doc)
		if !bytes.Equal(given, doc) {
			t.Fatal("the document was changed in place")
		}
		if !json.Valid(doc) {
			if string(got) != maskedText && doc != nil {
				t.Fatalf("%q: not JSON, and shown: %q", doc, got)
			}
			return
		}
		if !json.Valid(got) {
			t.Fatalf("%q: %q is not JSON", doc, got)
		}
		want, err := masked(doc, m)
		if err != nil {
			t.Fatalf("%q: %v", doc, err)
		}
		if string(got) != want {
			t.Fatalf("%q: %q, want %q", doc, got, want)
		}
		if again := m.Document(got); !bytes.Equal(again, got) {
			t.Fatalf("%q: masked twice: %q", got, again)
		}
	})
}

// masked is a document masked by the tokens that package json finds, with the bytes between them.
func masked(doc []byte, m Mask) (string, error) {
	type level struct{ object, value bool } // value: the next token of the object is one
	var stack []level
	var out strings.Builder
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	last, hidden := int64(0), -1 // hidden: depth at which a hidden value is; -1: none is
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			out.Write(doc[last:])
			return out.String(), nil
		}
		if err != nil {
			return "", fmt.Errorf("token: %w", err)
		}
		delim, isDelim := token.(json.Delim)
		closes := isDelim && (delim == '}' || delim == ']')
		if closes {
			stack = stack[:len(stack)-1]
		}
		top := len(stack) - 1
		isName := top >= 0 && stack[top].object && !stack[top].value && !closes
		if hidden < 0 {
			out.Write(doc[last:d.InputOffset()])
		}
		last = d.InputOffset()
		switch {
		case isName:
			stack[top].value = true
			name, _ := token.(string)
			if hidden < 0 && m.names[norm.NFC.String(name)] {
				hidden = len(stack)
				colon := int(last) + bytes.IndexByte(doc[last:], ':') + 1
				value := colon + len(doc[colon:]) - len(bytes.TrimLeft(doc[colon:], " \t\r\n"))
				out.Write(doc[last:value])
				out.WriteString(maskedText)
			}
			continue
		case isDelim && !closes:
			stack = append(stack, level{object: delim == '{'})
			continue
		}
		if top >= 0 {
			stack[top].value = false
		}
		if hidden == len(stack) {
			hidden = -1
		}
	}
}
