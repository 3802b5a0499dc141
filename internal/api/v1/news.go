package v1

import (
	"context"
	"encoding/json"
	"hash/maphash"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Bounds of what is told of lists.
const (
	newsEvery   = 2 * time.Second // between two looks, for all streams together
	newestTasks = 100             // that are compared, of live and of finished ones
	staleAfter  = 5               // looks after which a type is said to have changed, while tasks of it are at work
	keptLooks   = 100             // for which it is known that a type has gone
	mostTypes   = 100             // that one event names
)

// news is what was seen of the lists at the last look. It is not changed any more.
type news struct {
	look   int64 // counts looks; 0: there was none
	counts []byte
	types  map[string]typeNews
}

// typeNews is what was seen of one type.
type typeNews struct {
	digest  uint64
	changed int64 // the look that found another digest than the one before
}

// typesChanged is the data of an event.
type typesChanged struct {
	Types []string `json:"types"`
	More  bool     `json:"more,omitempty"` // there are more types than are named
}

// since returns the types that have changed after a look; false: there are none.
func (n *news) since(look int64) (c typesChanged, found bool) {
	for typ, t := range n.types {
		if t.changed > look {
			c.Types = append(c.Types, typ)
		}
	}
	slices.Sort(c.Types)
	if c.More = len(c.Types) > mostTypes; c.More {
		c.Types = c.Types[:mostTypes]
	}
	return c, len(c.Types) > 0
}

// readNews looks at the lists, unless that was just done. The error is ctx's.
func (a *API) readNews(ctx context.Context) (*news, error) {
	return a.news.read(ctx, a, func(ctx context.Context, last *news) (*news, error) {
		stats, err := a.Store.Counts(ctx)
		if err != nil {
			return nil, err
		}
		newest, err := a.Store.Newest(ctx, newestTasks)
		if err != nil {
			return nil, err
		}
		counts, err := json.Marshal(ops.CountsOf(&stats))
		if err != nil {
			return nil, err
		}
		return last.next(counts, &stats, newest), nil
	})
}

// next is what is known after another look. n may be nil.
func (n *news) next(counts []byte, stats *store.Stats, newest []store.Mark) *news {
	if n == nil {
		n = &news{}
	}
	now := &news{look: n.look + 1, counts: counts, types: make(map[string]typeNews, len(n.types))}
	atWork := map[string]bool{}
	for typ, d := range digests(stats, newest) {
		now.types[typ] = typeNews{digest: d}
	}
	for _, c := range stats.Waiting {
		if c.N > 0 && (stats.More || c.State.Running() || c.State == task.StateRetryPending) {
			atWork[c.Type] = true
		}
	}
	for typ, t := range now.types {
		before, known := n.types[typ]
		t.changed = before.changed
		if !known || before.digest != t.digest || atWork[typ] && now.look-before.changed >= staleAfter {
			t.changed = now.look
		}
		now.types[typ] = t
	}
	for typ, before := range n.types {
		if _, there := now.types[typ]; there {
			continue
		}
		if before.digest != 0 {
			now.types[typ] = typeNews{changed: now.look}
		} else if now.look-before.changed < keptLooks {
			now.types[typ] = before
		}
	}
	return now
}

// digestSeed makes digests, which never leave the process.
var digestSeed = maphash.MakeSeed() //nolint:gochecknoglobals // a constant

// digests sums, for each type, what is counted of it and which its newest tasks are, in any order. None is 0.
func digests(stats *store.Stats, newest []store.Mark) map[string]uint64 {
	all := map[string]uint64{}
	for _, c := range stats.Waiting {
		if c.N > 0 {
			all[c.Type] += maphash.Comparable(digestSeed, c)
		}
	}
	for _, m := range newest {
		all[m.Type] += maphash.Comparable(digestSeed, m)
	}
	for typ, d := range all {
		all[typ] = max(d, 1)
	}
	return all
}
