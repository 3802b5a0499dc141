package chunk

import (
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/store"
)

// smoothing is the weight of what is new in the time that a row takes.
const smoothing = 0.3

// nextSize returns how many rows the next chunks have, and the time in seconds that a row takes, smoothed. A look brings what was
// measured since the last. A size at most doubles or halves at once: the first chunks of a table may not be like the others.
func nextSize(spec store.ChunkSize, now int, perRow float64, rows int64, took time.Duration) (size int, smoothed float64) {
	if now < 1 {
		now = spec.Start
	}
	if spec.Target <= 0 {
		return max(spec.Start, 1), 0
	}
	if rows <= 0 || took < 0 {
		return clamp(now, spec), perRow
	}
	measured := took.Seconds() / float64(rows)
	if perRow > 0 {
		measured = smoothing*measured + (1-smoothing)*perRow
	}
	want := float64(now) * 2
	if measured > 0 {
		want = min(want, spec.Target.Seconds()/measured)
	}
	return clamp(int(max(want, float64(now)/2)), spec), measured
}

// clamp keeps a size within its bounds.
func clamp(n int, spec store.ChunkSize) int {
	return max(min(n, max(spec.Max, 1)), spec.Min, 1)
}

// noteSize adds a size to those of a pass, where it differs by an eighth from the last of them.
func noteSize(sizes []int, size int) []int {
	if n := len(sizes); n > 0 && 8*max(size-sizes[n-1], sizes[n-1]-size) < sizes[n-1] {
		return sizes
	}
	sizes = append(slices.Clone(sizes), size)
	return sizes[max(0, len(sizes)-store.ChunkSizes):]
}
