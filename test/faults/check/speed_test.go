package check_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/faults/check"
	"github.com/leasehold/leasehold/test/faults/history"
)

// many is a clean history of 100 000 events and more.
func many() *history.History {
	m := newMaker()
	for i := range 25_000 {
		id, at := int64(i+1), float64(i)/50
		key, kind := fmt.Sprintf("k%d", id), plain
		m.Enqueued = append(m.Enqueued, enq{Key: key, Kind: kind, ID: id, Commit: history.Committed, Expects: history.Expects{Limit: 3}})
		m.Rows = append(m.Rows, row{ID: id, Key: key, Type: kind, State: "succeeded", Outcome: "succeeded", Fence: 2, Attempt: 1, Archived: 1})
		on{m: m, kind: kind, who: a1, id: id, fence: 1, number: 1}.report(at, history.Start).
			report(at+0.1, history.Ping).report(at+0.2, history.Pinged).end(at+0.3, "succeeded")
		if i%100 == 0 {
			m.broken(at, at+1, "network slow")
		}
		if i%5 == 0 {
			m.sample(at+0.15, id, 1, 13)
		}
	}
	return m.made()
}

func TestMany(t *testing.T) {
	require.Empty(t, check.Check(many()))
}

func BenchmarkCheck(b *testing.B) {
	h := many()
	b.ReportMetric(float64(len(h.Events)), "events")
	for b.Loop() {
		check.Check(h)
	}
}
