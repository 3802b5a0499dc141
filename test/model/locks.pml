/* A model of how agents pass on a lock of tasks, for Spin: see README.md. Rows share nothing but their lock, so there is one lock here.
 * A transaction takes several steps, whose statements each see what has committed by then; what it writes is seen when it commits, in
 * one step. It may fail at that moment, and all that it has locked is free again.
 *
 * Rules are those of internal/store/postgres/functions/locks.sql.
 */

/* Sabotage: each takes one rule away. README.md says what each is. */
#ifndef WITHOUT
#define WITHOUT W_NOTHING
#endif
#define W_NOTHING 0
#define W_later 1
#define W_kept 2
#define W_left 3
#define W_holder_lock 4
#define W_stay 5
#define W_stuck 6
#define W_candidate_note 7
#define W_taken 8
#define without(x) (WITHOUT == W_##x)

/* What is checked. ONLY: no other is looked at. */
#ifndef ONLY
#define ONLY 0
#endif
#define I_OneOfALockAtATime 1
#define I_NothingStuck      2
bit OneOfALockAtATime, NothingStuck;
#define upheld(I, fact) I = (ONLY != 0 && ONLY != I_##I || (fact)); assert(I); I = 0

#define ROWS 3
#ifndef CLAIMS
#define CLAIMS 2      /* agents that claim */
#endif
#ifndef PROMOTIONS
#define PROMOTIONS 2  /* and that promote */
#endif
#ifndef RETRIES
#define RETRIES 0     /* how many attempts are followed by another */
#endif
#ifndef FAILURES
#define FAILURES 0    /* how many transactions fail */
#endif

mtype = { UNBORN, CANDIDATE, HELD_BACK, RUNNING, ENDED };

/* Transactions, as what has locked a row: claims first, promotions after them, then an application's. */
#define NONE        0
#define CLAIM       1
#define PROMOTION   (CLAIM + CLAIMS)
#define APPLICATION (PROMOTION + PROMOTIONS)

mtype row[ROWS] = UNBORN; /* task */
byte keeper[ROWS];        /* what has locked the row */
bit working[ROWS];        /* something of the row may be at work */

byte holder;              /* lock_holder: the row that has the lock, from 1; 0: there is no such row */
byte holder_keeper;       /* what has locked that row, or has inserted one that nobody else sees yet */
bit holder_new;           /* it is inserted, and not committed */

#define NOTES 4
mtype = { FREE, DUE, LATER };
mtype note[NOTES] = FREE; /* lock_note; LATER: until lies ahead */
byte note_keeper[NOTES];
byte note_of[NOTES];      /* whose attempt may be at work until then */

byte retries = RETRIES, failures = FAILURES;

#define running(r) (row[r] == RUNNING)
#define any_later  (note[0] == LATER || note[1] == LATER || note[2] == LATER || note[3] == LATER)
#define is_free    (holder == 0 || (!running(holder - 1) && (!any_later || without(kept))))
#define busy_rows  (working[0] + working[1] + working[2])

/* A note, in a transaction of one step. There is room: at most one for each time that a row stops to run or to wait. */
inline leave(r, kind) {
  n = 0;
  do
  :: n < NOTES && note[n] != FREE -> n++
  :: else -> break
  od;
  assert(n < NOTES);
  note[n] = kind;
  if :: kind == LATER -> note_of[n] = r :: else fi;
  n = 0
}

#define can_leave (note[0] == FREE || note[1] == FREE || note[2] == FREE || note[3] == FREE)

inline release(me) {
  for (r : 0 .. ROWS - 1) {
    if :: keeper[r] == me -> keeper[r] = NONE :: else fi
  }
  for (n : 0 .. NOTES - 1) {
    if :: note_keeper[n] == me -> note_keeper[n] = NONE :: else fi
  }
  if
  :: holder_keeper == me -> holder_keeper = NONE; holder_new = 0
  :: else
  fi;
  r = 0; n = 0
}

/* claim_pick.sql and take_locks. */
proctype claim(byte me) {
  byte r, n, first;
  bit fresh, mine, free;
end:
  do
  :: atomic { /* the rows that are due, SKIP LOCKED: all of them, or those up to one */
       (row[0] == CANDIDATE && !keeper[0]) || (row[1] == CANDIDATE && !keeper[1]) || (row[2] == CANDIDATE && !keeper[2]) ->
       for (r : 0 .. ROWS - 1) {
         if
         :: row[r] == CANDIDATE && !keeper[r] ->
            keeper[r] = me;
            if :: break :: true fi
         :: else
         fi
       }
       r = 0
     }
     if
     :: without(later) -> atomic { free = is_free } /* what the claim's own snapshot says */
     :: else
     fi;
     atomic { /* INSERT … ON CONFLICT DO NOTHING waits for one that is being inserted */
       !holder_new ->
       if
       :: holder == 0 -> holder_keeper = me; holder_new = 1; fresh = 1
       :: else
       fi
     }
     if
     :: !fresh ->
        atomic { /* FOR UPDATE SKIP LOCKED */
          if
          :: holder != 0 && (holder_keeper == NONE) -> holder_keeper = me; mine = 1
          :: else
          fi
        }
        if
        :: !without(later) -> atomic { free = is_free } /* a statement after the lock */
        :: else
        fi
     :: else
     fi;
     atomic {
       if
       :: failures > 0 -> failures--
       :: true ->
          first = 1;
          for (r : 0 .. ROWS - 1) {
            if
            :: keeper[r] != me
            :: keeper[r] == me && first && (fresh || (mine && free)) ->
               first = 0;
               row[r] = RUNNING; working[r] = 1; holder = r + 1;
               printf("a claim: row %d runs\n", r);
               upheld(OneOfALockAtATime, busy_rows == 1)
            :: keeper[r] == me && !(first && (fresh || (mine && free))) && (fresh || mine || without(left)) ->
               row[r] = HELD_BACK;
               printf("a claim: row %d is held back\n", r)
            :: else
            fi
          }
       fi;
       release(me);
       first = 0; fresh = 0; mine = 0; free = 0
     }
  od
}

/* promote_locks. */
proctype promotion(byte me) {
  byte r, n, first;
  bit mine, stay, busy, stuck, wanted;
end:
  do
  :: atomic {
       (note[0] == DUE && !note_keeper[0]) || (note[1] == DUE && !note_keeper[1]) ||
       (note[2] == DUE && !note_keeper[2]) || (note[3] == DUE && !note_keeper[3]) ->
       first = ROWS;
       for (n : 0 .. NOTES - 1) {
         if :: note[n] == DUE && !note_keeper[n] -> note_keeper[n] = me :: else fi
       }
       n = 0
     }
     atomic {
       if
       :: holder != 0 && without(holder_lock) -> mine = 1
       :: holder != 0 && holder_keeper == NONE && !without(holder_lock) -> holder_keeper = me; mine = 1
       :: holder != 0 && holder_keeper != NONE && !without(holder_lock) -> stay = !without(stay)
       :: else
       fi
     }
     atomic { busy = mine && !is_free }
     atomic {
       if
       :: !stay && !busy ->
          for (r : 0 .. ROWS - 1) {
            if
            :: row[r] == HELD_BACK ->
               wanted = 1;
               if :: first == ROWS && !keeper[r] -> first = r; keeper[r] = me :: else fi
            :: else
            fi
          }
          stuck = wanted && first == ROWS && !without(stuck);
          r = 0
       :: else
       fi
     }
     atomic {
       if
       :: failures > 0 -> failures--
       :: true ->
          if
          :: first < ROWS -> row[first] = CANDIDATE; printf("a promotion: row %d\n", first)
          :: first < ROWS && mine -> /* for a claim (start_first) */
             row[first] = RUNNING; working[first] = 1;
             if :: !without(taken) -> holder = first + 1 :: else fi;
             printf("a promotion: row %d runs\n", first);
             upheld(OneOfALockAtATime, busy_rows == 1)
          :: else
          fi;
          if
          :: mine && !busy && !wanted -> holder = 0
          :: else
          fi;
          for (n : 0 .. NOTES - 1) {
            if :: note_keeper[n] == me && !stay && !stuck -> note[n] = FREE; note_of[n] = 0 :: else fi
          }
       fi;
       release(me);
       mine = 0; stay = 0; busy = 0; stuck = 0; wanted = 0; first = 0
     }
  od
}

/* Rows come, and those that run are settled (settle.sql): a transaction of one step, which waits for nothing. */
proctype world() {
  byte r, n;
end:
  do
  :: atomic { row[0] == UNBORN -> row[0] = CANDIDATE }
  :: atomic { row[1] == UNBORN -> row[1] = CANDIDATE }
  :: atomic { row[2] == UNBORN -> row[2] = CANDIDATE }
  :: atomic {
       can_leave && (running(0) || running(1) || running(2)) ->
       if
       :: running(0) -> r = 0
       :: running(1) -> r = 1
       :: running(2) -> r = 2
       fi;
       if
       :: row[r] = ENDED; working[r] = 0; leave(r, DUE); printf("row %d ends\n", r)
       :: retries > 0 -> retries--; row[r] = CANDIDATE; working[r] = 0; leave(r, DUE); printf("row %d is to be retried\n", r)
       :: row[r] = ENDED; leave(r, LATER); printf("row %d ends, and may be at work\n", r)
       fi;
       r = 0; n = 0
     }
  :: atomic { /* its lease ends */
       any_later ->
       do :: note[n] != LATER -> n++ :: else -> break od;
       note[n] = DUE; working[note_of[n]] = 0; note_of[n] = 0; n = 0
     }
  od
}

/* An application's transaction locks a row that waits, and cancels it, or not. */
proctype application() {
  byte r, n;
  atomic {
    if
    :: (row[0] == CANDIDATE || row[0] == HELD_BACK) && !keeper[0] -> r = 0
    :: (row[1] == CANDIDATE || row[1] == HELD_BACK) && !keeper[1] -> r = 1
    :: (row[0] == ENDED && row[1] == ENDED) -> goto over
    fi;
    keeper[r] = APPLICATION
  }
  atomic {
    can_leave;
    if
    :: true
    :: true ->
       if
       :: row[r] == CANDIDATE && !without(candidate_note) -> leave(r, DUE)
       :: else
       fi;
       row[r] = ENDED;
       printf("row %d is cancelled\n", r)
    fi;
    keeper[r] = NONE; r = 0
  }
over: skip
}

/* When nothing can happen any more, every row has ended. */
proctype last() {
  timeout -> upheld(NothingStuck, row[0] == ENDED && row[1] == ENDED && row[2] == ENDED)
}

init {
  atomic {
    byte i;
    for (i : 1 .. CLAIMS) { run claim(CLAIM + i - 1) }
    for (i : 1 .. PROMOTIONS) { run promotion(PROMOTION + i - 1) }
    run world();
    run application();
    run last()
  }
}
