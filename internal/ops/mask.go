package ops

import (
	"encoding/json"
	"maps"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Masked is what is shown in place of a member's value, whatever its type and length, and of a document that is not JSON.
const Masked = "(redacted)"

// maskedText is Masked as JSON.
const maskedText = `"` + Masked + `"`

// Mask masks the values of members with certain names, at any depth of a document. The zero value masks nothing.
type Mask struct{ names map[string]bool }

// NewMask returns the mask of members with these names.
func NewMask(names ...string) Mask {
	m := Mask{make(map[string]bool, len(names))}
	for _, name := range names {
		m.names[norm.NFC.String(name)] = true
	}
	return m
}

// And returns the mask of the members of both.
func (m Mask) And(o Mask) Mask {
	switch {
	case len(o.names) == 0:
		return m
	case len(m.names) == 0:
		return o
	}
	both := maps.Clone(m.names)
	maps.Copy(both, o.names)
	return Mask{both}
}

// Any reports whether the mask has any names.
func (m Mask) Any() bool { return len(m.names) > 0 }

// Document returns a document with the values of its members masked. All else stays byte for byte: the order of members, the digits of
// numbers, white space, members that stand there twice. A document that is not JSON, as far as this package can tell, is masked as a whole. nil stays
// nil.
func (m Mask) Document(doc json.RawMessage) json.RawMessage {
	switch {
	case !m.Any() || doc == nil:
		return doc
	case !json.Valid(doc):
		return json.RawMessage(maskedText)
	}
	var out []byte
	shown := 0 // up to there the document is in out
	for at := 0; at < len(doc); {
		if doc[at] != '"' {
			at++
			continue
		}
		end := skipValue(doc, at)
		colon := skipSpace(doc, end)
		if colon == len(doc) || doc[colon] != ':' || !m.hides(doc[at:end]) {
			at = end
			continue
		}
		value := skipSpace(doc, colon+1)
		out = append(append(out, doc[shown:value]...), maskedText...)
		at = skipValue(doc, value)
		shown = at
	}
	if shown == 0 {
		return doc
	}
	return append(out, doc[shown:]...)
}

// hides reports whether the value of a member is masked; name is its name as it stands in the document, with its quotes.
func (m Mask) hides(name []byte) bool {
	plain := name[1 : len(name)-1]
	if isPlain(plain) {
		return m.names[string(plain)]
	}
	var text string
	if json.Unmarshal(name, &text) != nil {
		return true // it cannot be: the document is JSON
	}
	return m.names[norm.NFC.String(text)] // a configuration's strings are in this form
}

// isPlain reports whether a string of JSON means itself: no escapes, nothing that has several forms.
func isPlain(text []byte) bool {
	for _, c := range text {
		if c == '\\' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
