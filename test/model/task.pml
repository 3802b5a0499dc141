/* A task's process or request, who sees to it that it is dead in time, and what it does in the database. */

/* The agent by its own clock, and the guardian, a process of its own that knows what the agent knew last, whether that
 * runs, is frozen or is gone (exec/command/guardian/watch.go). A request has no guardian. */
#define guarded(a) (!HTTP && !without(guardian))
#define watched(a) (up(a) && !without(self_stop) || guarded(a))
#define end_of(a)  (unannounced[a] -> until[a] : least(window[a], until[a]))
#define orphan(a)  (mode[a] == DEAD && (HTTP || guarded(a)))
#define overdue(a) (child[a] == RUNS && (watched(a) && mode[a] != DEAD && end_of(a) <= MARGIN || orphan(a)))

proctype task(byte a) {
end: do
  /* It reports progress. A report that comes while the last is on its way is sent later. */
  :: d_step { live && up(a) && child[a] == RUNS && cause[a] == 0 && silence[a] > 0 && silence[a] <= HEARTBEAT &&
       !renew[a] && !waiting(a, RENEW) ->
       silence[a] = 0; renew[a] = 1; reported(); printf("the task of agent %d reports progress\n", a) }
  /* It ends by itself. */
  :: d_step { live && child[a] == RUNS && !intxn(a) ->
       child[a] = (mode[a] == DEAD -> NONE : ENDED); result[a] = (mode[a] == DEAD -> KILLED : WELL) }
  :: d_step { live && child[a] == RUNS && !intxn(a) && mode[a] != DEAD -> child[a] = ENDED; result[a] = BADLY }
  /* It is killed a second before its lease ends, or because its agent is gone. */
  :: d_step { live && overdue(a) ->
       child[a] = (mode[a] == DEAD -> NONE : ENDED); result[a] = KILLED;
       printf("the attempt of agent %d is killed\n", a) }
#if EFFECTS
  /* It makes a transaction that begins with hold. Once the commit is on its way the process can die, and it goes on. */
  :: d_step { live && child[a] == RUNS && txn[a] == NONE && holds(held[a]) -> txn[a] = OPEN; txnfence[a] = held[a] }
  :: d_step { live && txn[a] == OPEN && child[a] == RUNS -> txn[a] = COMMITTING; completes[a] = 0 }
  :: d_step { live && txn[a] == OPEN && child[a] == RUNS -> txn[a] = COMMITTING; completes[a] = 1 }
  :: d_step { txn[a] == COMMITTING -> store_commit(a) }
  :: d_step { live && (txn[a] == COMMITTING || txn[a] == OPEN && child[a] != RUNS) -> /* taken back */
       txn[a] = NONE; txnfence[a] = 0; completes[a] = 0 }
#endif
  od
}
