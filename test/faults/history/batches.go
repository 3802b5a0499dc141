package history

import "time"

// Move is one step of a row through its states, as a trigger of the suite's own wrote it down in the transaction that
// made it.
type Move struct {
	Serial      int64 // rises along each row's life, and along what has to wait for one another
	ID          int64
	Batch       int64 // 0: of none
	State       string
	Fence       int64
	Attempt     int
	Round       int
	EverStarted bool
	Outcome     string
	Cause       string
	Archived    bool // it went into the archive
	Type        string
}

// Op is what an operator asked for, of a row or of a batch.
type Op struct {
	Requested time.Duration
	At        time.Duration // when the answer came; 0: none did
	Verb      string        // cancel, retry, rollback; of a batch seal, and of a sequence skip, too
	ID        int64         // of the row; 0: it is of a batch, or of all rows of a sequence
	Batch     int64
	Kind      string // with Sequence
	Sequence  string // "": it is of none
	Answer    string
	Error     string
}

// Batches is all that is known of groups of rows.
type Batches struct {
	Made     []MadeBatch
	Ended    []Batch     // as the store has them in the end
	Moves    []BatchMove // in the order of Serial, which is that of the rows' moves
	Finishes []Finish
	Samples  []BatchSample
}

// MadeBatch is one batch that a producer inserted, or tried to. Name names it.
type MadeBatch struct {
	Name   string
	ID     int64
	Commit Commit
	At     time.Duration
}

// Counts are a batch's, as its view has them or as its rows add up to.
type Counts struct {
	Total, Live, Waiting, Running, RollingBack               int64
	Succeeded, Failed, Cancelled, RolledBack, RollbackFailed int64
}

// Batch is a batch as the store has it.
type Batch struct {
	ID         int64
	Name       string
	State      string
	Sealed     bool
	Ended      bool
	Round      int
	FinishType string // "": it has no finish task
	Operation  string // that is carried on; "": none
	Counts     Counts
}

// BatchMove is one step of a batch, written down as a row's move is.
type BatchMove struct {
	Serial    int64
	ID        int64
	Round     int
	Sealed    bool
	Stopping  bool
	Ended     bool
	Requested string
	ByFailure bool
}

// Finish is a finish task of a batch.
type Finish struct {
	ID     int64 // of the row
	Batch  int64
	Name   string
	State  string
	Round  int
	Counts Counts // the finished ones
}

// BatchSample is how a batch stood at one moment, by one snapshot of the store.
type BatchSample struct {
	At       time.Duration // monotonic clock, after the answer
	Within   time.Duration // how long the question took
	ID       int64
	State    string
	Round    int
	Stopping bool
	View     Counts // as the view has them
	Rows     Counts // as the rows add up to
	// Fences are those of its rows that had not ended, by id. Only the first sample of a round in which it is stopping has
	// them.
	Fences map[int64]int64
}
