/* What the statements do: each is one step, as each is one transaction. */

/* A fence is handed out: rule 1. */
inline give_out() {
  upheld(FencesRise, fence > given);
  given = fence
}

/* Claim (claim.go, queries/claim.sql). It is committed when it is answered; rule 1, rule 7 (attempts count when claimed). got is
 * the fence; 0: nothing was due. how is what becomes of the column claim. */
inline store_claim(a, how) {
  if
  :: state == PENDING ->
     upheld(CancelledStays, !called);
     state = RUNNING; fence++; session = a; claim = how; left = from_now(WINDOW); attempt++;
     upheld(AttemptsWithinLimit, attempt <= LIMIT);
     give_out();
     got = fence;
     printf("a claim of session %d takes the row: fence %d, attempt %d\n", a, fence, attempt)
  :: else -> got = 0
  fi
}

/* What renewals and settlements match. */
#define matches(a, f) (state == RUNNING && (fence == (f) || without(fence)) && (session == (a) || without(session_match)))

/* Renew (renew.go, queries/renew.sql): the age of the ping, as it was when the call was sent, is taken off by the store; rule 2.
 * A lock of hold lets it pass (FOR NO KEY UPDATE beside FOR KEY SHARE). got: it is another's. */
inline store_renew(a, f, old) {
  if
  :: matches(a, f) ->
     seen = left;
     left = most(left, from_now(BEAT - (without(ping_age) -> 0 : old)));
     printf("the lease of fence %d is renewed for %d\n", f, left);
     /* No later than heartbeat and stop after the ping, and as long as the call was on its way. */
     upheld(LeaseFollowsPing, left == seen || left + old - off <= BEAT);
     got = 0
  :: else -> got = 1
  fi
}

/* The same, of what is left of a lease after a leap; rule 5. It never lowers what the agent may have confirmed meanwhile,
 * and leaves no more than a lease's whole length. */
inline store_anchor(a, f, rest) {
  if
  :: matches(a, f) -> left = (without(raise_only) -> rest : least(most(left, from_now(rest)), from_now(WINDOW))); got = 0
  :: else -> got = 1
  fi
}

/* A session is absent when its last heartbeat is too long ago, or in the future. */
#if SWINGS
#define mark(a) between[a] = (swung != 0)
#define present_now(a) \
    (!swung || between[a] -> present[a] : (swung == SWUNG_AHEAD -> less(present[a], SWING_AHEAD) : 0))
#else
#define mark(a) skip
#define present_now(a) present[a]
#endif

/* There is a heartbeat that agent o has not seen yet. It had not when it sent the sweep that may be on its way. */
inline unseen(o) {
  if
  :: without(compare) -> newer[o] = 1
  :: else ->
     observed[o] = 0;
     reply[o] = (call[o] == SWEEP && stage[o] != ANSWERED -> 0 : reply[o])
  fi
}

/* Present (present.go, queries/present.sql): rule 3. It returns what the session holds and for how long, and the store's
 * time. */
inline store_present(a) {
  present[a] = presence_of(a); mark(a);
  unseen(1 - a);
  if
  :: state == RUNNING && session == a ->
     got = fence; said = (claim == 2 -> 1 : 0) + (asked -> 2 : 0); seen = less(left, off)
  :: else -> got = 0; said = 0; seen = 0
  fi;
  said = said + (leapt[a] -> 4 : 0) + (swung -> 8 : 0)
}

/* Sweep (sweep.go, queries/sweep.sql): a claim for reaping, of what is dead by the store's clock; rules 3, 5, 6. It is refused to
 * a session that is absent, and to one whose belief of the time is wrong (stale); and it spares rows of another session whose
 * presence is longer than the sweeper has seen the clock go on without a leap. A row is taken because its session is absent
 * only if the sweeper has seen the same heartbeat of it for its presence, and that is still the last (silent). FOR UPDATE
 * SKIP LOCKED passes over a row that an application holds. */
#define sweepable(a, stale, quiet_for, silent) (state == RUNNING && !locked && !(without(reaped_again) && claim == 0) && \
    (present_now(a) > 0 || without(refusal)) && (!(stale) || without(belief)) && \
    (session == a || quiet_for >= presence_of(session) || without(longest)) && \
    (left <= off || present_now(session) == 0 && !without(presence) && (session != a && (silent) || without(observed))))
#define silent_long(a) (observed[a] >= presence_of(1 - a))

inline store_sweep(a) {
  fence++; session = a; claim = 0; left = from_now(REAP_FOR);
  give_out();
  printf("session %d sweeps the row: fence %d\n", a, fence)
}

/* Settle (settle.go, queries/settle.sql): rules 1 and 10. A row that an application holds is busy, and asked
 * again: the caller waits for that. An agent that did not know of a cancellation learns of it, and decides again. */
#define waits(k) ((k) == DO_RETRY || (k) == DO_BACK)
#define done_before(a, f) (bitof(history[a], f) || fence == (f) + 1 && session == (a) && state != RUNNING)

inline store_settle(a, f, k, knew, silent) {
  if
  :: matches(a, f) ->
     if
     :: !(knew) && waits(k) && asked && !without(cancel_seen) -> said = A_UNAWARE
     :: else ->
        upheld(NoStaleSettlement, fence == (f) && session == (a));
        took[a] = took[a] | (1 << (f));
        if
        :: !(silent) && waits(k) -> history[a] = history[a] | (1 << (f))
        :: else
        fi;
        state = (k == DO_SUCCEED -> SUCCEEDED : (k == DO_FAIL -> FAILED : (k == DO_CANCEL -> CANCELLED : PENDING)));
        attempt = (k == DO_BACK -> attempt - 1 : attempt);
        asked = (waits(k) -> 0 : asked);
        fence++; claim = 0; left = 0;
        said = A_APPLIED;
        printf("session %d settles fence %d: %d\n", a, f, k)
     fi
  :: else ->
     said = (done_before(a, f) && !without(repeat) -> A_ENDED : A_LOST);
     /* A give-back that left no trace may be answered so; poll/settle.go, answered, expects it. */
     upheld(LossIsTrue, said == A_ENDED || silent || !bitof(took[a], f))
  fi
}

/* SQL cancel (functions/cancel.sql). A waiting row ends, a running one is marked. The lock of
 * hold lets it pass. */
inline store_cancel() {
  called = 1;
  if
  :: state == PENDING && !without(mark_only) -> state = CANCELLED; fence++
  :: else -> asked = 1
  fi;
  printf("the task is cancelled\n")
}

#if EFFECTS
/* hold(id, fence): FOR KEY SHARE, provided that the attempt still has the row. */
#define holds(f) (state == RUNNING && fence == (f) && claim > 0 && left > off)

/* The commit of an application's transaction, which began with hold; with complete(id, fence) in it, or a step of many.
 * complete looks again, and raises where the fence is gone. */
inline store_commit(a) {
  if
  :: completes[a] && !(state == RUNNING && fence == txnfence[a] && claim > 0) -> skip
  :: else ->
     upheld(GuardedEffectOnce, state == RUNNING && fence == txnfence[a]);
     printf("fence %d commits an effect\n", txnfence[a]);
     if
     :: completes[a] ->
        effects++;
        upheld(GuardedEffectOnce, effects == 1);
        took[session] = took[session] | (1 << txnfence[a]);
        state = SUCCEEDED; fence++; claim = 0; left = 0
     :: else
     fi
  fi;
  txn[a] = NONE; txnfence[a] = 0; completes[a] = 0
}
#endif
