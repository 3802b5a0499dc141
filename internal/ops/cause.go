package ops

import (
	"regexp"
	"strings"
)

var (
	// As task.Decide puts it before an attempt's own error.
	verdictPrefix = regexp.MustCompile(`^(?:not retried: )?(?:rollback )?attempt \d+ of \d+ [^:]+: (.+)$`)
	exitCode      = regexp.MustCompile(`^(exit code \d+): (.+)$`)
	answered      = regexp.MustCompile(`^(answered \d{3}): (.+)$`)
	dialed        = regexp.MustCompile(`\bdial \w+(?: (\S+))?: (.+)$`)
	lookup        = regexp.MustCompile(`^lookup (\S+)(?: on \S+)?: (.+)$`)
)

// Cause is the reason why a task has failed with what matters most in front, for places where only its beginning is seen:
// "attempt 3 of 3 failed: exit code 1: no such table" becomes "no such table (exit code 1)". Other text stays, on one
// line.
func Cause(reason string) string {
	s := strings.Join(strings.Fields(reason), " ")
	if m := verdictPrefix.FindStringSubmatch(s); m != nil {
		s = m[1]
	}
	if m := dialed.FindStringSubmatch(s); m != nil {
		address, reason := m[1], strings.TrimPrefix(m[2], "connect: ")
		if l := lookup.FindStringSubmatch(reason); l != nil {
			address, reason = l[1], l[2]
		}
		return reason + " (" + address + ")"
	}
	for _, p := range []*regexp.Regexp{exitCode, answered} {
		if m := p.FindStringSubmatch(s); m != nil {
			return m[2] + " (" + m[1] + ")"
		}
	}
	return s
}
