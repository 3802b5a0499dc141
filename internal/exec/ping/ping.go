// Package ping takes in what a task says while it runs: over its ping URL, on descriptor 3, on its notify socket, or in
// a streamed answer. All of them mean the same (docs/protocol.md), all of it comes from outside, and all is bounded.
package ping

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/leasehold/leasehold/internal/exec/answer"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// MaxBody bounds, in bytes, a ping as it is sent: the body of a request, a line, a datagram. It leaves room for the
// largest checkpoint and white space in it.
const MaxBody = 128 << 10

// maxWithin is the longest window that a ping can ask for; who asks for more gets it. Policies allow less.
const maxWithin = 366 * 24 * time.Hour

// Error says why what was sent is no ping. It does not count.
type Error struct {
	Reason   string // for who sent it
	TooLarge bool   // it, or a part of it, is longer than what is taken
}

func (e *Error) Error() string { return e.Reason }

func malformed(format string, args ...any) error {
	return &Error{Reason: fmt.Sprintf(format, args...)}
}

func tooLarge(what string, size, most int) error {
	return &Error{Reason: fmt.Sprintf("%s has %d bytes, and the limit is %d", what, size, most), TooLarge: true}
}

// Parse reads a ping in JSON: an object with progress, message, checkpoint and next_within_s, each of which may be left
// out or null. Members with other names are for others, and nothing (or white space) is a bare ping. Its errors are
// *Error.
func Parse(body []byte) (store.Ping, error) {
	if len(body) > MaxBody {
		return store.Ping{}, tooLarge("the ping", len(body), MaxBody)
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return store.Ping{}, nil
	}
	members, err := Object("the ping", body)
	if err != nil {
		return store.Ping{}, err
	}
	return FromMembers(members)
}

// FromMembers reads a ping from the members of an object. Its errors are *Error.
func FromMembers(members map[string]json.RawMessage) (p store.Ping, err error) {
	if p.Progress, err = progress(members["progress"]); err != nil {
		return store.Ping{}, err
	}
	if p.Message, err = text(members, "message", store.MaxMessage); err != nil {
		return store.Ping{}, err
	}
	if p.Checkpoint, err = checkpoint(members["checkpoint"]); err != nil {
		return store.Ping{}, err
	}
	if p.NextWithin, err = within(members["next_within_s"]); err != nil {
		return store.Ping{}, err
	}
	return p, nil
}

// Said reports whether a member is there and not null.
func Said(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// text reads a member that is a string, and cuts it to most bytes.
func text(members map[string]json.RawMessage, name string, most int) (string, error) {
	raw := members[name]
	if !Said(raw) {
		return "", nil
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return "", malformed("%s is not a string", name)
	}
	return task.Text(s, most), nil
}

// checkpoint is any JSON, mended where a store could not keep it.
func checkpoint(raw json.RawMessage) (json.RawMessage, error) {
	if !Said(raw) {
		return nil, nil
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return nil, malformed("checkpoint is not valid JSON: %s", answer.Line(err.Error()))
	}
	if compact.Len() > store.MaxCheckpoint {
		return nil, tooLarge("checkpoint", compact.Len(), store.MaxCheckpoint)
	}
	kept, ok := answer.Mend(compact.Bytes())
	switch {
	case !ok:
		return nil, malformed("checkpoint is nested more than 500 deep")
	case len(kept) > store.MaxCheckpoint:
		return nil, tooLarge("checkpoint", len(kept), store.MaxCheckpoint)
	}
	return kept, nil
}

// within reads a number of seconds.
func within(raw json.RawMessage) (time.Duration, error) {
	if !Said(raw) {
		return 0, nil
	}
	var s float64
	if json.Unmarshal(raw, &s) != nil || s <= 0 { // a number that no float64 holds is an error too
		return 0, malformed("next_within_s must be a number above 0")
	}
	if s >= maxWithin.Seconds() {
		return maxWithin, nil
	}
	return time.Duration(math.Ceil(s * float64(time.Second))), nil
}
