/* What an agent does, each line of it one step. An agent may be frozen, killed or cut off between any two. */

/* Fit (lease/keeper.go): it claims nothing and starts nothing when presence is about to run out; rule 4. */
#define fit(a) (until[a] > AHEAD)

/* Late (lease/lease.go): too much of the window has passed. What is late is released; rule 2. */
#define starts(a) (cause[a] == 0 && fit(a) && window[a] >= BEAT)

/* MaySweep (lease/keeper.go): it has been there for a while, and the clock has not leapt lately; rule 5. */
#define maysweep(a) (quietly[a] == 0 && until[a] > 0 && known[a])

#define idle(a)      (lease[a] == NONE && child[a] == NONE)
#define mayclaim(a)  (idle(a) && state == PENDING && fit(a) && !unread[a] && !waiting(a, CLAIM))
#define maysettle(a) (outcome[a] != NONE && !waiting(a, SETTLE) && !locked)
#define mayreap(a)   (maysweep(a) && outcome[a] == NONE && !waiting(a, SWEEP))
#define mayrenew(a)  (lease[a] != NONE && renew[a] && !waiting(a, RENEW))
#define mayanchor(a) (adrift[a] && believe[a] > 0 && !waiting(a, RENEW) && !without(anew))

/* Agents count from before a question was sent; rule 5. */
#define since(ago) (without(from_sent) -> 0 : ago)

inline open_lease(a, f) {
  lease[a] = QUEUED; held[a] = f; silence[a] = 0; knows[a] = 0;
  cause[a] = (claimold[a] && !without(overtaken) -> DRAIN : 0);
  window[a] = less(WINDOW, since(claimage[a])); /* from before the claim was sent; rule 2 */
  claimage[a] = 0; claimold[a] = 0; unread[a] = 0
}

inline close_lease(a) {
  lease[a] = NONE; held[a] = 0; window[a] = 0; silence[a] = 0; renew[a] = 0; knows[a] = 0; cause[a] = 0;
  child[a] = NONE; result[a] = KILLED; unannounced[a] = 0; adrift[a] = 0; believe[a] = 0
}

inline no_call(a) {
  call[a] = NONE; stage[a] = ASKED; age[a] = 0; ofence[a] = 0; what[a] = 0; flags[a] = 0; reply[a] = 0; more[a] = 0
}

/* It is waited for no longer: only what the store would still do counts. */
inline abandon(a) {
  stage[a] = LATE;
  age[a] = (call[a] == SWEEP -> age[a] : 0);
  ofence[a] = (call[a] == SIGN -> 0 : ofence[a]);
  flags[a] = (call[a] == SIGN -> 0 : flags[a])
}

inline no_outcome(a) { outcome[a] = NONE; outfence[a] = 0; outknows[a] = 0; outsilent[a] = 0 }

inline hand_in(a, k, f, knew, silent) {
  outcome[a] = k; outfence[a] = f; outknows[a] = knew; outsilent[a] = silent
}

/* Decide (task/decide.go) for what counts: it is retried, unless a cancellation is known of or attempts are spent. */
#define counted(knew) ((knew) -> DO_CANCEL : (attempt >= LIMIT -> DO_FAIL : DO_RETRY))

/* The only start of an attempt there is. Two of one row must not be alive. */
inline fork(a) {
  upheld(OneChildAtATime, HTTP || child[0] != RUNS && child[1] != RUNS);
  upheld(OneRequestAtATime, !HTTP || child[0] != RUNS && child[1] != RUNS);
  lease[a] = STARTED; child[a] = RUNS; silence[a] = 0;
  printf("agent %d starts fence %d\n", a, held[a])
}

/* The reply to a heartbeat that was sent so many ticks ago (lease/presence.go, present and compare): what the store
 * knows, got, said and seen, against what the agent believes. then: the fence that it held then. Rules 3 and 5. */
inline hear(a, ago, then, back) {
  if
  :: back -> quietly[a] = most(quietly[a], BACK_IN)
  :: else
  fi;
  known[a] = 1;
  if
  :: said & 4 ->
     printf("agent %d notices that the clock has leapt\n", a);
     leapt[a] = ((said & 8) && !swung); adrift[a] = (lease[a] != NONE);
     if
     :: without(quiet) -> skip
     :: else -> quietly[a] = presence_of(a); calm[a] = 0
     fi;
     claimold[a] = (unread[a] || waiting(a, CLAIM))
  :: else
  fi;
  if /* by the store's clock less is left of its lease than it believes */
  :: lease[a] != NONE && held[a] == got && less(seen, ago) < window[a] && !adrift[a] && !without(short) &&
       ALSO != W_short ->
     printf("agent %d finds the lease of fence %d too short: %d of %d\n", a, got, less(seen, ago), window[a]);
     adrift[a] = 1
  :: else
  fi;
  if
  :: adrift[a] && !without(anew_first) && !without(anew) -> believe[a] = most(believe[a], less(presence_of(a), ago))
  :: else -> until[a] = most(until[a], less(presence_of(a), ago))
  fi;
  if
  :: adrift[a] && without(anew_first) -> believe[a] = most(believe[a], 1)
  :: else
  fi;
  if
  :: lease[a] != NONE && held[a] == then && got != then && child[a] == NONE -> close_lease(a) /* taken away */
  :: lease[a] != NONE && held[a] == then && got != then && child[a] != NONE -> cause[a] = LOST
  :: lease[a] != NONE && held[a] == got && (said & 2) -> /* it is to be cancelled */
     knows[a] = 1; cause[a] = (cause[a] == 0 -> CANCEL : cause[a])
  :: lease[a] == NONE && got != 0 && (said & 1) && outcome[a] == NONE -> /* an unleased row: its claim came late */
     hand_in(a, DO_BACK, got, 0, 1)
  :: else
  fi
}

/* The answer to a renewal, got: of a ping so many ticks old, or of what is left. */
inline renewed(a, old, anchored) {
  if
  :: anchored ->
     adrift[a] = 0;
     until[a] = most(until[a], believe[a]); believe[a] = 0
  :: else ->
     if
     :: got -> cause[a] = LOST
     :: else -> window[a] = most(window[a], less(BEAT, old))
     fi
  fi
}

/* What no agent can ask for any more makes no difference. */
#define of_interest(a) ((1 << held[a]) | (1 << outfence[a]) | (call[a] == SETTLE -> 1 << ofence[a] : 0))
inline forget(a) { history[a] = history[a] & of_interest(a); took[a] = took[a] & of_interest(a) }

inline settled(a) {
  if
  :: said == A_UNAWARE -> outcome[a] = DO_CANCEL; outknows[a] = 1
  :: else -> no_outcome(a)
  fi;
  forget(a); said = 0
}

proctype agent(byte a) {
end: do
  /* A heartbeat, each quarter of presence (lease/presence.go, Run). */
  :: d_step { live && linked(a) && !shown[a] && !waiting(a, SIGN) ->
       shown[a] = 1;
       printf("agent %d sends a heartbeat\n", a);
       store_present(a);
       hear(a, 0, held[a], until[a] == 0);
       got = 0; said = 0; seen = 0 }
  :: d_step { live && linked(a) && !shown[a] && slowly(a) ->
       shown[a] = 1; slows--;
       call[a] = SIGN; ofence[a] = held[a]; flags[a] = (until[a] == 0);
       printf("agent %d sends a heartbeat, slowly\n", a) }
  :: d_step { live && call[a] == SIGN && stage[a] != ANSWERED ->
       store_present(a);
       printf("the slow heartbeat of agent %d arrives\n", a);
       if
       :: stage[a] == LATE -> no_call(a)
       :: else -> reply[a] = got; more[a] = said; what[a] = seen; stage[a] = ANSWERED
       fi;
       got = 0; said = 0; seen = 0 }
  :: d_step { live && linked(a) && call[a] == SIGN && stage[a] == ANSWERED ->
       printf("agent %d reads the reply to its heartbeat\n", a);
       got = reply[a]; said = more[a]; seen = what[a];
       hear(a, since(age[a]), ofence[a], flags[a]);
       no_call(a); got = 0; said = 0; seen = 0 }

  /* A claim (poll/poll.go, claim), of which an agent has one at a time. */
  :: d_step { live && linked(a) && mayclaim(a) -> store_claim(a, 1); open_lease(a, got); got = 0 }
  :: d_step { live && linked(a) && mayclaim(a) && slowly(a) ->
       slows--; call[a] = CLAIM; printf("agent %d sends a claim, slowly\n", a) }
  :: d_step { live && call[a] == CLAIM && stage[a] != ANSWERED ->
       store_claim(a, (stage[a] == LATE && !unread[a] -> 2 : 1));
       if
       :: stage[a] == LATE -> no_call(a)
       :: else -> reply[a] = got; stage[a] = ANSWERED
       fi;
       got = 0 }
  :: d_step { live && linked(a) && call[a] == CLAIM && stage[a] == ANSWERED ->
       if
       :: reply[a] != 0 -> open_lease(a, reply[a]); printf("agent %d reads the reply to its claim\n", a)
       :: else -> claimage[a] = 0; claimold[a] = 0
       fi;
       no_call(a) }
  /* Its reply never came: it is read back (poll/poll.go, readBack; claim.go, queries/claimed.sql). Rule 10. */
  :: d_step { live && linked(a) && unread[a] ->
       if
       :: state == RUNNING && claim == 1 && (session == a || without(session)) ->
          open_lease(a, fence); printf("agent %d reads its claim back\n", a)
       :: else -> claimage[a] = 0; claimold[a] = 0; unread[a] = 0
       fi }
  /* Sabotage: rows are handed out as they are read; then the claim's commit fails. */
  :: d_step { live && without(read_to_end) && linked(a) && mayclaim(a) && slows > 0 ->
       slows--; open_lease(a, fence + 1); printf("agent %d reads a row of a claim whose commit fails\n", a) }

  /* The attempt begins (poll/attempt.go, attempt), or is released. */
  :: d_step { live && up(a) && lease[a] == QUEUED && starts(a) && !without(one_step) ->
       fork(a); unannounced[a] = without(announced) }
  :: d_step { live && without(one_step) && up(a) && lease[a] == QUEUED && starts(a) -> lease[a] = LOOKED }
  :: d_step { live && without(one_step) && up(a) && lease[a] == LOOKED -> fork(a) }
  :: d_step { live && without(announced) && up(a) && unannounced[a] -> unannounced[a] = 0 }
  :: d_step { live && up(a) && lease[a] == QUEUED && !starts(a) && outcome[a] == NONE ->
       hand_in(a, (knows[a] -> DO_CANCEL : DO_BACK), held[a], knows[a], 1);
       printf("agent %d gives fence %d back\n", a, held[a]);
       close_lease(a) }

  /* It is stopped: no progress (lease/alarm.go), or the store is out of reach (lease/presence.go, stopUnreachable). */
  :: d_step { live && up(a) && child[a] == RUNS && cause[a] == 0 && silence[a] >= HEARTBEAT ->
       cause[a] = STALL; printf("agent %d: no progress\n", a) }
  :: d_step { live && up(a) && child[a] == RUNS && cause[a] == 0 && !fit(a) && !without(self_stop) ->
       cause[a] = DRAIN; printf("agent %d: the store is out of reach\n", a) }
  :: d_step { live && up(a) && child[a] == RUNS && cause[a] != 0 ->
       child[a] = ENDED; result[a] = KILLED; printf("agent %d stops its attempt\n", a) }

  /* It is over (poll/attempt.go, finish): what comes of it is handed in, unless another has the row. */
  :: d_step { live && up(a) && child[a] == ENDED && (outcome[a] == NONE || cause[a] == LOST) ->
       if
       :: cause[a] == LOST -> skip
       :: cause[a] != LOST && result[a] == WELL -> hand_in(a, DO_SUCCEED, held[a], knows[a], 0)
       :: cause[a] == CANCEL && result[a] != WELL -> hand_in(a, DO_CANCEL, held[a], 1, 0)
       :: cause[a] == STALL && result[a] != WELL || cause[a] == 0 && result[a] == BADLY ->
          hand_in(a, counted(knows[a]), held[a], knows[a], 0)
       :: cause[a] == DRAIN && result[a] != WELL || cause[a] == 0 && result[a] == KILLED ->
          hand_in(a, (knows[a] -> DO_CANCEL : DO_BACK), held[a], knows[a], 0)
       fi;
       close_lease(a) }

  /* A renewal: of a ping (lease/write.go), or of what is left after a leap (lease/jump.go, reanchor). */
  :: d_step { live && linked(a) && mayrenew(a) ->
       renew[a] = 0;
       store_renew(a, held[a], silence[a]);
       renewed(a, silence[a], 0);
       got = 0; seen = 0 }
  :: d_step { live && linked(a) && mayrenew(a) && slowly(a) ->
       renew[a] = 0; slows--;
       call[a] = RENEW; ofence[a] = held[a]; what[a] = silence[a];
       printf("agent %d sends a renewal of fence %d, slowly\n", a, held[a]) }
  :: d_step { live && linked(a) && mayanchor(a) ->
       store_anchor(a, held[a], window[a]);
       printf("agent %d writes the lease of fence %d anew\n", a, held[a]);
       renewed(a, 0, 1);
       got = 0 }
  :: d_step { live && linked(a) && mayanchor(a) && slowly(a) ->
       slows--;
       call[a] = RENEW; ofence[a] = held[a]; what[a] = window[a]; flags[a] = 1;
       printf("agent %d writes the lease of fence %d anew, slowly\n", a, held[a]) }
  :: d_step { live && call[a] == RENEW && stage[a] != ANSWERED ->
       if
       :: flags[a] -> store_anchor(a, ofence[a], what[a])
       :: else -> store_renew(a, ofence[a], what[a])
       fi;
       if
       :: stage[a] == LATE -> no_call(a)
       :: else -> reply[a] = got; stage[a] = ANSWERED
       fi;
       got = 0; seen = 0 }
  :: d_step { live && linked(a) && call[a] == RENEW && stage[a] == ANSWERED ->
       got = reply[a];
       if
       :: lease[a] != NONE && held[a] == ofence[a] -> renewed(a, what[a] + since(age[a]), flags[a])
       :: else
       fi;
       no_call(a); got = 0 }

  /* A settlement (poll/settle.go), until there is an answer. Rule 10. */
  :: d_step { linked(a) && maysettle(a) ->
       store_settle(a, outfence[a], outcome[a], outknows[a], outsilent[a]);
       settled(a) }
  :: d_step { linked(a) && maysettle(a) && slowly(a) ->
       slows--;
       call[a] = SETTLE; ofence[a] = outfence[a]; what[a] = outcome[a]; flags[a] = outknows[a] + 2 * outsilent[a];
       printf("agent %d sends the settlement of fence %d, slowly\n", a, outfence[a]) }
  :: d_step { call[a] == SETTLE && stage[a] != ANSWERED && !locked ->
       store_settle(a, ofence[a], what[a], (flags[a] & 1), (flags[a] & 2));
       if
       :: stage[a] == LATE -> no_call(a); forget(a)
       :: else -> reply[a] = said; stage[a] = ANSWERED
       fi;
       said = 0 }
  :: d_step { linked(a) && call[a] == SETTLE && stage[a] == ANSWERED -> said = reply[a]; no_call(a); settled(a) }

  /* A sweep (poll/sweep.go), and the verdict: lost, which counts. */
  :: d_step { live && linked(a) && mayreap(a) && sweepable(a, leapt[a], calm[a], silent_long(a)) ->
       store_sweep(a);
       hand_in(a, counted(asked), fence, asked, 0) }
  :: d_step { live && linked(a) && mayreap(a) && state == RUNNING && slowly(a) ->
       slows--;
       call[a] = SWEEP; what[a] = leapt[a]; flags[a] = calm[a]; reply[a] = silent_long(a);
       printf("agent %d sends a sweep, slowly\n", a) }
  :: d_step { live && call[a] == SWEEP && stage[a] != ANSWERED && sweepable(a, what[a] || age[a] > PERIOD, flags[a], reply[a]) ->
       store_sweep(a);
       if
       :: stage[a] == LATE -> no_call(a)
       :: else -> reply[a] = fence; more[a] = asked; stage[a] = ANSWERED
       fi }
  :: d_step { live && linked(a) && call[a] == SWEEP && stage[a] == ANSWERED && outcome[a] == NONE ->
       hand_in(a, counted(more[a]), reply[a], more[a], 0);
       no_call(a) }

  /* A call is waited for no longer, whether or not it was carried out; or what was late never comes. */
  :: d_step { live && up(a) && call[a] != NONE && stage[a] != LATE ->
       if
       :: call[a] == CLAIM -> unread[a] = 1
       :: call[a] == RENEW && !flags[a] && lease[a] != NONE && held[a] == ofence[a] -> renew[a] = 1
       :: else
       fi;
       if
       :: stage[a] == ASKED -> abandon(a)
       :: else -> no_call(a)
       fi;
       printf("agent %d waits for its call no longer\n", a) }
  :: d_step { stage[a] == LATE -> no_call(a); forget(a) }
  od
}
