package answer

import (
	"encoding/json"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Limits on JSON that every store takes as it is. PostgreSQL's jsonb refuses numbers past 131072 digits, escaped NULs
// and lone surrogates; SQLite stops at 1000 levels.
const (
	maxDepth    = 500
	maxNumber   = 1000 // bytes of one number
	maxExponent = 1000
)

// Storable tells whether body is JSON that every store takes. What is not would spoil the settlement of every other
// task in the same batch.
func Storable(body []byte) bool {
	if !json.Valid(body) || !utf8.Valid(body) {
		return false
	}
	depth := 0
	for i := 0; i < len(body); {
		switch c := body[i]; {
		case c == '"':
			n, ok := storableString(body[i:])
			if !ok {
				return false
			}
			i += n
			continue
		case c == '-' || '0' <= c && c <= '9':
			n, ok := storableNumber(body[i:])
			if !ok {
				return false
			}
			i += n
			continue
		case c == '[' || c == '{':
			if depth++; depth > maxDepth {
				return false
			}
		case c == ']' || c == '}':
			depth--
		}
		i++
	}
	return true
}

// storableString looks at the string literal that s, valid JSON, begins with, and tells its length.
func storableString(s []byte) (n int, ok bool) {
	for i := 1; ; {
		switch s[i] {
		case '"':
			return i + 1, true
		case '\\':
			if s[i+1] != 'u' {
				i += 2
				continue
			}
			r := hex4(s[i+2:])
			i += 6
			if r == 0 {
				return 0, false
			}
			if !utf16.IsSurrogate(r) {
				continue
			}
			if s[i] != '\\' || s[i+1] != 'u' || utf16.DecodeRune(r, hex4(s[i+2:])) == utf8.RuneError {
				return 0, false
			}
			i += 6
		default:
			i++
		}
	}
}

// hex4 is the number that the four hexadecimal digits at the start of s spell.
func hex4(s []byte) rune {
	n, err := strconv.ParseUint(string(s[:4]), 16, 16)
	if err != nil {
		return utf8.RuneError // cannot be: json.Valid has seen it
	}
	return rune(n)
}

// storableNumber looks at the number that s, valid JSON, begins with, and tells its length.
func storableNumber(s []byte) (n int, ok bool) {
	exponent := -1
	for n < len(s) {
		switch c := s[n]; {
		case '0' <= c && c <= '9', c == '-', c == '+', c == '.':
		case c == 'e' || c == 'E':
			exponent = n + 1
		default:
			return n, n <= maxNumber && smallExponent(s[:n], exponent)
		}
		n++
	}
	return n, n <= maxNumber && smallExponent(s[:n], exponent)
}

func smallExponent(number []byte, from int) bool {
	if from < 0 {
		return true
	}
	e, err := strconv.Atoi(string(number[from:]))
	return err == nil && -maxExponent <= e && e <= maxExponent
}
