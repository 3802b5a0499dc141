package ops

import (
	"crypto/sha256"
	"encoding/json"
	"slices"
)

// Bounds of refs, by which lines of NDJSON name lines before them.
const (
	maxRefs = 1_000_000
	maxRef  = 1 << 10 // bytes
)

// refs are the lines so far that have a ref: some 50 bytes each, however long their refs are.
type refs struct {
	of   map[refKey]named
	most int
}

// refKey is a digest of a ref.
type refKey [16]byte

func keyOf(ref string) refKey {
	sum := sha256.Sum256([]byte(ref))
	return refKey(sum[:16])
}

// named is a line with a ref: its number in the file, and among those with a ref.
type named struct{ line, number int }

// lineRefs are the refs of one line.
type lineRefs struct {
	ref            string
	after          []string
	refAt, afterAt int // where their values stand
}

// read reads the value of ref.
func (r *lineRefs) readRef(p place, value []byte, at int) error {
	r.refAt = at
	if json.Unmarshal(value, &r.ref) != nil || r.ref == "" || len(r.ref) > maxRef {
		return p.wrong(at, "ref must be a string of 1 to %d bytes, not %s", maxRef, OneLine(string(value), maxShown))
	}
	return nil
}

// readAfter reads the value of after_ref.
func (r *lineRefs) readAfter(p place, value []byte, at int) error {
	r.afterAt = at
	var one string
	if json.Unmarshal(value, &one) == nil {
		r.after = []string{one}
		return nil
	}
	if json.Unmarshal(value, &r.after) != nil {
		return p.wrong(at, "after_ref must be a ref or a list of refs, not %s", OneLine(string(value), maxShown))
	}
	return nil
}

// resolve looks up which lines a line names, by their numbers, each once, and takes in its own ref.
func (r *refs) resolve(p place, l *lineRefs) (after []int64, err error) {
	for _, ref := range l.after {
		n, ok := r.of[keyOf(ref)]
		if !ok {
			return nil, p.wrong(l.afterAt, "after_ref: no line before this one has the ref %q: a task waits only for tasks of lines before its own",
				OneLine(ref, maxShown))
		}
		after = append(after, int64(n.number))
	}
	slices.Sort(after)
	after = slices.Compact(after)
	if l.ref == "" {
		return after, nil
	}
	key := keyOf(l.ref)
	switch there, taken := r.of[key]; {
	case taken:
		return nil, p.wrong(l.refAt, "line %d has the ref %q too: give each line one of its own", there.line, OneLine(l.ref, maxShown))
	case len(r.of) == r.most:
		return nil, p.wrong(l.refAt, "more than %d lines have a ref: give one only to lines that others name, or create several batches", r.most)
	case r.of == nil:
		r.of = map[refKey]named{}
	}
	r.of[key] = named{p.line, len(r.of)}
	return after, nil
}
