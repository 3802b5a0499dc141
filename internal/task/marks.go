package task

import (
	"bytes"
	"encoding/json"
	"math/big"
	"slices"
)

// maxSeen is how many texts and checkpoints an attempt's Marks remember.
const maxSeen = 8

// Marks are what an attempt has reported of its progress so far, as far as it decides what a further report is worth: where
// a type requires progress, a ping counts only if it advances. The zero value, with the attempt's fence, is an attempt that
// has reported nothing. A row keeps them as JSON; those of another fence are of another attempt, and nothing to this one.
//
// PostgreSQL's function advance states the same rule for pings by SQL. A conformance check compares the two.
type Marks struct {
	Fence  Fence       `json:"fence"`
	Number json.Number `json:"number,omitempty"` // the highest; "": none
	Done   json.Number `json:"done,omitempty"`   // the highest of an object of done and total; "": none
	Seen   []string    `json:"seen,omitempty"`   // digests of the last texts and checkpoints, oldest first
}

// MarksOf reads the marks of a row for the attempt with that fence. What it cannot read, as what is another attempt's, is
// no marks.
func MarksOf(stored []byte, f Fence) Marks {
	var m Marks
	if len(stored) == 0 || json.Unmarshal(stored, &m) != nil || m.Fence != f {
		return Marks{Fence: f}
	}
	return m
}

// JSON writes the marks as a row keeps them.
func (m *Marks) JSON() json.RawMessage {
	b, err := json.Marshal(m)
	if err != nil {
		panic("marks always marshal: " + err.Error())
	}
	return b
}

// Advance takes in a report, of which either part may be nil, and reports whether it advances: a number, or done, is higher
// than the highest of this attempt; a text or a checkpoint is none of the last 8 of this attempt, compared as JSON values.
func (m *Marks) Advance(progress, checkpoint json.RawMessage) bool {
	moved := false
	if progress != nil {
		moved = m.progress(progress)
	}
	if checkpoint != nil && m.see(digest('c', checkpoint)) {
		moved = true
	}
	return moved
}

func (m *Marks) progress(doc json.RawMessage) bool {
	switch v := decode(doc).(type) {
	case json.Number:
		return raise(&m.Number, v)
	case map[string]any:
		if done, ok := v["done"].(json.Number); ok {
			return raise(&m.Done, done)
		}
	}
	return m.see(digest('p', doc))
}

// raise sets a highest number to n where that is higher, and reports whether it is.
func raise(highest *json.Number, n json.Number) bool {
	if *highest != "" && rational(n).Cmp(rational(*highest)) <= 0 {
		return false
	}
	*highest = n
	return true
}

// rational is the number, exactly. What is no number is zero.
func rational(n json.Number) *big.Rat {
	r, ok := new(big.Rat).SetString(string(n))
	if !ok {
		return new(big.Rat)
	}
	return r
}

// see remembers a digest, and reports whether it was not remembered already.
func (m *Marks) see(d string) bool {
	if slices.Contains(m.Seen, d) {
		return false
	}
	m.Seen = append(slices.Clone(m.Seen), d) // a copy of the marks may be on its way to the store
	m.Seen = m.Seen[max(len(m.Seen)-maxSeen, 0):]
	return true
}

// Merge adds what other marks of the same attempt know: what was reported by another way.
func (m *Marks) Merge(o Marks) {
	if o.Fence != m.Fence {
		return
	}
	if o.Number != "" {
		raise(&m.Number, o.Number)
	}
	if o.Done != "" {
		raise(&m.Done, o.Done)
	}
	for _, d := range o.Seen {
		m.see(d)
	}
}

// decode reads JSON without rounding its numbers; nil where it cannot, which null is too.
func decode(doc json.RawMessage) any {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil
	}
	return v
}
