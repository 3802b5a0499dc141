package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
)

// What follows finds one member or item in JSON without building the rest: templates read a field or two of each row,
// and rows come by the ten thousand a second. It trusts the store that the text is JSON on the whole, and never reads
// past it where it is not; what it finds is checked when it is turned into text.

var errJSON = errors.New("not valid JSON")

// member finds a name in an object; of several, the last, as encoding/json does. found is false where it is missing.
func member(object []byte, name string) (value json.RawMessage, found bool, err error) {
	err = each(object, '}', true, func(key []byte, v json.RawMessage) error {
		same := string(key) == name
		if bytes.IndexByte(key, '\\') >= 0 {
			var plain string
			if err := json.Unmarshal([]byte(`"`+string(key)+`"`), &plain); err != nil {
				return errJSON
			}
			same = plain == name
		}
		if same {
			value, found = v, true
		}
		return nil
	})
	return value, found, err
}

// item finds an index in a list; n is how many items it has.
func item(list []byte, index int) (value json.RawMessage, n int, err error) {
	err = each(list, ']', false, func(_ []byte, v json.RawMessage) error {
		if n == index {
			value = v
		}
		n++
		return nil
	})
	return value, n, err
}

// each calls f for what stands in an object or a list, whose opening is text[0].
func each(text []byte, closing byte, keys bool, f func(key []byte, value json.RawMessage) error) error {
	i := blank(text, 1)
	if i < len(text) && text[i] == closing {
		return trailing(text, i+1)
	}
	for i < len(text) {
		var key []byte
		if keys {
			end := value(text, i)
			if end < 0 || text[i] != '"' {
				return errJSON
			}
			key = text[i+1 : end-1]
			if i = blank(text, end); i >= len(text) || text[i] != ':' {
				return errJSON
			}
			i = blank(text, i+1)
		}
		end := value(text, i)
		if end < 0 {
			return errJSON
		}
		if err := f(key, json.RawMessage(text[i:end])); err != nil {
			return err
		}
		i = blank(text, end)
		switch {
		case i < len(text) && text[i] == closing:
			return trailing(text, i+1)
		case i >= len(text) || text[i] != ',':
			return errJSON
		}
		i = blank(text, i+1)
	}
	return errJSON
}

// trailing wants nothing but blanks from i on.
func trailing(text []byte, i int) error {
	if blank(text, i) < len(text) {
		return errJSON
	}
	return nil
}

// blank is where the next thing begins.
func blank(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\t' || text[i] == '\n' || text[i] == '\r') {
		i++
	}
	return i
}

// value is where the value that begins at i ends; below 0 where none does.
func value(text []byte, i int) int {
	if i >= len(text) {
		return -1
	}
	switch text[i] {
	case '"':
		return quoted(text, i)
	case '{', '[':
		depth := 0
		for i < len(text) {
			switch text[i] {
			case '"':
				if i = quoted(text, i); i < 0 {
					return -1
				}
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
			i++
		}
		return -1
	}
	start := i
	for i < len(text) && strings.IndexByte(",:]} \t\r\n\"[{", text[i]) < 0 {
		i++
	}
	if i == start {
		return -1
	}
	return i
}

// quoted is where the string that begins at i ends; below 0 where it does not.
func quoted(text []byte, i int) int {
	for i++; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}
