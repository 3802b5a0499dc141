package store

import "time"

// OnLive is what becomes of a task that is enqueued while another with its type and key is live.
type OnLive string

// What becomes of it.
const (
	OnLiveKeep OnLive = "keep" // nothing: the live task stays as it is
	// OnLiveReplace gives the live task its values if that has never started and has no follower; else as OnLiveAgain.
	OnLiveReplace OnLive = "replace"
	// OnLiveAgain has it follow the live task: it becomes a task once that one has ended for good. A later one takes its place.
	OnLiveAgain OnLive = "again"
)

// Enqueued is what became of a task that was enqueued.
type Enqueued string

// What became of it.
const (
	EnqueuedInserted Enqueued = "inserted" // a new task
	EnqueuedKept     Enqueued = "kept"     // there is a live task with the type and key: the id is that task's
	EnqueuedReplaced Enqueued = "replaced" // the live task with the type and key has its values: the id is that task's
	EnqueuedFollows  Enqueued = "follows"  // it follows the live task with the type and key: the id is the follower's
)

// Live returns what becomes of a live task.
func (r *EnqueueRequest) Live() OnLive {
	switch {
	case r.OnLive != "":
		return r.OnLive
	case r.Debounce != 0:
		return OnLiveReplace
	}
	return OnLiveKeep
}

// AsksForMore reports whether the request asks for more than to keep a live task.
func (r *EnqueueRequest) AsksForMore() bool {
	return r.Live() != OnLiveKeep || r.Debounce != 0 || r.DebounceMax != 0
}

// checkOnLive finds what contradicts itself. The stores' SQL has these rules, too.
func (r *EnqueueRequest) checkOnLive(wrong func(string, ...any) error) error {
	live := r.Live()
	switch {
	case live != OnLiveKeep && live != OnLiveReplace && live != OnLiveAgain:
		return wrong("on live %q: use %s, %s or %s", string(live), OnLiveKeep, OnLiveReplace, OnLiveAgain)
	case r.Debounce < 0:
		return wrong("debounce %s: it must be positive", r.Debounce)
	case r.Debounce > 0 && r.Debounce < time.Millisecond:
		return wrong("debounce %s: use 1ms at least", r.Debounce)
	case r.DebounceMax != 0 && r.Debounce == 0:
		return wrong("a longest debounce was given and no debounce: use both")
	case r.DebounceMax != 0 && r.DebounceMax < r.Debounce:
		return wrong("the longest debounce, %s, must be the debounce, %s, at least", r.DebounceMax, r.Debounce)
	case r.Debounce != 0 && live != OnLiveReplace:
		return wrong("a debounced task replaces the live one: use it with on live %s, or leave that out", OnLiveReplace)
	case r.Debounce != 0 && (r.In != 0 || !r.RunAt.IsZero()):
		return wrong("a due time and a debounce were given: use one of them")
	case live == OnLiveKeep:
		return nil
	case r.Key == "":
		return wrong("only a task with a key replaces or follows the live one: give it a key")
	case len(r.After) > 0:
		return wrong("a task that waits for others replaces and follows none: leave out on live and debounce")
	case r.Batch != 0:
		return wrong("a task of a batch replaces and follows none: leave out the batch")
	}
	return nil
}
