package webhook

import (
	"encoding/json"

	"github.com/leasehold/leasehold/internal/exec/answer"
)

// problem is a problem document (RFC 9457) with the two members that the protocol adds.
type problem struct {
	Title  string
	Detail string
	Final  bool // "retryable": false
	Stale  bool // the application knows a newer attempt
}

// parseProblem reads the problem document of a body of that media type; what is none, or has members of another
// type, counts as far as it can be read. Member names are exact, as in JSON everywhere else.
func parseProblem(media string, body []byte) problem {
	var p problem
	if media != "application/problem+json" {
		return p
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil {
		return p
	}
	p.Title, _ = member[string](members, "title")
	p.Detail, _ = member[string](members, "detail")
	p.Stale, _ = member[bool](members, "stale")
	retryable, given := member[bool](members, "retryable")
	p.Final = given && !retryable
	return p
}

// member reads one member; one of another type is as good as none.
func member[T string | bool](members map[string]json.RawMessage, name string) (T, bool) {
	var value *T // null leaves it nil
	if json.Unmarshal(members[name], &value) != nil || value == nil {
		return *new(T), false
	}
	return *value, true
}

func (p problem) text() string {
	switch {
	case p.Title == "":
		return answer.Line(p.Detail)
	case p.Detail == "":
		return answer.Line(p.Title)
	}
	return answer.Line(p.Title + ": " + p.Detail)
}
