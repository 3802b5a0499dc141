package task

import "strings"

// ParseTraceparent reads a trace context (W3C Trace Context): version-trace-span-flags, all lower-case hexadecimal. Later
// versions may have more fields. A task whose row has none that is valid gets one of its own, which follows from its id.
func ParseTraceparent(s string) (trace, flags string, ok bool) {
	const length = len("00-") + 32 + len("-") + 16 + len("-00")
	if len(s) < length || len(s) > length && s[length] != '-' || len(s) > 512 {
		return "", "", false
	}
	f := strings.SplitN(s[:length], "-", 4)
	if len(f) != 4 || len(f[0]) != 2 || len(f[1]) != 32 || len(f[2]) != 16 || len(f[3]) != 2 {
		return "", "", false
	}
	for _, part := range f {
		if strings.Trim(part, "0123456789abcdef") != "" {
			return "", "", false
		}
	}
	if f[0] == "ff" || f[0] == "00" && len(s) > length {
		return "", "", false
	}
	if strings.Trim(f[1], "0") == "" || strings.Trim(f[2], "0") == "" {
		return "", "", false
	}
	return f[1], f[3], true
}
