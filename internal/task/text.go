package task

import (
	"strings"
	"unicode/utf8"
)

// Text returns s as every store can keep it: valid UTF-8 without NUL, which PostgreSQL's text cannot hold, and of at most the given number of
// bytes, of which 3 are for the "…" at its end where it is cut. It is never cut within a character.
func Text(s string, most int) string {
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	s = strings.ReplaceAll(s, "\x00", string(utf8.RuneError))
	if len(s) <= most {
		return s
	}
	const more = "…"
	end := max(most-len(more), 0)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + more
}
