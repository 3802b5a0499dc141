package store

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
)

// TypeLimit bounds the attempts of a task type over all agents, how many run and how many start, as a configuration declares it. One that
// was never loaded before is newer than all others of its name, and the newest one that a present session declares is in force, for every
// agent. What a session declares that has expired by the store's clock, and may be alive, stays in force.
type TypeLimit struct {
	Name  string   // of the declared type; the limit's name
	Types []string // the row types that share the limit: the type's name and its aliases
	Most  int      // attempts at once, of runs and rollbacks together; 0: no bound
	Rate  float64  // starts in a second, of both together; 0: no bound
	Burst int      // how many of them at once; 0 without a rate
	// Tenant is what bounds each tenant, beside all of that. Rows without a tenant are not bounded by it.
	Tenant TenantLimit
}

// Text returns all that the declaration says but its name, as JSON, and the SHA-256 of that, in hexadecimal digits.
func (l *TypeLimit) Text() (text, hash string) {
	body, _ := json.Marshal(struct { // of texts and numbers
		Types  []string     `json:"types"`
		Most   int          `json:"most"`
		Rate   float64      `json:"rate"`
		Burst  int          `json:"burst"`
		Tenant *TenantLimit `json:"tenant,omitempty"` // nil: so a declaration that knows nothing of tenants is what it always was
	}{l.Types, l.Most, l.Rate, l.Burst, l.Tenant.orNil()})
	sum := sha256.Sum256(body)
	return string(body), hex.EncodeToString(sum[:])
}

// Room is how many rows a claim could take of a type that has a limit.
type Room struct {
	Limit string // its name; types with the same one share the room
	// Busy: another claim of the type was under way, so this one took nothing and does not know how much there is.
	Busy bool
	Rows int // before the claim
	// Wanted: another session runs nothing of the limit's types, and has found no room lately. Only exchanges say so, and not on every store.
	Wanted bool
	// Rated: it is a rate that leaves no more room. Next is how long it is until it lets a row start; 0: one may start now.
	Rated bool
	Next  time.Duration
	// Tenants: the claim came back short, and rows are due of tenants that their own limit or rate keeps from starting. TenantNext is how
	// long it is until a rate lets one of these start; 0: not known.
	Tenants    bool
	TenantNext time.Duration
}

// LimitDeclarer is a session that declares a limit. A declaration gets its number when it is loaded first, and keeps it for ever.
type LimitDeclarer struct {
	Number       int64
	Limit        TypeLimit
	SeenAt       time.Time // the session's last heartbeat
	PresentUntil time.Time // SeenAt where it has left
}

// LimitInForce is the limit of one row type.
type LimitInForce struct {
	Type     string
	Name     string // of the limit: types with the same one share it
	Declared int64  // number of the declaration
	Most     int    // as in TypeLimit, from here on
	Rate     float64
	Burst    int
	Tenant   TenantLimit
}

// LimitsInForce returns the limits of row types, by type, that follow from what sessions declare: of each name the newest declaration,
// and for each type that of the newest. calm is for how long the store's clock has not jumped as far as the caller knows; 0: not known.
// A session that has expired, and whose TTL is longer, may be alive: what it declares stays in force, but does not come into force.
func LimitsInForce(all []LimitDeclarer, have []LimitInForce, now time.Time, calm time.Duration) []LimitInForce {
	newest := map[string]LimitDeclarer{}
	for _, d := range all {
		mayLive := d.PresentUntil.Sub(d.SeenAt) > max(calm, 0) &&
			slices.ContainsFunc(have, func(l LimitInForce) bool { return l.Declared == d.Number })
		if !d.PresentUntil.After(now) && !mayLive {
			continue
		}
		if d.Number > newest[d.Limit.Name].Number {
			newest[d.Limit.Name] = d
		}
	}
	types := map[string]LimitInForce{}
	for _, d := range newest {
		for _, typ := range d.Limit.Types {
			if d.Number > types[typ].Declared {
				types[typ] = LimitInForce{Type: typ, Name: d.Limit.Name, Declared: d.Number, Most: d.Limit.Most, Rate: d.Limit.Rate, Burst: d.Limit.Burst,
					Tenant: d.Limit.Tenant}
			}
		}
	}
	return slices.SortedFunc(maps.Values(types), func(a, b LimitInForce) int { return strings.Compare(a.Type, b.Type) })
}

// Within returns the room where a rate bounds it, too.
func (r Room) Within(b Bucket, rate float64, burst int) Room {
	if n, next := b.Room(rate, burst); n < r.Rows {
		r.Rows, r.Rated, r.Next = n, true, next
	}
	return r
}
