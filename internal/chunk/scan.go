package chunk

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Bounds of one call of Scan.Cut.
const (
	rowsPerCall = 100_000         // that ranges of one call have together, where they are not larger each
	scanFor     = 2 * time.Second // slices are read for about so long in one call
	firstSpan   = 100_000         // rows of the first slice
	leastSpan   = 500
	mostSpan    = 5_000_000
	quickSlice  = 200 * time.Millisecond // a slice that takes less may be larger
	sliceFor    = 10 * time.Minute       // from a slow statement on, how long to read in slices
	middleTries = 40
)

// Reader is what a Scan needs of a source. Each call is one transaction, which sees one state of the table. A call that reaches its
// time limit returns ErrSlow.
type Reader interface {
	// Look reads the rows of a query that the condition finds.
	Look(ctx context.Context, q Query) (Found, error)
	// Nth returns the key of the n-th row after `after` and up to limit, whatever the condition finds; nil: there are fewer.
	Nth(ctx context.Context, after, limit *Key, n int) (*Key, error)
	// Last returns the highest key, whatever the condition finds; nil: there is none.
	Last(ctx context.Context) (*Key, error)
}

// Query asks for the ends of ranges.
type Query struct {
	After, Limit *Key
	Rows         int // of each range, >= 1
	Most         int // ranges, >= 1
}

// Found is the reply.
type Found struct {
	Through []Key // of each full range, in order, at most Most
	Rest    *Key  // where they are fewer than Most: the last key behind them; nil: there is none
	Rows    int   // up to that key
}

// Scan cuts by a Reader. Where the condition has an index, one look finds the next ranges. Where it has none and finds few rows, a
// look could read the whole table. Then the scan goes on in slices of so many rows of the table as can be read in time: a range
// never spans more than a slice, so the task that processes it need not read more either.
type Scan struct {
	name string // of the table, for errors
	key  string
	r    Reader

	mu     sync.Mutex
	span   int       // rows of the next slice
	sliced time.Time // until then slices are read
}

// NewScan returns a scan of a table by a key, as errors name them.
func NewScan(table, key string, r Reader) *Scan {
	return &Scan{name: table, key: key, r: r, span: firstSpan}
}

// Cut is Source.Cut.
func (s *Scan) Cut(ctx context.Context, after, limit *Key, n, most int) (Cuts, error) {
	most = min(most, max(1, rowsPerCall/n))
	var out Cuts
	if !s.inSlices() {
		f, err := s.r.Look(ctx, Query{After: after, Limit: limit, Rows: n, Most: most})
		switch {
		case err == nil:
			out.Done, err = s.add(&out, f, n, most)
			return out, err
		case !errors.Is(err, ErrSlow) || ctx.Err() != nil:
			return out, err
		}
		s.beginSlices()
	}
	return s.slices(ctx, after, limit, n, most)
}

// slices cuts slice by slice, for about scanFor.
func (s *Scan) slices(ctx context.Context, after, limit *Key, n, most int) (out Cuts, err error) {
	for began := time.Now(); ; {
		start, span := time.Now(), s.size()
		end, err := s.r.Nth(ctx, after, limit, span)
		to := end
		if end == nil {
			to = limit
		}
		left := most - len(out.Cuts)
		var f Found
		if err == nil {
			f, err = s.r.Look(ctx, Query{After: after, Limit: to, Rows: n, Most: left})
		}
		if err != nil {
			if errors.Is(err, ErrSlow) && ctx.Err() == nil && s.smaller(span) && time.Since(began) < scanFor {
				continue
			}
			if len(out.Cuts) > 0 || out.Seen != nil {
				return out, nil // what was found is good, and the next call finds the error again
			}
			return out, err
		}
		all, err := s.add(&out, f, n, left)
		if err != nil {
			return out, err
		}
		if !all {
			return out, nil
		}
		if end == nil {
			out.Done, out.Seen = true, nil
			return out, nil
		}
		if time.Since(start) < quickSlice {
			s.larger(span)
		}
		after, out.Seen = end, end
		if len(out.Cuts) >= most || time.Since(began) >= scanFor {
			return out, nil
		}
	}
}

// add adds what a look for most ranges found. It reports whether that was all there is. A key that cannot travel bounds no range:
// its rows are in the next one.
func (s *Scan) add(out *Cuts, f Found, n, most int) (all bool, err error) {
	out.Seen = nil
	rows := 0
	for _, k := range f.Through {
		rows += n
		if Portable(k) {
			out.Cuts = append(out.Cuts, Cut{Through: k, Rows: rows})
			rows = 0
		}
	}
	rows += f.Rows
	switch {
	case f.Rest != nil && Portable(*f.Rest):
		out.Cuts = append(out.Cuts, Cut{Through: *f.Rest, Rows: rows})
		return true, nil
	case rows > 0 && (len(f.Through) < most || len(out.Cuts) == 0):
		last := f.Rest
		if last == nil {
			last = &f.Through[len(f.Through)-1]
		}
		return false, &InvalidError{
			Table: s.name, Key: s.key, Problem: fmt.Sprintf("a range would have to end with the key %q, which JSON cannot express", string(*last)),
			Remedy: "store keys as UTF-8 without zero characters, or cut by another column",
		}
	}
	return len(f.Through) < most, nil
}

// Ends is Source.Ends, of keys that can travel.
func (s *Scan) Ends(ctx context.Context) (first, last *Key, err error) {
	if first, err = s.r.Nth(ctx, nil, nil, 1); err != nil || first == nil {
		return nil, nil, err
	}
	if last, err = s.r.Last(ctx); err != nil || last == nil || !Portable(*first) || !Portable(*last) {
		return nil, nil, err
	}
	return first, last, nil
}

// Middle is Source.Middle. There is a row behind the key that it returns, so that key lies strictly inside.
func (s *Scan) Middle(ctx context.Context, r Range, rows int) (k Key, found bool, err error) {
	for range middleTries {
		half := max(rows/2, 1)
		f, err := s.r.Look(ctx, Query{After: r.After, Limit: r.Through, Rows: half, Most: 2})
		if errors.Is(err, ErrSlow) && ctx.Err() == nil {
			f, err = s.any(ctx, r, half)
		}
		switch {
		case err != nil:
			return "", false, err
		case len(f.Through) == 0: // fewer rows are left than there were
			rows = f.Rows
		case (len(f.Through) > 1 || f.Rest != nil) && Portable(f.Through[0]):
			return f.Through[0], true, nil
		default:
			rows = half
		}
		if rows < 2 {
			return "", false, nil
		}
	}
	return "", false, nil
}

// any is a look of two ranges, whatever the condition finds.
func (s *Scan) any(ctx context.Context, r Range, n int) (f Found, err error) {
	k, err := s.r.Nth(ctx, r.After, r.Through, n)
	if k == nil {
		return f, err
	}
	f.Through = []Key{*k}
	f.Rest, err = s.r.Nth(ctx, k, r.Through, 1)
	return f, err
}

func (s *Scan) inSlices() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.sliced)
}

func (s *Scan) beginSlices() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sliced = time.Now().Add(sliceFor)
}

func (s *Scan) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.span
}

func (s *Scan) larger(span int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.span = min(max(s.span, span*2), mostSpan)
}

// smaller makes slices smaller than span, which was too slow. It returns false where they are as small as they get.
func (s *Scan) smaller(span int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.span = max(min(s.span, span/4), leastSpan)
	return span > leastSpan
}
