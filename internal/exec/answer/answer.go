// Package answer keeps what a target said about an attempt: its result, its words about an error, and when it wants to
// be asked again. All of it comes from outside, so all of it is bounded and made fit for any store.
package answer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/leasehold/leasehold/internal/task"
)

// MaxRetryAfter is the longest delay that a target may ask for; a longer request is cut to it.
const MaxRetryAfter = 24 * time.Hour

// MaxLine bounds, in bytes, what an error repeats of a target's own words.
const MaxLine = 512

// Result turns what a target returned into a task's result: JSON as it is, but for characters and numbers that no store
// keeps (Mend), anything else as a JSON string, nothing (or white space) as nil.
// body holds at least the first task.MaxResult+1 bytes of it and size is how long it was in
// all; what is too long is not kept, and the note says so.
func Result(body []byte, size int64) (result json.RawMessage, note string) {
	if size > task.MaxResult || len(body) > task.MaxResult {
		return nil, notKept(max(size, int64(len(body))))
	}
	trimmed := bytes.TrimSpace(body)
	if len(trimmed) == 0 {
		return nil, ""
	}
	if kept, ok := Mend(trimmed); ok {
		if len(kept) > task.MaxResult {
			return nil, notKept(int64(len(kept)))
		}
		return bytes.Clone(kept), ""
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(task.Text(string(body), math.MaxInt)); err != nil {
		return nil, "result not kept: " + err.Error()
	}
	if kept := bytes.TrimSpace(text.Bytes()); len(kept) <= task.MaxResult {
		return kept, ""
	}
	return nil, notKept(int64(text.Len()))
}

func notKept(size int64) string {
	return fmt.Sprintf("result not kept: it has %d bytes, and the limit is %d", size, task.MaxResult)
}

// Line is task.Text on one line, without control characters, of at most MaxLine bytes.
func Line(s string) string {
	end := min(len(s), 4*MaxLine) // no need to look at all of a page
	for end > 0 && end < len(s) && !utf8.RuneStart(s[end]) {
		end--
	}
	s = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s[:end], string(utf8.RuneError)))
	return task.Text(strings.Join(strings.Fields(s), " "), MaxLine)
}

// Later is a request to be asked again in d, within limits: 0 where it is none (not positive), at most MaxRetryAfter.
func Later(d time.Duration) time.Duration { return min(max(d, 0), MaxRetryAfter) }

// Seconds is Later for a number of seconds.
func Seconds(s float64) time.Duration {
	if math.IsNaN(s) || s <= 0 {
		return 0
	}
	if s >= MaxRetryAfter.Seconds() {
		return MaxRetryAfter
	}
	return Later(time.Duration(s * float64(time.Second)))
}
