/* What the store keeps, what agents keep in memory, what is on its way, and what is checked.
 *
 * Time is counted in ticks. No moment is kept: all that ends is kept as the ticks that are left of it, which the clock
 * (world.pml) takes down together. So there is no bound on how long a run of the model is. Agents measure with clocks
 * that go as fast as the store's, and go on while an agent is frozen; only the store's can leap.
 *
 * There is one row: rows share nothing but the session that holds them, and what a statement does to one it does to
 * each. There are two agents, 0 and 1, with one slot each. They are alike, so what strikes an agent strikes 0. One that
 * is started again is another agent, with another session.
 */

/* Lengths in ticks. */
#ifndef PRESENCE
#define PRESENCE  3                         /* a session that is silent for so long is absent */
#endif
#ifndef PRESENCE_0
#define PRESENCE_0 PRESENCE                 /* that of agent 0, which may be longer than that of agent 1 */
#endif
#define presence_of(a) (a == 0 -> PRESENCE_0 : PRESENCE)
#ifndef HEARTBEAT
#define HEARTBEAT 1                         /* the longest silence of a task */
#endif
#define STOP      2                         /* from the start of stopping to the lease's end */
#define MARGIN    (without(margin) -> 0 : 1) /* lease.KillMargin: all is dead so long before the lease's end */
#define BEAT      (HEARTBEAT + STOP)        /* of a renewal, from its ping */
#define WINDOW    (1 + BEAT)                /* task.Policy.Window: of a claim; 1 is task.StartWait */
#define AHEAD     1                         /* lease.Keeper.stopAhead: stopping for want of the store; it takes no tick here */
#define BACK_IN   1                         /* lease.SettleIn: a session that is back reaps no row */
#define REAP_FOR  2                         /* poll.reapFor */
#define PERIOD    1                         /* lease.Period: how long heartbeats and renewals are waited for */
#define PATIENCE  2                         /* poll.callTimeout: how long all else is waited for */
#define LIMIT     2                         /* attempts that count */

/* What may strike, how often. The configurations give them (-D). */
#ifndef CRASHES
#define CRASHES 0  /* agent 0 is killed */
#endif
#ifndef FREEZES
#define FREEZES 0  /* agent 0 is stopped, for however long (SIGSTOP, SIGCONT) */
#endif
#ifndef CUTS
#define CUTS 0     /* agent 0 and the store cannot reach each other, for however long */
#endif
#ifndef SLOWS
#define SLOWS 0    /* calls, of either agent, that take time: what they ask may be done late, or never, and so may the reply */
#endif
#ifndef LEAPS
#define LEAPS 0    /* the store's clock leaps ahead, or is set back */
#endif
#ifndef SWINGS
#define SWINGS 0   /* the store's clock jumps, and jumps back by as much before the tick is over */
#endif
#ifndef SWING_AHEAD
#define SWING_AHEAD 2 /* by so much, if it is ahead first; 0: never */
#endif
#ifndef SWING_BACK
#define SWING_BACK 2 /* by so much, if it is set back first; 0: never */
#endif
#ifndef CANCELS
#define CANCELS 0  /* the task is cancelled */
#endif
#ifndef EFFECTS
#define EFFECTS 0  /* 1: the task makes transactions, with hold and perhaps complete */
#endif
#ifndef JOINS
#define JOINS 0    /* 1: agent 1 is started at any time; else both have been there for long */
#endif
#ifndef HTTP
#define HTTP 0     /* 1: attempts are requests, which the agent alone can close, and the kernel when it is dead */
#endif

/* Sabotage: each takes one rule away, and ALSO=W_short that one besides. README.md says what each is. */
#ifndef WITHOUT
#define WITHOUT W_NOTHING
#endif
#define W_NOTHING 0
#define W_fence 1
#define W_session 2
#define W_ping_age 3
#define W_self_stop 4
#define W_guardian 5
#define W_read_to_end 6
#define W_repeat 7
#define W_presence 8
#define W_reaped_again 9
#define W_durable 10
#define W_cancel_seen 11
#define W_mark_only 12
#define W_hold_lock 13
#define W_belief 14
#define W_quiet 15
#define W_join_quiet 16
#define W_join_reading 17
#define W_anew 18
#define W_anew_first 19
#define W_raise_only 20
#define W_overtaken 21
#define W_announced 22
#define W_one_step 23
#define W_refusal 24
#define W_session_match 25
#define W_longest 26
#define W_from_sent 27
#define W_margin 28
#define W_observed 29
#define W_compare 30
#define W_short 31
#ifndef ALSO
#define ALSO W_NOTHING
#endif
#define without(x) (WITHOUT == W_##x)

/* The row (table task, and task_archive once it has ended). */
#define PENDING   0
#define RUNNING   1
#define SUCCEEDED 2
#define FAILED    3
#define CANCELLED 4
byte state = PENDING;
byte fence;         /* rises on every claim and release */
byte session;       /* who has it, or had it last */
byte claim;         /* 0: it is reaped. 1: taken by a claim that its agent waits for, or will read back. 2: by one that
                       was given up and read back before it came */
byte left;          /* until lease_until, by the store's clock */
byte attempt;       /* attempts that count */
bit  asked;         /* cancel_requested_at */
short history[2];   /* table attempt: bit f of [a] is set where a's hold with fence f was settled */
byte present[2];    /* table agent: until present_until, by the store's clock; 0: absent */
#define over (state >= SUCCEEDED)
#define live (!over)

/* An agent, and the guardian beside it, which knows until and window as its agent does. */
#define UP     0
#define FROZEN 1
#define DEAD   2
#define UNBORN 3
byte mode[2];
bit  cut[2];
byte until[2];   /* until presence runs out, as far as the agent believes */
byte believe[2]; /* that it will believe once its lease is written anew */
byte quietly[2]; /* until it may reap */
byte calm[2];    /* since the store's clock has jumped, as far as it knows; no more than the longest presence */
#define LONGEST most(PRESENCE, PRESENCE_0)
bit  known[2];   /* it has read the store's clock */
byte leapt[2];   /* 1: that has leapt since. 2: it has, but will jump back (SWINGS) */
byte observed[2]; /* for how long it has seen the other's last heartbeat, no more than the other's presence; 0: it has not
                    seen that one. It looks at the end of each tick in which it can */
bit  newer[2];   /* it has not seen the last one, and goes on from the one before: only without compare */
bit  adrift[2];  /* its lease is to be written anew */
bit  shown[2];  /* it has sent a heartbeat in this tick */
#define up(a)     (mode[a] == UP)
#define linked(a) (up(a) && !cut[a])

/* Its lease and the attempt. */
#define NONE    0
#define QUEUED  1 /* claimed, not started */
#define LOOKED  2 /* only without one_step */
#define STARTED 3
byte lease[2];
byte held[2];     /* the fence */
byte window[2];   /* until it ends, as far as the store has confirmed it */
byte silence[2];  /* since the last ping */
bit  renew[2];    /* a ping is to be written */
bit  knows[2];    /* that cancellation was requested */
byte cause[2];    /* why it is being stopped */
#define STALL  1
#define DRAIN  2
#define LOST   3
#define CANCEL 4
/* Its process. */
#define RUNS  1
#define ENDED 2   /* and the agent has not looked yet */
byte child[2];
bit  unannounced[2]; /* the guardian does not know its window: only without announced */
byte result[2];   /* how it ended */
#define KILLED 0
#define WELL   1
#define BADLY  2

/* A call that takes time; all others are carried out and answered in one step. An agent has one at a time. */
#define SIGN   1
#define CLAIM  2
#define RENEW  3
#define SETTLE 4
#define SWEEP  5
byte call[2];
byte stage[2];
#define ASKED    0
#define ANSWERED 1
#define LATE     2 /* its agent waits for it no longer */
byte age[2];       /* since it was sent */
byte ofence[2];    /* what it is about */
byte what[2];      /* RENEW: age of the ping, or what is left of the lease. SETTLE: the outcome.
                      SWEEP: its belief of the time is wrong, as leapt. SIGN: what is left of the lease */
byte flags[2];     /* SIGN: presence had run out. RENEW: what is left. SETTLE: 1 knew of the cancellation, 2 silent.
                      SWEEP: calm */
byte reply[2];     /* SIGN, CLAIM, SWEEP: a fence. RENEW: lost. SETTLE: the answer.
                      SWEEP, until it is answered: the other's silence was observed, and lasts */
byte more[2];      /* SIGN: 1 taken by a claim given up, 2 cancellation asked, 4 after a leap, 8 between two jumps.
                      SWEEP: the same 2 */
bit  unread[2];    /* a claim's reply never came: it is to be read back */
byte claimage[2];  /* since the claim was sent that is on its way or unread */
bit  claimold[2];  /* a leap was noticed since */
#define waiting(a, k) (call[a] == k && stage[a] != LATE)
#define slowly(a)     (slows > 0 && call[a] == NONE)

/* A settlement that is not confirmed: what is to become of the row. */
#define DO_SUCCEED 1
#define DO_RETRY   2
#define DO_BACK    3 /* released: the attempt does not count */
#define DO_FAIL    4
#define DO_CANCEL  5
byte outcome[2];
byte outfence[2];
bit  outknows[2];  /* the agent that decided knew of the cancellation */
bit  outsilent[2]; /* nothing was tried: no history */
#define A_LOST    0
#define A_APPLIED 1
#define A_ENDED   2
#define A_UNAWARE 3

/* The task's transaction: open, or its commit is on its way; with the fence, and whether complete is in it. */
#if EFFECTS
#define OPEN       1
#define COMMITTING 2
byte txn[2];
byte txnfence[2];
bit  completes[2];
byte effects;      /* that were committed with complete */
#define intxn(a) (txn[a] != NONE)
#define locked ((intxn(0) || intxn(1)) && !without(hold_lock))
#else
#define intxn(a) false
#define locked   false
#endif

/* The store's clock between two jumps that cancel out. There left is still what it is when the clock is back: what is
 * written in between is put down as that, so nothing is lost that would be over in between. */
#if SWINGS
#define SWUNG_AHEAD 1
#define SWUNG_BACK  2
byte swung;
bit  between[2];   /* the session's last heartbeat was written in between */
byte swings = SWINGS;
#define off (swung == SWUNG_AHEAD -> SWING_AHEAD : (swung == SWUNG_BACK -> -SWING_BACK : 0))
#else
#define swung 0
#define off   0
#endif
#define from_now(x) most(0, (x) + off) /* an end that is written, put down as that */

/* What may still strike. */
byte crashes = CRASHES, freezes = FREEZES, cuts = CUTS, slows = SLOWS, leaps = LEAPS, cancels = CANCELS;

/* What is checked. Each is a variable so that the checker says its name; those that the fault suite (test/faults/check)
 * looks for are called as they are there. With ONLY nothing else is checked. */
bit FencesRise, NoStaleSettlement, LossIsTrue, AttemptsWithinLimit, CancelledStays, LeaseFollowsPing, HungIsCaught,
    DeadComesBack, OneChildAtATime, OneRequestAtATime, GuardedEffectOnce, NothingStuck;
#define I_FencesRise 1
#define I_NoStaleSettlement 2
#define I_LossIsTrue 3
#define I_AttemptsWithinLimit 4
#define I_CancelledStays 5
#define I_LeaseFollowsPing 6
#define I_HungIsCaught 7
#define I_DeadComesBack 8
#define I_OneChildAtATime 9
#define I_OneRequestAtATime 10
#define I_GuardedEffectOnce 11
#define I_NothingStuck 12
#define I_CommittedEnds 13
#ifndef ONLY
#define ONLY 0
#endif
#define upheld(I, fact) I = (ONLY != 0 && ONLY != I_##I || (fact)); assert(I); I = 0
byte given;    /* the highest fence that was ever given out */
short took[2]; /* bit f of [a]: an outcome of a's hold with fence f took effect */
bit  called;   /* a cancellation has committed */
#ifdef LIVENESS
bit  fresh;    /* the task has reported progress in this tick, or is in a transaction */
#define reported()   fresh = 1
#define unreported() fresh = (intxn(0) || intxn(1))
#else
#define reported()   skip
#define unreported() skip
#endif

/* Between the lines of one step; 0 else. */
byte got;
byte said;
byte seen;

#define least(x, y) ((x) < (y) -> (x) : (y))
#define most(x, y)  ((x) > (y) -> (x) : (y))
#define less(x, y)  ((x) > (y) -> (x) - (y) : 0)
#define bitof(set, f) (((set) >> (f)) & 1)
