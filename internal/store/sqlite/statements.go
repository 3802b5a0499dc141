package sqlite

import (
	"encoding/json"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
)

// statements are the SQL of queries/, compiled. Each field has the statement of its name: ClaimDue is claim_due.
type statements struct {
	// claim.sql, too_large.sql
	Stopping, HeadDue, HeadRollback, ClaimDue, ClaimStartable, ClaimRollback, ClaimRows, Claimed, Soonest *sqltext.Query
	TooLargeDue, TooLargeRollback, Reject                                                                 *sqltext.Query
	// after.sql
	NextNumber, RevivedNotes, CancelledFor, RevivalBarred, ReviveDependent, SayNotRevived, MoveRevivedNote, DeleteRevivedNote, CancelledTotal,
	CancelledNeighbours, Related, Neighbours, Predecessors, WaitingTotal, Blocked, AnyDependent, NoteEnds, EndedNotes, Await, AwaitFollowers,
	WaitingFor, CountDown, SetEnded, DeleteEndedNote, Ready, LiveAgain, WaitAgain, Unfinish, BadPredecessor,
	FreeDependent, CancelDependent, SayWhy, ForgetDependency, ForgetDependent *sqltext.Query
	// tenants.sql
	NextTenantDue, NextTenantRollback, HeadTenantDue, HeadTenantRollback           *sqltext.Query
	CountLevel, CountLevelRollback, CountTenantLevel, CountTenantLevelRollback     *sqltext.Query
	ClaimTenantDue, ClaimTenantRollback, TooLargeTenantDue, TooLargeTenantRollback *sqltext.Query
	SoonestTenant                                                                  *sqltext.Query
	// locks.sql
	LockStanding, TakeLock, HoldBack, AnyLock, NoteLocks, DueNotes, NextNote, AnyNote, DeleteNotes, FreeLock, NextClass,
	PromoteFirst *sqltext.Query
	// sequences.sql
	AnySequence, NoteTurns, NoteFailures *sqltext.Query
	Turn, NextTurn, PutTurn, FreeTurn, HoldTurns, DueTurnNotes, NextTurnNote, AnyTurnNote, DeleteTurnNotes, ForgetFailures,
	ForgetTurn *sqltext.Query
	AnySequenceRule, PutSequenceDeclarations, ForgetSequenceDeclarers, PutSequenceDeclarers, PutSequenceRule,
	RemoveSequenceRule, NoteContinued *sqltext.Query
	OrphanSequences, JudgeOrphans, JudgeSequence, NoteMovedLocks, NoteMovedTurns, MoveFollowers, MoveRows, AuditRows *sqltext.Query
	StartBulk, AuditBulk, StopBulk, OpenBulks, GetBulk, LookBulkLive, LookBulkFollowers, LookBulkFinished, LookBulkUnsuccessful, LookBulkType,
	LookBulkAgain, BatchSpan, BulkSeen, BulkLiveAs, BulkFinishedAs, BulkFollows, KeepBulk, DeleteBulks *sqltext.Query
	WaitingTypes, CountOfType, HeldTypes, LastDeclared                                                    *sqltext.Query
	RegionOrphans, Declarer, RowsBehind, AuditType, AuditReason, LastAudit                                *sqltext.Query
	NextRegion, AnyLate, Spill                                                                            *sqltext.Query
	NoteRedactions, Redactions                                                                            *sqltext.Query
	Circumstances, HolderSeen, RunningTypes, Ahead, AheadInSequence, WaitingForLock                       *sqltext.Query
	Left, Pauses, PauseType, ResumeType, IsPaused                                                         *sqltext.Query
	FindSequences, ShowSequence, SequenceRows, SequenceSkip, SequenceRetry, SequenceCancel, CountSequence *sqltext.Query
	KeepActivity, ActivityTop, Activity, DeleteActivity                                                   *sqltext.Query
	// settle.sql, tally.sql, complete.sql
	NoteProgress, Archive, Copied, Release, Unapplied, Ran, AddAttempt, DeleteArchived, AnyFollower, InsertFollowers, WakeForDue *sqltext.Query
	InsertOnFailed                                                                                                               *sqltext.Query
	AnyOpenBatch, OfBatch, Tally                                                                                                 *sqltext.Query
	Attempt, Complete, Completed                                                                                                 *sqltext.Query
	// renew.sql, ping.sql, session.sql, sweep.sql
	Renew, RenewWithProgress                                  *sqltext.Query
	Secret, Pinged, Marks, Ping, Policy                       *sqltext.Query
	Join, Present, Held, Cancels, Leave, KeepPolicy, Policies *sqltext.Query
	Ordered, ListAgents, PresentAgents, OrderAgent, NoteOrder *sqltext.Query
	Holders, Expired, Reap, Adoptable, Adopt, AttemptFailed   *sqltext.Query
	// declared.sql
	AgentName, ForgetBlockDeclarers, PutBlock, PutDeclarer, DeclaredBlocks, Declarations, BlockHistory *sqltext.Query
	// enqueue.sql, look.sql, batches.sql, fold.sql
	Enqueue, EnqueueLive, EnqueueResult, LiveWithKey, Admission, CreateBatch, InsertRow    *sqltext.Query
	Glance, Newest, AuditEdge, Audit, FlowLimits, FlowTenants, FlowTenantUse, FlowLocks    *sqltext.Query
	Get, FollowedBy, History, ListLive, ListFinished, ListFollowers, DeclaredTypes, Takers *sqltext.Query
	CountDue, CountRollback, CountHeld, CountTurns, CountAfter, CountRunning,
	LiveDepth, FinishedDepth, FollowerDepth, Few, Gather, NextPair, NextType, CountPair, CountDueOfPair, CountDueOfTenants, CountFirst *sqltext.Query
	ListBatches, BatchExists, Failures, CountBatchTasks *sqltext.Query
	AnyUnseen, SeeBatches, SumBatches, SummedBatch      *sqltext.Query
	MarkByFailure, EndBatch, InsertFinishTask           *sqltext.Query
	CountTenantDue, CountTenantRollback                 *sqltext.Query
	// operate.sql, step.sql
	Standing, Cancel, CancelAnswer, Retry, IsChunk, RetryAnswer, Rollback, RollbackAnswer  *sqltext.Query
	BatchRequest, BatchRemains, SealBatch, SealBatchAnswer, CancelBatch, CancelBatchAnswer *sqltext.Query
	RetryBatch, RetryBatchAnswer, RollbackBatch, RollbackBatchAnswer                       *sqltext.Query
	AnyOperation, Operations, RunningOfBatch, WaitingOfBatch, LeftOfBatch, FailedOfBatch   *sqltext.Query
	FinishedOfBatch, TaskToRollBack, OperationSeen, KeepOperation, RequestCancels          *sqltext.Query
	WakeForCancel, CountWaiting, CancelWaiting, AnyUnstopped, CountFinished, Revive        *sqltext.Query
	CanRollBack, BatchCanRollBack                                                          *sqltext.Query
	ReopenBatchOf                                                                          *sqltext.Query
	// schedule.sql
	NextSchedule, DueSchedules, FiringsSeen, InsertFirings, MoveSchedules, MarkInvalid, NoteAside *sqltext.Query
	ListSchedules, ScheduleStanding, PauseSchedule, ResumeSchedule, RemoveSchedule                *sqltext.Query
	// schedule_declare.sql
	PutDeclarations, IsSession, ForgetDeclarers, PutDeclarers, UnsettledSchedules         *sqltext.Query
	AnyAhead, WakeSchedules, InsertDeclared, ChangeDeclared, UnparkSchedule, ParkSchedule *sqltext.Query
	// chunks.sql
	LookPlan, ChunkObstacles, LockPlan, FinishedChunks, NoteChunk, ChunkStanding, SkipChunk, InsertChunkTask, InsertChunk,
	PutPass, ForgetEmptyPass, MovePlan, NoteFailedChunks, DeleteChunks *sqltext.Query
	ListChunkPlans, ListChunkPasses, ChunksHalted, PauseChunks, ResumeChunks                                          *sqltext.Query
	ChunkTask, SplitChunk, SplitPlan, InsertHalfTask, InsertHalf, CountSplit                                          *sqltext.Query
	PutChunkDeclarations, ForgetChunkDeclarers, PutChunkDeclarers, InsertDeclaredChunks, SettleChunks, DeclaredChunks *sqltext.Query
	// limits.sql
	LimitedType, CountLimited, AnyLimit, PutLimitDeclarations, ForgetLimitDeclarers, PutLimitDeclarers       *sqltext.Query
	GiveTenantToken, CountTenantLimited, CountTenantPlaces, TenantBucket, PutTenantBucket, DeleteFullBuckets *sqltext.Query
	Bucket, PutBucket, GiveToken                                                                             *sqltext.Query
	KeepPlace, FreePlaces, CutPlaces, CountPlaces                                                            *sqltext.Query
	LimitDeclarers, LimitsInForce, PutLimit, RemoveLimit, LimitRunning                                       *sqltext.Query
	// maintain.sql, migrate.sql, listen.sql
	DeleteSessions, ExpiredTasks, StillExpired, CountRemoved, DeleteAttempts, DeleteTaskAudit                               *sqltext.Query
	DeleteTasks, ExpiredBatches, DeleteTaskOperations, DeleteBatchOperations, DeleteBatchAudit, DeleteBatches, DeleteLeases *sqltext.Query
	CountVersionTables, SchemaVersion, AppliedVersions, AddVersion, DeleteVersion                                           *sqltext.Query
	CountPresent, MaxPayload, SetMaxPayload                                                                                 *sqltext.Query
	Wakeups                                                                                                                 *sqltext.Query
	// doctor.sql
	UndeclaredTypes, CountUndeclared, IdleSchedules, BlockedSequences, FailedRollbacks, StalledTypes *sqltext.Query
}

// sharedText returns what several queries and functions have in common.
func sharedText() sqltext.Shared {
	shared, err := sqltext.LoadShared(files, "shared/*.sql")
	if err != nil {
		panic("what statements share is embedded: " + err.Error())
	}
	shared["zones"] = store.ZoneRows()
	shared["not_revived"] = store.NotRevived
	return shared
}

// loadQueries compiles the embedded files. It panics on a mistake in them, which every test would find.
func loadQueries() sqltext.Queries {
	queries, err := sqltext.Load(files, "queries/*.sql", sqltext.SQLite, sharedText())
	if err != nil {
		panic("the statements are embedded: " + err.Error())
	}
	return queries
}

// compileStatements is loadQueries as fields.
func compileStatements() *statements {
	s := new(statements)
	if err := loadQueries().Into(s); err != nil {
		panic("the statements are embedded: " + err.Error())
	}
	return s
}

// arg names an argument of a statement.
func arg(name string, value any) sqltext.Arg { return sqltext.A(name, value) }

// jsonList writes a list for a statement that reads it by json_each; "[]" for none.
func jsonList[T ~int64 | ~string](values []T) string {
	if len(values) == 0 {
		return "[]"
	}
	text, _ := json.Marshal(values) // numbers and texts always are JSON
	return string(text)
}
