package task

import "time"

const (
	// shortestDelay keeps a declaration with min = 0 from spinning.
	shortestDelay = time.Millisecond
	// longestRetryAfter is how long a target may ask to be left alone, unless Retry.Max is longer still.
	longestRetryAfter = time.Hour
)

// Delay is how long to wait before the next attempt once n have gone before in a row (n >= 1); jitter is a random
// number in [0, 1).
//
// The base is Min, doubled n-1 times for Exponential, at most Max. The delay is spread evenly over base - 25% ..
// base + 25%, cut to Min .. Max: rows that failed together come back apart, and both bounds hold as declared. It is
// never below a millisecond.
func (r Retry) Delay(n int, jitter float64) time.Duration {
	shortest, longest := r.bounds()
	base := shortest
	if r.Backoff != Constant {
		for i := 1; i < n && base < longest; i++ {
			if base > longest/2 { // and so that no doubling overflows
				base = longest
				break
			}
			base *= 2
		}
	}
	low, high := max(shortest, base-base/4), longest
	if base/4 < longest-base {
		high = base + base/4
	}
	return low + share(high-low, jitter)
}

// DelayAfter is Delay after an attempt that has ended so: for an ending in After as long as that says, and up to a tenth longer, so
// that rows which ended together come back apart. Min and Max do not bound it.
func (r Retry) DelayAfter(v Verdict, n int, jitter float64) time.Duration {
	wait, own := r.After[v]
	if !own {
		return r.Delay(n, jitter)
	}
	wait = max(wait, shortestDelay)
	return wait + share(wait/10, jitter)
}

// asked is how long a row waits whose target asked for that much: within Min .. the longer of Max and an hour, and up
// to a tenth later than asked, so that the rows which one overload sent away do not all come back in one moment.
func (r Retry) asked(after time.Duration, jitter float64) time.Duration {
	shortest, longest := r.bounds()
	longest = max(longest, longestRetryAfter)
	after = min(max(after, shortest), longest)
	return min(after+share(min(after/10, longest-after), jitter), longest)
}

func (r Retry) bounds() (shortest, longest time.Duration) {
	shortest = max(r.Min, shortestDelay)
	return shortest, max(r.Max, shortest)
}

// share is the part of d that jitter picks; a jitter outside [0, 1) picks an end.
func share(d time.Duration, jitter float64) time.Duration {
	switch {
	case jitter >= 1:
		return d
	case jitter > 0:
		return time.Duration(jitter * float64(d))
	}
	return 0
}
