package worker

import (
	"bytes"
	"encoding/json"

	"github.com/leasehold/leasehold/internal/exec/answer"
	"github.com/leasehold/leasehold/internal/task"
)

// plainLast reads a last line as most workers write it: an object with id, fence and result, each once, a result that is not
// null behind the others. ok is false for any other line, however right it is. What it reads, it reads as parse does.
func plainLast(line []byte) (l Line, ok bool) {
	l = Line{Kind: Last, Named: true, Outcome: task.Outcome{Verdict: task.Succeeded}}
	var hasID, hasFence, hasResult bool
	rest, more := line, byte('{')
	for range 3 {
		var name []byte
		if rest, ok = token(rest, more); !ok {
			return Line{}, false
		}
		if name, rest, ok = member(rest); !ok {
			return Line{}, false
		}
		more = ','
		switch {
		case string(name) == "id" && !hasID:
			l.ID, rest, hasID = number[task.ID](rest)
			ok = hasID
		case string(name) == "fence" && !hasFence:
			l.Fence, rest, hasFence = number[task.Fence](rest)
			ok = hasFence
		case string(name) == "result" && !hasResult:
			hasResult = true
			rest, ok = l.result(rest, hasID && hasFence)
		default:
			ok = false
		}
		if !ok {
			return Line{}, false
		}
	}
	if rest, ok = token(rest, '}'); !ok || len(rest) > 0 {
		return Line{}, false
	}
	return l, true
}

// token passes over a byte and white space before it.
func token(doc []byte, c byte) (rest []byte, ok bool) {
	doc = unspaced(doc)
	if len(doc) == 0 || doc[0] != c {
		return doc, false
	}
	return doc[1:], true
}

func unspaced(doc []byte) []byte {
	for len(doc) > 0 && (doc[0] == ' ' || doc[0] == '\t' || doc[0] == '\r' || doc[0] == '\n') {
		doc = doc[1:]
	}
	return doc
}

// member reads the name of a member, and passes over what comes before its value. A name with an escape is not what it seems to be,
// and none of those that are looked for.
func member(doc []byte) (name, rest []byte, ok bool) {
	if doc, ok = token(doc, '"'); !ok {
		return nil, doc, false
	}
	end := bytes.IndexByte(doc, '"')
	if end < 0 {
		return nil, doc, false
	}
	rest, ok = token(doc[end+1:], ':')
	return doc[:end], unspaced(rest), ok
}

// number reads a whole number that is not negative, of at most 18 digits.
func number[T ~int64](doc []byte) (n T, rest []byte, ok bool) {
	digits := 0
	for ; digits < len(doc) && '0' <= doc[digits] && doc[digits] <= '9'; digits++ {
		n = 10*n + T(doc[digits]-'0')
	}
	return n, doc[digits:], 0 < digits && digits <= 18 && (doc[0] != '0' || digits == 1)
}

// plainResult is how many bytes a result has at most that result reads: too few for JSON to be nested too deeply.
const plainResult = 4 << 10

// result reads a result that is null or, where it is the last member, any JSON; rest is what comes after it.
func (l *Line) result(doc []byte, isLast bool) (rest []byte, ok bool) {
	if after, isNull := bytes.CutPrefix(doc, []byte("null")); isNull {
		return after, true
	}
	end := len(doc) - 1
	if !isLast || end < 0 || end > plainResult || !json.Valid(doc[:end]) {
		return doc, false
	}
	l.Outcome.Result, l.Outcome.Note = answer.Result(doc[:end], int64(end))
	return doc[end:], true
}
