package ops_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
)

func TestThePaceOfAPass(t *testing.T) {
	began := time.Date(2026, 11, 25, 10, 0, 0, 0, time.UTC)
	now := began.Add(100 * time.Second)
	for name, c := range map[string]struct {
		change func(p *store.ChunkPassInfo)
		rate   float64
		left   time.Duration
	}{
		"a tenth of the table is cut, half of it is done": {func(*store.ChunkPassInfo) {}, 50, 1900 * time.Second},
		"it begins with a key":                            {func(p *store.ChunkPassInfo) { p.From = ledgerKey("91") }, 50, 1900 * time.Second},
		"the first chunk":                                 {func(p *store.ChunkPassInfo) { p.Live = 10 }, 0, 0},
		"no batch":                                        {func(p *store.ChunkPassInfo) { p.Total, p.Live = 0, 0 }, 0, 0},
		"a clock that was set back":                       {func(p *store.ChunkPassInfo) { p.BeganAt = now.Add(time.Second) }, 0, 0},
		"cut to its end":                                  {func(p *store.ChunkPassInfo) { p.SealedAt = now }, 50, 100 * time.Second},
		"over": {
			func(p *store.ChunkPassInfo) { p.SealedAt, p.Live, p.EndedAt = now, 0, began.Add(50*time.Second) }, 200, 0,
		},
		"past the last key that there was": {func(p *store.ChunkPassInfo) { p.Through = ledgerKey("2000") }, 50, 100 * time.Second},
		"texts":                            {func(p *store.ChunkPassInfo) { p.First = ledgerKey("anna") }, 50, 0},
		"an empty table":                   {func(p *store.ChunkPassInfo) { p.First, p.Last = nil, nil }, 50, 0},
		"uuids": {
			func(p *store.ChunkPassInfo) {
				p.First, p.Last = ledgerKey("00000000-0000-4000-8000-000000000000"), ledgerKey("a0000000-0000-4000-8000-000000000000")
				p.Through = ledgerKey("10000000-0000-4000-8000-000000000000")
			}, 50, 1900 * time.Second,
		},
		"timestamps": {
			func(p *store.ChunkPassInfo) {
				p.First, p.Last = ledgerKey("2026-01-01 00:00:00+00"), ledgerKey("2026-01-11 00:00:00+00")
				p.Through = ledgerKey("2026-01-02 00:00:00.0+00")
			}, 50, 1900 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := store.ChunkPassInfo{
				Pass: 1, BeganAt: began, Rows: 10_000, Total: 10, Live: 5, First: ledgerKey("1"), Last: ledgerKey("1001"), Through: ledgerKey("101"),
			}
			if c.change(&p); p.From != nil {
				p.Last, p.Through = ledgerKey("191"), ledgerKey("101")
			}
			got := ops.PaceOf(p, now)
			require.InDelta(t, c.rate, got.Rate, 0.001)
			require.Equal(t, c.left, got.Left)
		})
	}
}
