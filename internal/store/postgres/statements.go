package postgres

import (
	"embed"
	"fmt"
	"slices"
	"sync"

	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

//go:embed queries/*.sql shared/*.sql
var queryFiles embed.FS

// sharedText returns what several queries and functions have in common.
func sharedText() (sqltext.Shared, error) { return sqltext.LoadShared(queryFiles, "shared/*.sql") }

// statements are the compiled queries, each with the schema's name filled in: constant texts, since pgx prepares a statement
// once for each text and connection.
type statements struct {
	claim, claimBoth, claimRegion, claimRegionBoth, claimed, nextDue               sqltext.Query
	settle, settleDone, settleDoneCounted, settleMissed, settleLocked              sqltext.Query
	renew, renewMore, renewMissed, sweep, adopt, adoptMissed                       sqltext.Query
	join, present, leave, idle, cancels, agentTypes, takers, putPolicies, policies sqltext.Query
	enqueue, findKey, get, history, list, listOfBatch, stats, archived             sqltext.Query
	cancel, retry, rollback, complete, completed, secret, takePings                sqltext.Query
	createBatch, sealBatch, cancelBatch, retryBatch, rollbackBatch, batches, isBatch, batchFailures, batchTasks,
	sumBatches, applyFold sqltext.Query
	operations, anyOperation, batchRunning, batchWaiting, batchLeft, batchFailed, batchFinished, batchTask,
	applyStep sqltext.Query
	missingDays, ensurePartition, dayTables, lockRemoval, detach, finalize, drop, detachAsOwner, dropAsOwner,
	countDay sqltext.Query
	dayBatches, lockEnded, countBatches, markExpired, forgetHistory, expireRows, forgetAgents,
	forgetBatches sqltext.Query
	blockers, rights, maxPayload, anyFences, anySessions                              sqltext.Query
	server, createBook, lockBook, schemaVersion, appliedSteps, recordStep, forgetStep sqltext.Query
	lockSessions, countSessions, setMaxPayload, keepMaxPayload                        sqltext.Query
}

func newStatements(sc schema) (*statements, error) {
	shared, err := sharedText()
	if err != nil {
		return nil, err
	}
	queries, err := sqltext.Load(queryFiles, "queries/*.sql", sqltext.Postgres, shared)
	if err != nil {
		return nil, err
	}
	s := &statements{}
	for name, q := range s.byName() {
		*q = queries.Take(name).Map(sc.fill)
	}
	if unused := queries.Untaken(); len(unused) > 0 {
		return nil, fmt.Errorf("no code runs the queries %v", unused)
	}
	return s, nil
}

// byName lists the queries by the names that they have in queries/.
func (s *statements) byName() map[string]*sqltext.Query {
	return map[string]*sqltext.Query{
		"claim": &s.claim, "claim_both": &s.claimBoth, "claim_region": &s.claimRegion,
		"claim_region_both": &s.claimRegionBoth, "claimed": &s.claimed, "next_due": &s.nextDue,
		"settle": &s.settle, "settle_done": &s.settleDone, "settle_done_counted": &s.settleDoneCounted,
		"settle_missed": &s.settleMissed, "settle_locked": &s.settleLocked,
		"renew": &s.renew, "renew_more": &s.renewMore, "renew_missed": &s.renewMissed, "sweep": &s.sweep,
		"adopt": &s.adopt, "adopt_missed": &s.adoptMissed,
		"join": &s.join, "present": &s.present, "leave": &s.leave, "idle": &s.idle, "cancels": &s.cancels,
		"agent_types": &s.agentTypes, "takers": &s.takers, "put_policies": &s.putPolicies, "policies": &s.policies,
		"enqueue": &s.enqueue, "find_key": &s.findKey, "get": &s.get, "history": &s.history, "list": &s.list,
		"list_of_batch": &s.listOfBatch, "stats": &s.stats, "archived": &s.archived,
		"cancel": &s.cancel, "retry": &s.retry, "rollback": &s.rollback, "complete": &s.complete,
		"completed": &s.completed, "secret": &s.secret, "take_pings": &s.takePings,
		"create_batch": &s.createBatch, "seal_batch": &s.sealBatch, "cancel_batch": &s.cancelBatch,
		"retry_batch": &s.retryBatch, "rollback_batch": &s.rollbackBatch, "batches": &s.batches,
		"is_batch": &s.isBatch, "batch_failures": &s.batchFailures, "batch_tasks": &s.batchTasks,
		"sum_batches": &s.sumBatches, "apply_fold": &s.applyFold,
		"operations": &s.operations, "any_operation": &s.anyOperation, "batch_running": &s.batchRunning,
		"batch_waiting": &s.batchWaiting, "batch_left": &s.batchLeft, "batch_failed": &s.batchFailed,
		"batch_finished": &s.batchFinished, "batch_task": &s.batchTask, "apply_step": &s.applyStep,
		"missing_days": &s.missingDays, "ensure_partition": &s.ensurePartition, "day_tables": &s.dayTables,
		"lock_removal": &s.lockRemoval, "detach": &s.detach, "finalize": &s.finalize, "drop": &s.drop,
		"detach_as_owner": &s.detachAsOwner, "drop_as_owner": &s.dropAsOwner, "count_day": &s.countDay,
		"day_batches": &s.dayBatches, "lock_ended": &s.lockEnded, "count_batches": &s.countBatches,
		"mark_expired": &s.markExpired, "forget_history": &s.forgetHistory, "expire_rows": &s.expireRows,
		"forget_agents": &s.forgetAgents, "forget_batches": &s.forgetBatches,
		"blockers": &s.blockers, "rights": &s.rights, "max_payload": &s.maxPayload, "any_fences": &s.anyFences,
		"any_sessions": &s.anySessions,
		"server":       &s.server, "create_book": &s.createBook, "lock_book": &s.lockBook, "schema_version": &s.schemaVersion,
		"applied_steps": &s.appliedSteps, "record_step": &s.recordStep, "forget_step": &s.forgetStep,
		"lock_sessions": &s.lockSessions, "count_sessions": &s.countSessions, "set_max_payload": &s.setMaxPayload,
		"keep_max_payload": &s.keepMaxPayload,
	}
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
