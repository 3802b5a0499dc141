package ping

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/leasehold/leasehold/internal/exec/answer"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// progress reads where a task stands: a number from 0 to 1, an object of done and total, or a string. What means the
// same becomes the same bytes, so that 0.40 after 0.4 is no change. nil: nothing was said.
func progress(raw json.RawMessage) (json.RawMessage, error) {
	if !Said(raw) {
		return nil, nil
	}
	switch c := raw[0]; {
	case c == '"':
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, malformed("progress is not valid JSON: %s", answer.Line(err.Error()))
		}
		return position(s)
	case c == '{':
		return fraction(raw)
	case c == '-' || '0' <= c && c <= '9':
		if number, ok := share(string(raw)); ok {
			return number, nil
		}
		return nil, malformed("progress is %s, but a number must be from 0 to 1: "+
			`write {"done": …, "total": …} or a string for anything else`, answer.Line(string(raw)))
	}
	return nil, malformed(`progress is neither a number from 0 to 1, nor {"done": …, "total": …}, nor a string`)
}

// Text reads progress where it is not JSON but a word, as in a shell: a number from 0 to 1 and an object of done and
// total are what they are in JSON, and all else is a string that names a position; "" says nothing (nil). Its errors
// are *Error.
func Text(s string) (json.RawMessage, error) {
	s = strings.TrimSpace(s)
	if number, ok := share(s); ok {
		return number, nil
	}
	if strings.HasPrefix(s, "{") {
		if !json.Valid([]byte(s)) {
			return nil, malformed("progress begins with { but is not valid JSON")
		}
		return fraction(json.RawMessage(s))
	}
	return position(s)
}

// share reads a number from 0 to 1, also as ".5", which is how bc(1) writes it.
func share(s string) (json.RawMessage, bool) {
	if s == "" || len(s) > store.MaxProgress || strings.Trim(s, "0123456789.eE+-") != "" {
		return nil, false
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f < 0 || f > 1 {
		return nil, false
	}
	return number(f), true
}

// fraction reads an object of done and total. Done may pass total: the total may have been a guess.
func fraction(raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) > MaxBody {
		return nil, tooLarge("progress", len(raw), MaxBody)
	}
	members, err := Object("progress", raw)
	if err != nil {
		return nil, err
	}
	b := []byte(`{"done":`)
	done, ok := count(members["done"])
	b = append(b, done...)
	b = append(b, `,"total":`...)
	total, ok2 := count(members["total"])
	b = append(b, total...)
	if !ok || !ok2 {
		return nil, malformed(`progress is an object without "done" and "total", two numbers that are not negative`)
	}
	return append(b, '}'), nil
}

// count reads a number that is not negative. A whole one keeps all its digits.
func count(raw json.RawMessage) (json.RawMessage, bool) {
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil && n >= 0 {
		return strconv.AppendInt(nil, n, 10), true
	}
	var f *float64
	if json.Unmarshal(raw, &f) != nil || f == nil || *f < 0 {
		return nil, false
	}
	return number(*f), true
}

// number writes a finite number in one way only.
func number(f float64) json.RawMessage {
	b, err := json.Marshal(math.Abs(f)) // minus zero is zero
	if err != nil {
		panic("a finite number always marshals: " + err.Error())
	}
	return b
}

// position writes a string that names a position.
func position(s string) (json.RawMessage, error) {
	if s == "" {
		return nil, nil
	}
	if len(s) > store.MaxProgress {
		return nil, tooLarge("progress", len(s), store.MaxProgress)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(task.Text(s, math.MaxInt)); err != nil {
		panic("a string always marshals: " + err.Error())
	}
	doc := bytes.TrimSpace(b.Bytes())
	if len(doc) > store.MaxProgress {
		return nil, tooLarge("progress", len(doc), store.MaxProgress)
	}
	return doc, nil
}
