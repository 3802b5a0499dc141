package history

import "time"

// Followed is one time that a row was enqueued whose key another may have (on_live).
type Followed struct {
	Key    string
	N      int    // its payload's number, which rises with each time of the key
	ID     int64  // 0: the answer is not known
	Answer string // inserted, replaced or follows
	Commit Commit
	At     time.Duration // before its transaction began
}

// FollowRow is a row of these as the store has it in the end.
type FollowRow struct {
	ID       int64
	Key      string
	N        int // of the values that it has
	Follower bool
}
