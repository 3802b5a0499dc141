package ops

import (
	"encoding/hex"
	"math"
	"math/big"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/store"
)

// ChunkPass is a pass of a plan, with its pace.
type ChunkPass struct {
	store.ChunkPassInfo

	Rate float64       `json:"rows_per_second,omitempty"` // of the chunks that have ended, on average since it began; 0: unknown
	Left time.Duration `json:"time_left_ns,omitempty"`    // if it goes on like that; 0: it is over, or that is unknown
}

// PaceOf adds the pace to a pass. How much of the table is still to be cut is taken from where the key is between the table's ends,
// as if keys lay evenly between them.
func PaceOf(p store.ChunkPassInfo, now time.Time) ChunkPass {
	c := ChunkPass{ChunkPassInfo: p}
	end := p.EndedAt
	if end.IsZero() {
		end = now
	}
	took := end.Sub(p.BeganAt)
	if p.Total == 0 || took <= 0 {
		return c
	}
	done := float64(p.Total-p.Live) / float64(p.Total)
	c.Rate = float64(p.Rows) * done / took.Seconds()
	cut := 1.0
	if p.SealedAt.IsZero() {
		cut = position(&p)
	}
	if part := done * cut; part > 0 && part < 1 {
		left := took.Seconds() * (1 - part) / part
		c.Left = time.Duration(math.Min(left, (100*365*24*time.Hour).Seconds()) * float64(time.Second)).Round(time.Second)
	}
	return c
}

// position is which part of its way a pass has gone, by its key; 0: that cannot be told.
func position(p *store.ChunkPassInfo) float64 {
	from := p.From
	if from == nil {
		from = p.First
	}
	a, at, b := keyNumber(from), keyNumber(p.Through), keyNumber(p.Last)
	if a == nil || at == nil || b == nil || a.Cmp(b) >= 0 {
		return 0
	}
	part, _ := new(big.Rat).SetFrac(at.Sub(at, a), b.Sub(b, a)).Float64()
	return min(max(part, 0), 1)
}

// keyNumber is a key as a number in the order of keys: an integer, a uuid or a timestamp; nil: it is none of them.
func keyNumber(k *store.ChunkKey) *big.Int {
	if k == nil {
		return nil
	}
	text := string(*k)
	if n, ok := new(big.Int).SetString(text, 10); ok {
		return n
	}
	if len(text) == 36 {
		if raw, err := hex.DecodeString(strings.ReplaceAll(text, "-", "")); err == nil && len(raw) == 16 {
			return new(big.Int).SetBytes(raw)
		}
	}
	for _, layout := range []string{ // of PostgreSQL in a session of ours, and of SQLite's own functions
		"2006-01-02 15:04:05.999999999Z07", "2006-01-02 15:04:05.999999999", "2006-01-02T15:04:05.999999999Z07:00", "2006-01-02",
	} {
		if t, err := time.Parse(layout, text); err == nil {
			return big.NewInt(t.UnixMicro())
		}
	}
	return nil
}
