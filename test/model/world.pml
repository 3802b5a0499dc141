/* Time, and what strikes. */

/* What is done before time goes on: everything that an agent does at once. What takes longer has been counted. */
#define must(a) ( \
    linked(a) && (!shown[a] && !waiting(a, SIGN) || mayclaim(a) || unread[a] || mayrenew(a) || mayanchor(a) || \
        maysettle(a) || mayreap(a) && sweepable(a, leapt[a], calm[a], silent_long(a))) || \
    up(a) && (lease[a] == LOOKED || unannounced[a] || lease[a] == QUEUED && (starts(a) || outcome[a] == NONE) || \
        child[a] == ENDED && (outcome[a] == NONE || cause[a] == LOST) || \
        child[a] == RUNS && cause[a] == 0 && (silence[a] >= HEARTBEAT || !fit(a) && !without(self_stop)) || \
        call[a] != NONE && stage[a] != LATE && age[a] >= (call[a] == SIGN || call[a] == RENEW -> PERIOD : PATIENCE)) || \
    overdue(a))

#define down(x, by) x = less(x, by)

inline pass(a) {
  down(present[a], 1); down(until[a], 1); down(believe[a], 1); down(window[a], 1); down(quietly[a], 1);
  calm[a] = (mode[a] < DEAD -> least(calm[a] + 1, LONGEST) : 0);
  /* It looks at the other's heartbeat, if it can. What it has seen gets older in any case. */
  observed[a] = (newer[a] && linked(a) -> 0 : observed[a]); newer[a] = (linked(a) -> 0 : newer[a]);
  observed[a] = (mode[a] < DEAD && (observed[a] > 0 || linked(a)) -> least(observed[a] + 1, presence_of(1 - a)) : 0);
  shown[a] = 0;
  age[a] = (call[a] == NONE || stage[a] == LATE && call[a] != SWEEP -> 0 : least(age[a] + 1, PATIENCE + 1));
  claimage[a] = (unread[a] || waiting(a, CLAIM) -> least(claimage[a] + 1, WINDOW) : 0);
  silence[a] = (lease[a] == STARTED -> least(silence[a] + 1, BEAT) : 0)
}

/* Who has read the store's clock, and be the reply on its way, will see that it has leapt. */
#define reads(a) (mode[a] < DEAD && (known[a] || call[a] == SIGN && stage[a] == ANSWERED))
inline jump() {
  leaps--;
  leapt[0] = reads(0); leapt[1] = reads(1);
  what[0] = (call[0] == SWEEP -> 1 : what[0]); what[1] = (call[1] == SWEEP -> 1 : what[1]);
}

inline leap(by) {
  jump();
  down(left, by); down(present[0], by); down(present[1], by);
  printf("the store's clock leaps ahead by %d\n", by)
}

/* Sessions that were last seen in the future count as absent until they are seen again. A lease that is over by the
 * clock may have ended long ago, or be open again. */
inline set_back(end) {
  jump();
  left = end; present[0] = 0; present[1] = 0;
  printf("the store's clock is set back; the lease ends in %d\n", left)
}

#if SWINGS
/* Two jumps that cancel out. An agent that reads the clock in between will see both, one that does not sees none. An
 * estimate of the time from before the first is right again after the second; one from in between is not. */
inline swing(way) {
  swings--; swung = way;
  leapt[0] = (leapt[0] == 0 && reads(0) -> 2 : leapt[0]); leapt[1] = (leapt[1] == 0 && reads(1) -> 2 : leapt[1]);
  what[0] = (call[0] == SWEEP && what[0] == 0 -> 2 : what[0]); what[1] = (call[1] == SWEEP && what[1] == 0 -> 2 : what[1]);
  printf("the store's clock jumps by %d\n", off)
}

inline resettle(a) {
  leapt[a] = (leapt[a] == 2 -> 0 : reads(a));
  what[a] = (call[a] == SWEEP -> what[a] != 2 : what[a]);
  present[a] = (between[a] -> (swung == SWUNG_AHEAD -> 0 : less(present[a], SWING_BACK)) : present[a]);
  between[a] = 0
}

inline swing_back() {
  resettle(0); resettle(1);
  swung = 0;
  printf("the store's clock jumps back; the lease ends in %d\n", left)
}
#endif

/* An agent's session begins (lease/keeper.go, Join). */
inline join(a, knowing) {
  mode[a] = UP; until[a] = presence_of(a); present[a] = presence_of(a); mark(a); unseen(1 - a); known[a] = knowing;
  calm[a] = LONGEST
}

/* What the dead agent had asked may still happen. What it had in memory is gone. */
inline die(a) {
  if
  :: call[a] != NONE && stage[a] == ASKED -> abandon(a)
  :: call[a] != NONE && stage[a] == ANSWERED -> no_call(a)
  :: else
  fi;
  seen = (child[a] == RUNS -> RUNS : NONE);
  close_lease(a); no_outcome(a);
  child[a] = seen; seen = 0;
  mode[a] = DEAD; cut[a] = 0; until[a] = 0; quietly[a] = 0; calm[a] = 0; leapt[a] = 0; known[a] = 0; shown[a] = 0;
  observed[a] = 0;
  unread[a] = 0; claimage[a] = 0; claimold[a] = 0
}

/* A process that says nothing is dead when heartbeat and stop are over; a request, if its agent is not frozen. */
#define is_caught(a) (child[a] != RUNS || silence[a] < BEAT || HTTP && !up(a))

proctype world() {
end: do
  :: d_step { live && !swung && !must(0) && !must(1) ->
       /* Agent 1, which nothing strikes, could have reaped what a dead session holds, and has not. */
       upheld(DeadComesBack, !(state == RUNNING && present[session] == 0 && !locked && linked(1) && present[1] > 0 &&
           !leapt[1] && maysweep(1) && calm[1] >= presence_of(session) && silent_long(1) && outcome[1] == NONE && !waiting(1, SWEEP)));
       upheld(HungIsCaught, is_caught(0) && is_caught(1));
       printf("a tick\n");
       down(left, 1); pass(0); pass(1);
       unreported() }

  :: d_step { live && leaps > 0 -> leap(WINDOW) } /* by more than any length here */
  :: d_step { live && leaps > 0 -> leap(2) }
  :: d_step { live && leaps > 0 && state == RUNNING -> set_back(left + WINDOW) }
#if SWINGS
  :: d_step { live && swings > 0 && !swung && SWING_AHEAD > 0 -> swing(SWUNG_AHEAD) }
  :: d_step { live && swings > 0 && !swung && SWING_BACK > 0 -> swing(SWUNG_BACK) }
  :: d_step { swung -> swing_back() }
#endif
  :: d_step { live && crashes > 0 && (mode[0] == UP || mode[0] == FROZEN) -> crashes--; printf("agent 0 is killed\n"); die(0) }
  :: d_step { live && freezes > 0 && mode[0] == UP -> freezes--; mode[0] = FROZEN; printf("agent 0 is frozen\n") }
  :: d_step { live && mode[0] == FROZEN -> mode[0] = UP; printf("agent 0 goes on\n") }
  :: d_step { live && cuts > 0 && mode[0] == UP && !cut[0] -> cuts--; cut[0] = 1; printf("agent 0 is cut off\n") }
  :: d_step { cut[0] -> cut[0] = 0; printf("agent 0 is connected again\n") }
  :: d_step { live && cancels > 0 -> cancels--; store_cancel() }
  :: d_step { live && mode[1] == UNBORN ->
       join(1, !without(join_reading));
       quietly[1] = BACK_IN;
       calm[1] = (without(join_quiet) -> LONGEST : 0);
       printf("agent 1 is started\n") }
  /* Sabotage: the store has crashed, and a claim that it had answered never was. */
  :: d_step { live && without(durable) && state == RUNNING && claim > 0 && attempt == 1 ->
       state = PENDING; fence--; attempt--; claim = 0; left = 0; printf("the store forgets the claim\n") }
  /* Nothing can happen any more, and the row has not ended. */
  :: atomic { timeout && live -> upheld(NothingStuck, false) }
  od
}
