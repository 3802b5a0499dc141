package postgres

import (
	"slices"
	"strings"
	"sync"

	"github.com/leasehold/leasehold/internal/fault"
	"github.com/leasehold/leasehold/internal/task"
)

// statements are the texts with the schema's name filled in: made once, since pgx prepares a statement once for each
// text and connection.
type statements struct {
	claim, claimRegion, claimed                       string
	nextDue                                           string
	settle, done, doneCounted                         string
	told, kept                                        string
	renew, renewMore, renewTold                       string
	sweep, adopt, judged                              string
	secret, ping, complete, completed                 string
	cancel, retry, rollback                           string
	sealBatch, cancelBatch, retryBatch                string
	rollbackBatch, createBatch, isBatch               string
	batches, batchFailures, batchTasks                string
	fold, step                                        string
	join, present, cancels, leave, idle               string
	putPolicy, policies                               string
	enqueue, findKey, get, history, list, listOfBatch string
	stats, agents, archived, takers                   string
	partitions, makePlace                             string
}

func newStatements(sc schema) statements {
	s := allStatements(sc)
	if fault.Off(fault.Fence) {
		for _, text := range []*string{&s.settle, &s.done, &s.doneCounted, &s.renew, &s.renewMore} {
			*text = unfenced(*text)
		}
	}
	if fault.Off(fault.Session) {
		s.claimed = strings.Replace(s.claimed, "t.session = $1", "$1::bigint IS NOT NULL", 1)
	}
	return s
}

// unfenced takes the fence out of a statement.
func unfenced(text string) string {
	return strings.NewReplacer(
		"AND held.fence = i.i_fence", "",
		"AND t.fence = ($3::bigint[])[width_bucket(t.id, $2::bigint[])]", "AND $3::bigint[] IS NOT NULL",
	).Replace(text)
}

func allStatements(sc schema) statements {
	return statements{
		claim: sc.fill(claimSQL(oneRegion)), claimRegion: sc.fill(claimSQL(manyRegions)),
		claimed: sc.fill(claimedSQL()), nextDue: sc.fill(nextDueSQL()),
		settle: sc.fill(settleSQL), done: sc.fill(doneSQL(donePlain, "")),
		doneCounted: sc.fill(doneSQL("", doneCounted)), told: sc.fill(settleToldSQL), kept: sc.fill(settleKeptSQL),
		renew: sc.fill(renewSQL("")), renewMore: sc.fill(renewSQL(renewMore)), renewTold: sc.fill(renewToldSQL),
		sweep: sc.fill(judging(sweepSQL, nextFence)), adopt: sc.fill(judging(adoptSQL, "$4 + 1")), judged: sc.fill(judgedSQL),
		secret: sc.fill(storeKeySQL), ping: sc.fill(pingSQL), complete: sc.fill(completeSQL),
		completed: sc.fill(completedSQL), cancel: sc.fill(cancelSQL),
		retry: sc.fill(retrySQL), rollback: sc.fill(rollbackSQL), sealBatch: sc.fill(sealBatchSQL),
		cancelBatch: sc.fill(cancelBatchSQL), retryBatch: sc.fill(retryBatchSQL), rollbackBatch: sc.fill(rollbackBatchSQL),
		createBatch: sc.fill(createBatchSQL), isBatch: sc.fill(isBatchSQL), batches: sc.fill(batchesSQL),
		batchFailures: sc.fill(batchFailuresSQL), batchTasks: sc.fill(batchTasksSQL), fold: sc.fill(foldSQL), step: sc.fill(stepSQL),
		join: sc.fill(joinSQL), present: sc.fill(presentSQL), cancels: sc.fill(cancelsSQL), leave: sc.fill(leaveSQL), idle: sc.fill(idleSQL),
		putPolicy: sc.fill(putPolicySQL), policies: sc.fill(policiesSQL),
		enqueue: sc.fill(enqueueSQL), findKey: sc.fill(findKeySQL),
		get: sc.fill(getSQL), history: sc.fill(historySQL), list: sc.fill(strings.NewReplacer("{live}", liveSQL, "{order}", "id").Replace(listSQL)),
		listOfBatch: sc.fill(strings.NewReplacer("{live}", liveOfBatchSQL, "{order}", "id + 0").Replace(listSQL)),
		stats:       sc.fill(statsSQL), agents: sc.fill(agentsSQL), archived: sc.fill(archivedSQL), takers: sc.fill(takersSQL),
		partitions: sc.fill(partitionsSQL), makePlace: sc.fill(makePlaceSQL),
	}
}

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
