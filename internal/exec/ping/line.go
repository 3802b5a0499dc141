package ping

import (
	"bytes"
	"encoding/json"

	"github.com/leasehold/leasehold/internal/exec/answer"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Line reads a line on descriptor 3: a number or a word, which is progress, or a ping in JSON. ok is false for a line
// that says nothing: a blank one, or one that begins with "#". Its errors are *Error.
func Line(line []byte) (p store.Ping, ok bool, err error) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 || line[0] == '#' {
		return p, false, nil
	}
	if line[0] == '{' {
		p, err = Parse(line)
	} else {
		p.Progress, err = Text(string(line))
	}
	return p, err == nil, err
}

// End is how a task without a connection, or with a streamed answer, says that it is over.
type End struct {
	Failed bool
	Error  string // why; at most task.MaxError bytes
	Final  bool   // failed, and not to be tried again
	// Result is JSON as it was sent, of any length; nil: none, or failed.
	Result json.RawMessage
}

// Stream reads a line of a streamed answer: a ping in JSON, or the last line, which has a result or an error (end is
// not nil then). ok is false for a blank line. Its errors are *Error. Whatever a server's runtime may write into an
// answer alone is no ping, so words and numbers are not taken here.
func Stream(line []byte) (p store.Ping, end *End, ok bool, err error) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return p, nil, false, nil
	}
	members, err := Object("the line", line)
	if err != nil {
		return p, nil, false, err
	}
	if Said(members["error"]) {
		end, err = Failure(members)
		return p, end, err == nil, err
	}
	if result, there := members["result"]; there {
		end = &End{}
		if Said(result) {
			end.Result = result
		}
		return p, end, true, nil
	}
	p, err = FromMembers(members)
	return p, nil, err == nil, err
}

// ParseFailure reads the body of a fail request: {"error": "…", "retryable": true}, either of which may be left out, or
// nothing. Its errors are *Error.
func ParseFailure(body []byte) (*End, error) {
	members, err := endMembers(body)
	if err != nil {
		return nil, err
	}
	return Failure(members)
}

// Failure reads error and retryable. An error that is no string is kept as its JSON: to refuse it would keep the task
// running.
func Failure(members map[string]json.RawMessage) (*End, error) {
	end := &End{Failed: true}
	retryable := true
	if raw := members["retryable"]; Said(raw) && json.Unmarshal(raw, &retryable) != nil {
		return nil, malformed("retryable must be true or false")
	}
	end.Final = !retryable
	if raw := members["error"]; Said(raw) {
		var s string
		if json.Unmarshal(raw, &s) != nil {
			s = string(raw)
		}
		end.Error = task.Text(s, task.MaxError)
	}
	return end, nil
}

// ParseResult reads the body of a complete request: {"result": …}, or nothing. Its errors are *Error.
func ParseResult(body []byte) (json.RawMessage, error) {
	members, err := endMembers(body)
	if err != nil {
		return nil, err
	}
	raw := members["result"]
	if !Said(raw) {
		return nil, nil
	}
	if len(raw) > task.MaxResult {
		return nil, tooLarge("result", len(raw), task.MaxResult)
	}
	kept, ok := answer.Mend(raw)
	switch {
	case !ok:
		return nil, malformed("result is nested more than 500 deep")
	case len(kept) > task.MaxResult:
		return nil, tooLarge("result", len(kept), task.MaxResult)
	}
	return kept, nil
}

func endMembers(body []byte) (map[string]json.RawMessage, error) {
	if len(body) > MaxBody {
		return nil, tooLarge("the body", len(body), MaxBody)
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, nil //nolint:nilnil // nothing was said, which is not wrong
	}
	return Object("the body", body)
}
