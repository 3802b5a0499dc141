package ping

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/leasehold/leasehold/internal/exec/answer"
	"github.com/leasehold/leasehold/internal/task"
)

// Ends reports whether an object with these members is meant as the last of an attempt, rather than as a ping. A library that
// writes every member, null where there is nothing to say, ends an attempt with any of them but writes a result of null in the
// end only.
func Ends(members map[string]json.RawMessage) bool {
	_, result := members["result"]
	return result || len(endings(members)) > 0
}

// endings lists which ends an object names.
func endings(members map[string]json.RawMessage) (names []string) {
	for _, name := range []string{"result", "error", "deferred", "stale"} {
		if raw := members[name]; Said(raw) && (name != "stale" || string(raw) != "false") {
			names = append(names, name)
		}
	}
	return names
}

// Ending reads the end of an attempt: result, error with retryable or without, deferred, or stale. by is who has ended it, for
// messages, as "the worker".
func Ending(members map[string]json.RawMessage, by string) (o task.Outcome, err error) {
	names := endings(members)
	if len(names) > 1 {
		return o, fmt.Errorf("the last line has both %s and %s; write one of them", names[0], names[1])
	}
	end := "result"
	if len(names) == 1 {
		end = names[0]
	}
	switch end {
	case "error":
		return failed(members, by)
	case "deferred":
		return deferred(members["deferred"], by)
	case "stale":
		if string(members["stale"]) != "true" {
			return o, errors.New("stale must be true")
		}
		return task.Outcome{Verdict: task.Superseded, EndUnknown: true, Error: "the application knows a newer attempt"}, nil
	}
	o.Verdict = task.Succeeded
	if raw := members["result"]; Said(raw) {
		o.Result, o.Note = answer.Result(raw, int64(len(raw)))
	}
	return o, nil
}

// failed reads error and retryable.
func failed(members map[string]json.RawMessage, by string) (task.Outcome, error) {
	end, err := Failure(members)
	if err != nil {
		return task.Outcome{}, err
	}
	o := task.Outcome{Verdict: task.Failed, Error: end.Error}
	if end.Final {
		o.Verdict = task.Rejected
	}
	if end.Error == "" {
		o.Error = by + " ended the attempt with an error that it did not name"
	}
	return o, nil
}

// deferred reads {"retry_after_s": 30}; true and {} ask for no time.
func deferred(raw json.RawMessage, by string) (task.Outcome, error) {
	o := task.Outcome{Verdict: task.Deferred, Error: by + " deferred it"}
	if string(raw) == "true" {
		return o, nil
	}
	const remedy = `deferred must be true, or an object as {"retry_after_s": 30}`
	members, err := Object("deferred", raw)
	if err != nil {
		return o, errors.New(remedy)
	}
	after := members["retry_after_s"]
	if !Said(after) {
		return o, nil
	}
	var seconds float64
	if json.Unmarshal(after, &seconds) != nil || seconds < 0 {
		return o, fmt.Errorf("retry_after_s is no number of seconds; %s", remedy)
	}
	o.RetryAfter = answer.Seconds(seconds)
	return o, nil
}
