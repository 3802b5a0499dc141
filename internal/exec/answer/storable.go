package answer

import (
	"bytes"
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

// Storable reports whether body is JSON that every store takes. What is not would spoil the settlement of every other
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

// Mend makes body JSON that every store takes, with its structure as it is: each NUL character, each lone surrogate and
// what is not UTF-8 become U+FFFD, and a number that is too long or too large becomes a string of its digits. What is
// storable comes back as it is, not copied. ok is false where it is no JSON, or is nested too deeply.
func Mend(body []byte) (mended []byte, ok bool) {
	if Storable(body) {
		return body, true
	}
	if !json.Valid(body) {
		return nil, false
	}
	body = bytes.ToValidUTF8(body, []byte(string(utf8.RuneError)))
	mended = make([]byte, 0, len(body)+16)
	for i := 0; i < len(body); {
		switch c := body[i]; {
		case c == '"':
			var n int
			mended, n = mendString(mended, body[i:])
			i += n
		case c == '-' || '0' <= c && c <= '9':
			n, small := storableNumber(body[i:])
			if small {
				mended = append(mended, body[i:i+n]...)
			} else {
				mended = append(append(append(mended, '"'), body[i:i+n]...), '"')
			}
			i += n
		default:
			mended = append(mended, c)
			i++
		}
	}
	return mended, Storable(mended) // else it is too deep
}

// mendString appends the string literal that s, valid JSON, begins with, and returns how long that was.
func mendString(to, s []byte) (_ []byte, n int) {
	const replacement = `\ufffd` // as long as what it replaces
	to = append(to, '"')
	for i := 1; ; {
		switch {
		case s[i] == '"':
			return append(to, '"'), i + 1
		case s[i] != '\\':
			to = append(to, s[i])
			i++
		case s[i+1] != 'u':
			to = append(to, s[i], s[i+1])
			i += 2
		default:
			r, length := hex4(s[i+2:]), 6
			paired := utf16.IsSurrogate(r) && s[i+6] == '\\' && s[i+7] == 'u' &&
				utf16.DecodeRune(r, hex4(s[i+8:])) != utf8.RuneError
			switch {
			case paired:
				length = 12
				to = append(to, s[i:i+length]...)
			case r == 0, utf16.IsSurrogate(r):
				to = append(to, replacement...)
			default:
				to = append(to, s[i:i+length]...)
			}
			i += length
		}
	}
}

// storableString looks at the string literal that s, valid JSON, begins with, and returns its length.
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

// storableNumber looks at the number that s, valid JSON, begins with, and returns its length.
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
