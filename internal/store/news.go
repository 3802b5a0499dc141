package store

// News is what Listen reports: a set of Due and Asked.
type News uint8

// The kinds of news. A store that cannot distinguish them reports both.
const (
	Due        News = 1 << iota // there may be something new to claim
	CancelNews                  // a cancellation of a row that a session holds may have been requested
	AfterNews                   // a row that waits for others may have come
	PauseNews                   // a type may have been paused or resumed
	PlaceNews                   // a place may be free in a limit that had no room for this session
)
