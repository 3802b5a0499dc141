package store

import (
	"math"
	"time"
)

// rateSlack is how much of the rate a bucket holds beyond its burst, so that a claim that comes a little late loses nothing of it.
const rateSlack = 25 * time.Millisecond

// Bucket is what a type's rate allows to start: a token for each row.
type Bucket struct {
	Tokens float64
	At     time.Time // when they were counted
}

// FullBucket is that of a rate that is new.
func FullBucket(burst int, now time.Time) Bucket { return Bucket{float64(burst), now} }

// Refilled returns the bucket with what the rate, in rows per second, has brought since, and with so many tokens that were returned. It
// holds the burst and a little more at most, so a clock that jumps forward brings no more than that; one that was set back brings nothing,
// and takes nothing.
func (b Bucket) Refilled(rate float64, burst, back int, now time.Time) Bucket {
	since := max(now.Sub(b.At), 0).Seconds()
	return Bucket{min(b.Tokens+since*rate+float64(back), float64(burst)+rate*rateSlack.Seconds()), now}
}

// Room returns how many rows may start now, never more than the burst, and if that is none, how long it is until one may.
func (b Bucket) Room(rate float64, burst int) (n int, next time.Duration) {
	if n = min(int(math.Floor(max(b.Tokens, 0))), burst); n == 0 {
		next = max(time.Duration((1-b.Tokens)/rate*float64(time.Second)), time.Microsecond)
	}
	return n, next
}
