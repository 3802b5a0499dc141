package task

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
)

// TraceContext is a trace context (W3C Trace Context), in lower-case hexadecimal as a traceparent has it. The zero value is none.
type TraceContext struct {
	Trace string // 32 digits, not all zero
	Span  string // 16 digits, not all zero
	Flags string // 2 digits
}

// Known reports whether there is a context.
func (c TraceContext) Known() bool { return c.Trace != "" }

// Sampled reports whether the context asks for spans to be recorded.
func (c TraceContext) Sampled() bool {
	return len(c.Flags) == 2 && strings.IndexByte("13579bdf", c.Flags[1]) >= 0
}

// String returns the context as a traceparent of version 00.
func (c TraceContext) String() string { return "00-" + c.Trace + "-" + c.Span + "-" + c.Flags }

// ParseTraceparent reads a trace context (W3C Trace Context): version-trace-span-flags, all lower-case hexadecimal. Later
// versions may have more fields. A task whose row has none that is valid gets one of its own, which follows from its id.
func ParseTraceparent(s string) (c TraceContext, ok bool) {
	const length = len("00-") + 32 + len("-") + 16 + len("-00")
	if len(s) < length || len(s) > length && s[length] != '-' || len(s) > 512 {
		return c, false
	}
	if s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return c, false
	}
	version, trace, span, flags := s[:2], s[3:35], s[36:52], s[53:55]
	for _, part := range []string{version, trace, span, flags} {
		if strings.Trim(part, "0123456789abcdef") != "" {
			return c, false
		}
	}
	if version == "ff" || version == "00" && len(s) > length {
		return c, false
	}
	if strings.Trim(trace, "0") == "" || strings.Trim(span, "0") == "" {
		return c, false
	}
	return TraceContext{Trace: trace, Span: span, Flags: flags}, true
}

// AttemptSpan returns the span id of the attempt of a task with that fence, in that phase, in 16 hexadecimal digits. It follows from the
// task and c, its trace context, so that every agent knows the span ids of all attempts, and none has to be stored. Stores number
// their tasks from 1, so the span that inserted the task, and when it was created, tell tasks of two stores in one trace apart.
func (t *Task) AttemptSpan(c TraceContext, f Fence, p Phase) string {
	const purpose = "leasehold span 1\n"
	b := append(make([]byte, 0, 128), purpose...)
	b = append(b, c.Trace...)
	b = append(b, c.Span...)
	b = binary.BigEndian.AppendUint64(b, uint64(t.ID))
	b = binary.BigEndian.AppendUint64(b, uint64(t.CreatedAt.UnixMicro()))
	b = binary.BigEndian.AppendUint64(b, uint64(f))
	b = append(b, p...)
	sum := sha256.Sum256(b)
	sum[7] |= 1 // a span id is never zero
	return hex.EncodeToString(sum[:8])
}
