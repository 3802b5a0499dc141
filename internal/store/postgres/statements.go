package postgres

import (
	"embed"
	"slices"
	"sync"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

//go:embed queries/*.sql shared/*.sql
var queryFiles embed.FS

// sharedText returns what several queries and functions have in common.
func sharedText() (sqltext.Shared, error) {
	shared, err := sqltext.LoadShared(queryFiles, "shared/*.sql")
	if err == nil {
		shared["zones"] = store.ZoneRows()
		shared["not_revived"] = store.NotRevived
	}
	return shared, err
}

// statements are the compiled queries, each with the schema's name filled in: constant texts, since pgx prepares a statement
// once for each text and connection. Each field has the statement of its name: ClaimRegion is claim_region.
type statements struct {
	Claim, ClaimBoth, ClaimRegion, ClaimRegionBoth, ClaimLimited, Claimed, NextDue            *sqltext.Query
	LockLimits, LockTenants, DeclareLimits, GiveTokens, ForgetBuckets                         *sqltext.Query
	Exchange, ClaimExchange, WantPlaces                                                       *sqltext.Query
	Settle, SettleDone, SettleDoneCounted, SettleMissed, SettleLocked                         *sqltext.Query
	Renew, RenewMore, RenewMissed, Sweep, Adopt, AdoptMissed                                  *sqltext.Query
	Join, Present, Holders, Leave, Idle, Cancels, AgentTypes, Takers, ListAgents, OrderAgent  *sqltext.Query
	DeclareBlocks, DeclaredBlocks, Declarations, BlockHistory, PutPolicies, Policies          *sqltext.Query
	Enqueue, EnqueueLive, FindKey, Get, History, List, ListOfBatch, Stats, Counts, CountsHeld *sqltext.Query
	Glance, Newest, AuditEdge, Audit, FlowLimits, FlowTenants, FlowTenantUse, FlowLocks       *sqltext.Query
	Window, Few, Span                                                                         *sqltext.Query
	Cancel, Retry, Rollback, Complete, Completed, Secret, TakePings                           *sqltext.Query
	CanRollBack, BatchCanRollBack                                                             *sqltext.Query
	CreateBatch, SealBatch, CancelBatch, RetryBatch, RollbackBatch, Batches, IsBatch, BatchFailures, BatchTasks,
	SumBatches, ApplyFold *sqltext.Query
	Operations, AnyOperation, BatchRunning, BatchWaiting, BatchLeft, BatchFailed, BatchFinished, BatchTask,
	ApplyStep *sqltext.Query
	StartBulk, StopBulk, Bulks, LookBulk, LookBulkAgain, ApplyBulk, ForgetBulks *sqltext.Query
	MissingDays, EnsurePartition, DayTables, LockRemoval, Detach, Finalize, Drop, DetachAsOwner, DropAsOwner,
	CountDay *sqltext.Query
	DayBatches, DayNamed, LockEnded, CountBatches, MarkExpired, ForgetHistory, ExpireRows, ForgetAgents,
	ForgetBatches, ForgetLeases, DueSchedules, ListSchedules, PauseSchedule, ResumeSchedule, RemoveSchedule, ApplyFirings *sqltext.Query
	PutDeclarations, DeclareSchedules, UnsettledSchedules, WakeSchedules, InsertDeclared, SettleSchedules *sqltext.Query
	LookPlan, ChunkObstacles, LockPlan, FinishedChunks, ChunkTasksLeft, NoteChunks, SkipChunks, ChunkBatch, InsertChunkTasks,
	InsertChunks, PutPass, ForgetEmptyPass, MovePlan, NoteFailedChunks, ForgetChunks *sqltext.Query
	ListChunkPlans, ListChunkPasses, PauseChunks, ResumeChunks                              *sqltext.Query
	ChunkTask, SplitPlan, SplitChunk, InsertHalfTasks, InsertHalves, NoteSplit              *sqltext.Query
	PutChunkDeclarations, DeclareChunks, InsertDeclaredChunks, SettleChunks, DeclaredChunks *sqltext.Query
	Unblock, Blocked, Related, Neighbours, Predecessors                                     *sqltext.Query
	PromoteLocks, LockNotes                                                                 *sqltext.Query
	Left, Pauses, PauseType, ResumeType, NoteRedactions, Redactions                         *sqltext.Query
	Circumstances, HolderSeen, RunningTypes, Ahead, AheadInSequence, WaitingForLock         *sqltext.Query
	Spill                                                                                   *sqltext.Query
	Orphans, WaitingTypes, HeldTypes, CancelOrphans, MoveOrphans, RegionOrphans             *sqltext.Query
	PromoteTurns, TurnNotes, DeclareSequences, FindSequences, ShowSequences, SequenceRows, SequenceSkip, SequenceRetry, SequenceCancel,
	DayFailures *sqltext.Query
	KeepActivity, ActivityTime, Activity, ForgetActivity                                      *sqltext.Query
	ClaimTenants, ClaimLimitedTenants, TenantTypes, FindTenants, FindTenantsRollback          *sqltext.Query
	Blockers, Rights, MaxPayload, AnyFences, AnySessions                                      *sqltext.Query
	Server, IsBook, CreateBook, LockBook, SchemaVersion, AppliedSteps, RecordStep, ForgetStep *sqltext.Query
	LockSessions, CountSessions, SetMaxPayload, KeepMaxPayload, Grantees                      *sqltext.Query
	ServerHealth, OldestTransaction, OldestSlot, UnusedSlots, RightsLacking, UndeclaredTypes, CountUndeclared, IdleSchedules,
	BlockedSequences, FailedRollbacks, StalledTypes *sqltext.Query
}

// loadQueries compiles the queries for a schema.
func loadQueries(sc schema) (sqltext.Queries, error) {
	shared, err := sharedText()
	if err != nil {
		return nil, err
	}
	queries, err := sqltext.Load(queryFiles, "queries/*.sql", sqltext.Postgres, shared)
	if err != nil {
		return nil, err
	}
	queries.Map(sc.fill)
	return queries, nil
}

func newStatements(sc schema) (*statements, error) {
	queries, err := loadQueries(sc)
	if err != nil {
		return nil, err
	}
	s := new(statements)
	return s, queries.Into(s)
}

// arg names an argument of a query.
func arg(name string, value any) sqltext.Arg { return sqltext.A(name, value) }

// hashes is a set of policy hashes for several goroutines.
type hashes struct {
	mu  sync.Mutex
	set map[task.PolicyHash]bool
}

func newHashes() *hashes { return &hashes{set: map[task.PolicyHash]bool{}} }

// lacks lists those of all that are not in the set, sorted.
func (h *hashes) lacks(all []task.PolicyHash) []task.PolicyHash {
	h.mu.Lock()
	defer h.mu.Unlock()
	missing := slices.DeleteFunc(slices.Clone(all), func(p task.PolicyHash) bool { return h.set[p] })
	slices.Sort(missing)
	return missing
}

func (h *hashes) add(all []task.PolicyHash) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range all {
		h.set[p] = true
	}
}

func (h *hashes) clear() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.set)
}
