package envelope

import (
	"crypto/rand"
	"encoding/hex"

	"github.com/leasehold/leasehold/internal/task"
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
		if ofParent, itsFlags, ok := task.ParseTraceparent(p); ok {
			trace, flags = ofParent, itsFlags
			break
		}
	}
	return "00-" + trace + "-" + string(span) + "-" + flags
}
