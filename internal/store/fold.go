package store

import "github.com/leasehold/leasehold/internal/task"

// SummedBatch is what a fold decides on: a batch that has not ended, with its counters summed.
type SummedBatch struct {
	BatchFacts // without Running and Attempts, on which no fold depends

	ID        task.BatchID
	Version   string // changes with each counter, and with the request; opaque; empty where a store compares all of it
	Name      string
	Round     int
	OnFailure OnFailure

	Failures      int64 // how often a task has failed for good
	FailuresSeen  int64 // of these, those before the round or the request
	Sealed        bool  // no transaction that begins now can insert into it
	Summed        bool  // the counters are all that is known of them
	Operation     bool  // one on the batch has not ended
	TaskOperation bool  // one on a task of it has not ended
}

// FoldAct is what a fold does to a batch.
type FoldAct string

// What it may do.
const (
	FoldNothing FoldAct = ""
	FoldFollow  FoldAct = "follow" // start the operation that on_failure names
	FoldResume  FoldAct = "resume" // start the requested operation again: tasks came that it has not seen
	FoldEnd     FoldAct = "end"    // end the batch, and insert its finish task
)

// Conclusion is an act of a fold, to be applied to a batch where it is what was seen. All acts need the same round. FoldFollow
// needs that no operation was requested since. Failures only rise in a round, so that it need not wait for a moment without
// counting. The others need the same version, and that no operation is open that they exclude; FoldEnd needs also that nothing
// was counted since, and that no open transaction inserts.
type Conclusion struct {
	Batch *SummedBatch
	Act   FoldAct
}
