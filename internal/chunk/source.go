// Package chunk cuts a big table into ranges of its key, which become rows for many agents. A Source reads the table and compares
// keys; nothing else does. An Engine decides what is planned next, and a Store keeps the plan.
package chunk

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/leasehold/leasehold/internal/store"
)

// Key is a key of the table, as text from which the source makes exactly the same value again.
type Key = store.ChunkKey

// Range is the rows with keys above After and up to Through. A nil bound is open.
type Range = store.ChunkRange

// Source reads one table, or what a condition finds of it, in the order of one key. It never writes, and needs no more than the
// right to read that table. Each call is one short transaction with a time limit. An *InvalidError means that the table cannot be
// cut as it is declared; other errors may pass.
type Source interface {
	// Check reports whether the table can be cut as it is declared: an *InvalidError names what is wrong and the remedy.
	Check(ctx context.Context) error
	// Cut cuts the rows after `after` and up to limit into ranges of n rows, most of them at most (n, most >= 1), by index alone, without
	// sorting and without counting. Rows with equal keys are in the same range. It returns what it has found in about 3 s.
	Cut(ctx context.Context, after, limit *Key, n, most int) (Cuts, error)
	// Middle returns a key strictly inside of a range of about that many rows, near its middle; false where it cannot be split.
	Middle(ctx context.Context, r Range, rows int) (Key, bool, error)
	// Ends returns the lowest key of the table and the highest, whatever the condition finds; nil: it has no rows.
	Ends(ctx context.Context) (first, last *Key, err error)
	// Count counts the rows that the condition finds in a range, up to most.
	Count(ctx context.Context, r Range, most int) (int, error)
	// Compare compares keys as the table's index does: negative, 0 or positive.
	Compare(ctx context.Context, a, b Key) (int, error)
	// Order returns the places of keys, from 0 on, in the order of the table's index; equal ones as they are given.
	Order(ctx context.Context, keys []Key) ([]int, error)
	// Throttled returns why planning must wait now; "" where it need not.
	Throttled(ctx context.Context) (string, error)
	// Close ends its connections.
	Close()
}

// Cut is one range: from the end of the one before up to Through.
type Cut struct {
	Through Key
	Rows    int // found when it was cut, without those that follow with a key equal to Through
}

// Cuts is what one call of Cut found.
type Cuts struct {
	Cuts []Cut // in the order of the key
	// Seen is the key up to which there is nothing behind the last of Cuts; nil: nothing is known of that. The next call may
	// begin there. It may be one that cannot travel: it is for this process only.
	Seen *Key
	Done bool // there is nothing behind the last of Cuts, up to limit
}

// Portable reports whether a key can be a bound: bounds travel in JSON, through stores that refuse a zero character.
func Portable(k Key) bool {
	return utf8.ValidString(string(k)) && strings.IndexByte(string(k), 0) < 0
}
