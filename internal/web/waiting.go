package web

import (
	"math"
	"strconv"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
)

// boundRow is a bound of attempts, in words.
type boundRow struct {
	Use      float64 // running of the limit
	HasUse   bool
	InUse    string // "3 of 20"
	Rate     string // "100/s, 20 at once"; "": there is none
	Tokens   string // what it lets start now: "4 may start", "next in 40 ms"
	Full     bool   // nothing may start
	FullRate bool   // it is the rate that lets nothing start
}

func boundOf(b *store.FlowBound) (row boundRow) {
	if b.Limit > 0 {
		row.HasUse, row.Use = true, min(float64(b.Running)/float64(b.Limit), 1)
		row.InUse = ops.Thousands(int64(b.Running)) + " of " + ops.Thousands(int64(b.Limit))
		row.Full = b.Running >= b.Limit
	}
	if b.Rate > 0 {
		row.Rate = perTime(b.Rate) + ", " + ops.Thousands(int64(b.Burst)) + " at once"
		row.Tokens = ops.Thousands(int64(math.Floor(b.Tokens))) + " may start"
		if b.NextS > 0 {
			row.Tokens, row.FullRate = "next in "+ops.Duration(seconds(b.NextS)), true
		}
	}
	row.Full = row.Full || row.FullRate
	return row
}

// perTime writes a rate as it is declared: by the second, the minute or the hour.
func perTime(perSecond float64) string {
	unit := "s"
	for _, longer := range []string{"m", "h"} {
		if perSecond >= 1 {
			break
		}
		unit, perSecond = longer, perSecond*60
	}
	return strconv.FormatFloat(math.Round(perSecond*100)/100, 'f', -1, 64) + "/" + unit
}

// limitRow is a limit or a rate, with the types that share it.
type limitRow struct {
	store.FlowLimit
	boundRow
}

// tenantRow is a tenant of a type.
type tenantRow struct {
	store.FlowTenant
	boundRow
}

// waiting is what limits, rates and locks let start, and who waits for them.
type waiting struct {
	store.Flow
	Limits  []limitRow
	Tenants []tenantRow
}

// waitingOf presents what was read of it.
func waitingOf(f *store.Flow) *waiting {
	w := &waiting{Flow: *f}
	for _, l := range f.Limits {
		if l.Limit > 0 || l.Rate > 0 { // else it only bounds tenants
			w.Limits = append(w.Limits, limitRow{l, boundOf(&l.FlowBound)})
		}
	}
	for _, t := range f.Tenants {
		w.Tenants = append(w.Tenants, tenantRow{t, boundOf(&t.FlowBound)})
	}
	return w
}
