package config

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/zclconf/go-cty/cty"

	"github.com/leasehold/leasehold/internal/task"
)

const (
	maxWeight  = 1000
	maxWeights = 10_000
	maxTenant  = 1 << 10 // bytes, as the column
)

func tenantShape() *shape {
	return &shape{name: "tenant", attrs: []string{"limit", "rate", "burst", "weight"}}
}

// tenant decodes the tenant block of a task: the bounds of each tenant, and their weights, which are nil where there is no block.
func (b *block) tenant(t *task.Type) {
	hb := b.child("tenant")
	if hb == nil {
		return
	}
	sub := b.block(hb, tenantShape())
	b.out.blocks = append(b.out.blocks, sub.out)
	t.Tenant.Limit, t.Tenant.Rate, t.Tenant.Burst = sub.bounds()
	t.Weights = sub.weights()
}

// weights reads how many rows in a row tenants take.
func (b *block) weights() map[string]int {
	g := b.get("weight", cty.Map(cty.Number))
	out := map[string]int{}
	var items [][2]string
	if g.ok {
		all := g.v.AsValueMap()
		if len(all) > maxWeights {
			b.invalid("weight", g.expr.Range(), fmt.Errorf("it must name at most %d tenants", maxWeights))
			return out
		}
		for _, name := range slices.Sorted(maps.Keys(all)) {
			n, err := weight(name, all[name])
			if err != nil {
				b.invalid("weight", g.expr.Range(), err)
				continue
			}
			out[name] = n
			items = append(items, [2]string{key(name), strconv.Itoa(n)})
		}
	}
	b.print("weight", g, mapOf(items))
	return out
}

// weight checks the weight of one tenant.
func weight(name string, v cty.Value) (int, error) {
	if name == "" || len(name) > maxTenant || !utf8.ValidString(name) || noNUL(name) != nil {
		return 0, fmt.Errorf("%q is not a tenant: use 1 to %d bytes of UTF-8 without NUL", name, maxTenant)
	}
	if v.IsNull() {
		return 0, fmt.Errorf("%q must be mapped to a whole number from 1 to %d", name, maxWeight)
	}
	n, exact := v.AsBigFloat().Int64()
	if exact != big.Exact || n < 1 || n > maxWeight {
		return 0, fmt.Errorf("%q must be mapped to a whole number from 1 to %d", name, maxWeight)
	}
	return int(n), nil
}
