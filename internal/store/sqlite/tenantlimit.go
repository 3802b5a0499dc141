package sqlite

import (
	"database/sql"
	"errors"
	"time"

	"github.com/leasehold/leasehold/internal/store"
)

// tenantOf is a tenant of a limit.
type tenantOf struct{ limit, tenant string }

// tenantRoom is the room of a tenant in one claim.
type tenantRoom struct {
	left   int           // for rows that the claim has not found yet
	next   time.Duration // where it is the rate that lets none start: until one may; 0: not known
	taken  int           // by the claim
	rated  bool
	moved  bool         // the clock was set back since the tokens were counted
	bucket store.Bucket // with a rate
}

// fullAtMost is how far ahead a bucket is full at the most: as far as a time can be written.
const fullAtMost = 100 * 365 * 24 * time.Hour

// ofTenant returns the room of a tenant; nil where tenants have no bounds.
func (r *rooms) ofTenant(t *tx, limit, tenant string) (*tenantRoom, error) {
	each := r.each[limit]
	if limit == "" || tenant == "" || !each.Bounds() {
		return nil, nil //nolint:nilnil // no bounds are no error
	}
	of := tenantOf{limit, tenant}
	if room := r.tenant[of]; room != nil {
		return room, nil
	}
	name, who := arg("name", limit), arg("tenant", tenant)
	room, running := &tenantRoom{}, 0
	if each.Most > 0 {
		var kept int
		if err := t.row([]any{&running}, t.sql.CountTenantLimited, name, who); err != nil {
			return nil, err
		}
		if err := t.row([]any{&kept}, t.sql.CountTenantPlaces, name, who); err != nil {
			return nil, err
		}
		running += kept
	}
	if each.Rate > 0 {
		b := store.FullBucket(each.Burst, t.now)
		err := t.row([]any{&b.Tokens, timeOf{&b.At}}, t.sql.TenantBucket, name, who)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, err
		}
		room.rated, room.moved, room.bucket = true, b.At.After(t.now), b.Refilled(each.Rate, each.Burst, 0, t.now)
	}
	room.left, room.next = each.Room(running, room.bucket, 1<<30)
	r.tenant[of] = room
	return room, nil
}

// spendTenants writes what the claim has left of the tokens of tenants.
func (r *rooms) spendTenants(t *tx) error {
	for of, room := range r.tenant {
		if !room.rated || room.taken == 0 && !room.moved {
			continue
		}
		each := r.each[of.limit]
		tokens := room.bucket.Tokens - float64(room.taken)
		full := min((float64(each.Burst)-tokens)/each.Rate+1, fullAtMost.Seconds())
		_, err := t.exec(t.sql.PutTenantBucket, arg("name", of.limit), arg("tenant", of.tenant), arg("tokens", tokens),
			arg("counted_at", stamp(room.bucket.At)), arg("full_at", stamp(t.now.Add(time.Duration(full*float64(time.Second))))))
		if err != nil {
			return err
		}
	}
	return nil
}

// bounded returns how many of a tenant's due rows its bounds let start, and notes where that is fewer.
func (c *wanting) bounded(tenant string, due int) (int, error) {
	room, err := c.rooms.ofTenant(c.tx, c.limit, tenant)
	if err != nil || room == nil || due <= room.left {
		return due, err
	}
	c.waits = true
	if room.next > 0 && (c.soon == 0 || room.next < c.soon) {
		c.soon = room.next
	}
	return room.left, nil
}

// found takes what was found from the room of the limit and of the tenants.
func (r *rooms) found(c *wanting) {
	r.left[c.limit] -= len(c.rows)
	for i := range c.rows {
		if room := r.tenant[tenantOf{c.limit, c.rows[i].Tenant}]; room != nil {
			room.left--
		}
	}
	if c.waits && !c.more && len(c.rows) < c.want.N {
		r.waiting[c.want.Type] = true
		if next := r.next[c.want.Type]; c.soon > 0 && (next == 0 || c.soon < next) {
			r.next[c.want.Type] = c.soon
		}
	}
}

// took notes what a want has taken, which costs tokens: what waits for its lock takes none.
func (r *rooms) took(c *wanting) {
	r.taken[c.limit] += len(c.rows)
	for i := range c.rows {
		if room := r.tenant[tenantOf{c.limit, c.rows[i].Tenant}]; room != nil {
			room.taken++
		}
	}
}
