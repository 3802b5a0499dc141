package ops

import "strings"

// ShellQuote makes one word of s for a POSIX shell. Words that every shell leaves alone stay as they are; others get the quotes
// that are easiest to read: double ones where s has single quotes and nothing that double ones do not protect.
func ShellQuote(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_@%+=:,./-", r)
	}
	switch {
	case s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0:
		return s
	case strings.Contains(s, "'") && !strings.ContainsAny(s, "\"$`\\!"):
		return `"` + s + `"`
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
