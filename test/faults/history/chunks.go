package history

// Chunks is all that is known of a plan that cuts a table into chunks.
type Chunks struct {
	Ahead  int         // how many of them may wait or run at once
	Steps  []ChunkStep // in the order in which they were inserted
	Passes []ChunkPass // in their order, without those that have planned nothing
	Sealed []ChunkSeal // all of them, but the one that is being planned
	Tasks  []ChunkTask // the tasks of its type
	Marks  map[int]int // how many rows of the table were marked how often
	Late   int         // how many rows were committed after rows with higher keys
}

// ChunkRange is the rows with keys above After and up to Through; After is 0 in the first range of the table, whose keys are positive.
type ChunkRange struct{ After, Through int64 }

// ChunkStep is a chunk as the transaction that inserted it wrote it down.
type ChunkStep struct {
	ChunkRange

	Task   int64
	Pass   int
	Half   bool // of a chunk that was split
	Live   int  // tasks of the plan that had not finished, this one included
	Beside int  // others of these with keys of its range
}

// ChunkSeal is the end of a pass as the transaction that sealed it wrote it down.
type ChunkSeal struct {
	Pass, Chunks int
	LeftOut      int // rows that were there when the pass began, are not marked, and are in no chunk that it planned or went around
}

// ChunkPass is a pass as the ledger has it in the end.
type ChunkPass struct {
	Pass, Chunks int
	From, Upto   int64 // 0: the begin of the table
	Rows         int64
	Sealed       bool // the ledger says so
	BatchSealed  bool // and so does its batch
}

// ChunkTask is a task with the range of its payload.
type ChunkTask struct {
	ChunkRange

	ID   int64
	Pass int
	Rows int64
}
