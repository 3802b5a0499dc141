package envelope

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
)

// Traceparent is the trace context (W3C Trace Context, level 1) that an attempt hands to its target: a child of the first
// parent that parses, or the start of a new trace where none does. A new trace is marked as sampled: the agent records
// nothing itself, and a collector should not be asked to drop it.
func Traceparent(parents ...string) string {
	var random [24]byte
	_, _ = rand.Read(random[:]) // crypto/rand.Read never fails
	var digits [48]byte
	hex.Encode(digits[:], random[:])
	span, trace, flags := digits[:16], string(digits[16:]), "01"
	for _, p := range parents {
		if parent, ok := parseTraceparent(p); ok {
			trace, flags = parent.trace, parent.flags
			break
		}
	}
	return "00-" + trace + "-" + string(span) + "-" + flags
}

type traceparent struct{ trace, flags string }

// parseTraceparent reads version-trace-span-flags, all lower-case hexadecimal. Later versions may have more fields.
func parseTraceparent(s string) (p traceparent, ok bool) {
	const length = len("00-") + 32 + len("-") + 16 + len("-00")
	if len(s) < length || len(s) > length && s[length] != '-' || len(s) > 512 {
		return p, false
	}
	f := strings.SplitN(s[:length], "-", 4)
	if len(f) != 4 || len(f[0]) != 2 || len(f[1]) != 32 || len(f[2]) != 16 || len(f[3]) != 2 {
		return p, false
	}
	for _, part := range f {
		if strings.Trim(part, "0123456789abcdef") != "" {
			return p, false
		}
	}
	if f[0] == "ff" || f[0] == "00" && len(s) > length {
		return p, false
	}
	if strings.Trim(f[1], "0") == "" || strings.Trim(f[2], "0") == "" {
		return p, false
	}
	return traceparent{trace: f[1], flags: f[3]}, true
}
