//go:build linux && sabotage

package faults_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/fault"
	"github.com/leasehold/leasehold/test/faults"
	"github.com/leasehold/leasehold/test/faults/check"
	"github.com/leasehold/leasehold/test/faults/script"
	"github.com/leasehold/leasehold/test/harness"
)

// sabotage is a run in which a safeguard is missed.
type sabotage struct {
	off    fault.Safeguard
	run    faults.Options
	breaks []check.Name // one of these has to be broken
	sql    string       // that takes the safeguard away, where it is no switch of the agent; then off only names it
}

const (
	lasts  = 30 * time.Second
	agents = 3
)

func sabotages() []sabotage {
	random := func(kinds []string, names ...string) faults.Options {
		return faults.Options{Rate: 8, Kinds: kinds, Faults: faults.FaultsNamed(names...)}
	}
	both, twice := []string{"plain", "child"}, []check.Name{check.FencesRise, check.OneChildAtATime, check.OneRequestAtATime}
	return []sabotage{
		{fault.Fence, faults.Options{ // who settles claims the row again before it settles once more
			Agents: 1, Rate: 3, Kinds: []string{"steady"}, Script: []script.Deed{script.Fail, script.Fail, script.Work}, Workers: 24,
			Schedule: again("network forgets settlements", 800*time.Millisecond, 1),
		}, append(twice, check.NoStaleSettlement), ""},
		{fault.Session, faults.Options{ // all claim with the same numbers, and rows run for long
			Rate: 8, Kinds: []string{"steady", "steady", "child"}, Workers: 16, Schedule: again("network cuts replies", 400*time.Millisecond, agents),
			Env: []string{"LEASEHOLD_FAULT_TICK=100ms"},
		}, twice, ""},
		{fault.PingAge, faults.Options{ // no outage lasts as long as presence
			Rate: 3, Kinds: []string{"steady"}, Schedule: outages(5*time.Second, 2500*time.Millisecond), Slack: 500 * time.Millisecond,
		}, []check.Name{check.LeaseFollowsPing}, ""},
		{fault.SelfStop, faults.Options{ // requests are open for longer than presence
			Rate: 1, Kinds: []string{"patient"}, Schedule: outages(10*time.Second, 8*time.Second),
		}, []check.Name{check.OneRequestAtATime}, ""},
		{fault.Guardian, random([]string{"child"}, "agent killed", "agent frozen"), []check.Name{check.OneChildAtATime}, ""},
		{fault.ReadToEnd, random(both, "server refuses commits"), twice, ""},
		{fault.Repeat, random([]string{"plain"}, "network cuts replies"), []check.Name{check.LossIsTrue}, ""},
		{fault.Hear, faults.Options{ // nothing is broken, and the cancelled rows wait behind slow ones
			Agents: 2, Caught: true, Workers: 2, Lasts: 15 * time.Second,
		}, []check.Name{check.CancelHolds}, ""},
		{fault.OwnLine, faults.Options{ // each attempt fails at first, and repeats the line of the one before in its process
			Rate: 5, Kinds: []string{"serve"}, Script: []script.Deed{script.Echo, script.OK}, Lasts: 15 * time.Second,
		}, []check.Name{check.LineSettlesItsOwn, check.NoStaleSettlement}, ""},
		{fault.Shared, faults.Options{ // each row fails the first request that it is in
			Rate: 1, Kinds: []string{"bundle"}, Script: []script.Deed{script.Poison, script.OK}, Lasts: 10 * time.Second,
		}, []check.Name{check.OneFailureChargesNoOther}, ""},
		{"locks", faults.Options{ // each row starts, whichever other has its lock
			Rate: 8, Kinds: both, Lasts: 12 * time.Second,
		}, []check.Name{check.OneOfALockAtATime}, `
CREATE OR REPLACE FUNCTION leasehold.take_locks(ids bigint[], names text[], batches bigint[]) RETURNS bigint[]
    LANGUAGE sql AS 'SELECT ids'`},
		{"sequences", faults.Options{ // each row starts, whosever turn it is
			Rate: 8, Kinds: both, Lasts: 12 * time.Second,
		}, []check.Name{check.OneOfASequenceAtATime, check.SequenceInTurn}, `
CREATE OR REPLACE FUNCTION leasehold.take_turns(ids bigint[]) RETURNS bigint[]
    LANGUAGE sql AS 'SELECT ids'`},
		{"order of sequences", faults.Options{ // the last row comes next
			Rate: 4, Kinds: []string{"chained"}, Lasts: 12 * time.Second, Operators: 2,
		}, []check.Name{check.SequenceInOrder}, `
DO $$ BEGIN EXECUTE replace(pg_get_functiondef('leasehold.choose_heads'::regproc),
    'ORDER BY r.type, r.sequence, r.id LIMIT 1', 'ORDER BY r.type DESC, r.sequence DESC, r.id DESC LIMIT 1'); END $$`},
		{"failures block", faults.Options{ // nothing does
			Rate: 4, Kinds: []string{"chained"}, Lasts: 12 * time.Second, Operators: 2,
		}, []check.Name{check.FailureBlocks}, `
DO $$ BEGIN EXECUTE replace(pg_get_functiondef('leasehold.choose_heads'::regproc), 'coalesce(e.id < (', 'coalesce(true OR e.id < ('); END $$`},
		{"waits", faults.Options{ // each row starts, whatever it names
			Rate: 8, Kinds: both, Lasts: 12 * time.Second,
		}, []check.Name{check.StartsAfterAll}, `
CREATE OR REPLACE FUNCTION leasehold.begin_waiting(ids bigint[]) RETURNS void LANGUAGE sql AS ''`},
		{"decides", faults.Options{ // each row is cancelled once the others have ended
			Rate: 8, Kinds: both, Lasts: 12 * time.Second,
		}, []check.Name{check.CancelledForOne}, `
DO $$ BEGIN EXECUTE replace(replace(pg_get_functiondef('leasehold.decide_dependents'::regproc),
    's.state IS DISTINCT FROM ''succeeded'' AND n.after_if <> ''any''', 'true'), 'AND a.state <> ''succeeded'' LIMIT 1 FOR KEY',
    'LIMIT 1 FOR KEY'); END $$`},
		{"plan moves on", faults.Options{ // chunks are inserted, and the cursor stays, now and then
			Items: 10, Rate: 1, Lasts: 12 * time.Second,
		}, []check.Name{check.ChunkRangesDisjoint}, `
CREATE FUNCTION stay() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN IF random() < 0.2 AND NEW.sealed_at IS NULL THEN NEW.through_key := OLD.through_key; END IF; RETURN NEW; END $$;
CREATE TRIGGER stay BEFORE UPDATE ON leasehold.chunk_pass FOR EACH ROW EXECUTE FUNCTION stay()`},
		{"plan leaves out nothing", faults.Options{ // the cursor moves over rows for which no chunk is inserted
			Items: 10, Rate: 1, Lasts: 12 * time.Second,
		}, []check.Name{check.ChunkPassComplete}, `
CREATE FUNCTION leap() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN IF NEW.sealed_at IS NULL THEN NEW.through_key := (NEW.through_key::bigint + 50)::text; END IF; RETURN NEW; END $$;
CREATE TRIGGER leap BEFORE UPDATE ON leasehold.chunk_pass FOR EACH ROW EXECUTE FUNCTION leap()`},
		{"halves cover", faults.Options{ // a chunk that is split loses its last keys
			Items: 10, Rate: 1, Lasts: 12 * time.Second,
		}, []check.Name{check.ChunkHalvesCover}, `
CREATE FUNCTION short() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN IF NEW.part LIKE '%1' THEN NEW.through_key := (NEW.through_key::bigint - 1)::text; END IF; RETURN NEW; END $$;
CREATE TRIGGER short BEFORE INSERT ON leasehold.chunk_range FOR EACH ROW EXECUTE FUNCTION short()`},
		{"follow keeps the live row", faults.Options{ // it ends while a transaction that has enqueued a follower is open
			Rate: 1, Kinds: []string{"plain"}, Script: []script.Deed{script.Nap}, Followers: 16, Lasts: 15 * time.Second,
		}, []check.Name{check.FollowedRuns, check.FollowedInTurn}, `
DO $$ BEGIN EXECUTE replace(pg_get_functiondef('leasehold.enqueue_result'::regproc), 'FOR KEY SHARE', ''); END $$`},
		{"lapsed", faults.Options{ // once the server's clock jumps ahead, all leases look expired
			Holders: 3, Lasts: 12 * time.Second, Schedule: []faults.Planned{{Fault: "clock of the server", At: 6 * time.Second, Lasts: lasts, Seed: ahead}},
		}, []check.Name{check.OneHolderAtATime}, `
CREATE OR REPLACE FUNCTION leasehold.lease_lapsed(expires_at timestamptz, expiry_seen_at timestamptz) RETURNS boolean
    LANGUAGE sql AS 'SELECT expires_at <= clock_timestamp()'`},
		{"moved rows", faults.Options{ // half of the orphans that are moved get another type than was asked for
			Rate: 1, Kinds: both, Lasts: 10 * time.Second, Orphans: 8,
		}, []check.Name{check.OrphansWait}, `
DO $$ BEGIN EXECUTE replace(pg_get_functiondef('leasehold.move_rows'::regproc), 'SET type = move_rows.into_type, held',
    'SET type = CASE WHEN t.id % 2 = 0 THEN ''plain'' ELSE move_rows.into_type END, held'); END $$`},
		{"limit", faults.Options{ // each claim finds that there is room
			Rate: 8, Kinds: []string{"capped"}, Script: []script.Deed{script.Nap, script.OK}, Lasts: 10 * time.Second,
		}, []check.Name{check.LimitHolds}, `
CREATE OR REPLACE FUNCTION leasehold.limit_rooms(kinds text[])
    RETURNS TABLE (kind text, name text, rooms bigint, wait bigint) LANGUAGE sql AS $$
    SELECT set_config('leasehold.rooms', (SELECT jsonb_agg(jsonb_build_object('kind', k, 'name', k, 'rooms', 5)) FROM unnest(kinds) AS k)::text, true);
    SELECT k, k, 5::bigint, NULL::bigint FROM unnest(kinds) AS k
$$`},
		{"limit of tenants", faults.Options{ // each claim finds that each tenant has room
			Rate: 8, Kinds: []string{"shared"}, Script: []script.Deed{script.Nap, script.OK}, Lasts: 10 * time.Second,
		}, []check.Name{check.TenantLimitHolds}, `
CREATE OR REPLACE FUNCTION leasehold.tenant_rooms(kind text, tenants text[])
    RETURNS TABLE (rooms bigint, wait bigint) LANGUAGE sql AS $$
    SELECT set_config('leasehold.tenant_rooms', 'none', true);
    SELECT NULL::bigint, NULL::bigint WHERE false
$$`},
		{"hold-lease", faults.Options{ // holders write too late, now and then
			Holders: 3, Lasts: 12 * time.Second,
		}, []check.Name{check.LeaseEffectsGuarded}, `
CREATE OR REPLACE FUNCTION leasehold.hold_lease(name text, fence bigint) RETURNS void
    LANGUAGE sql AS 'SELECT FROM leasehold.lease AS l WHERE l.name = hold_lease.name FOR KEY SHARE'`},
	}
}

// ahead is the seed of a fault that sets the server's clock some seconds ahead.
const ahead = 7

// outages cuts the first agent off from the store, again and again.
func outages(every, long time.Duration) (all []faults.Planned) {
	for at := 2 * time.Second; at+long < lasts; at += every {
		all = append(all, faults.Planned{Fault: "network loses requests", At: at, Lasts: long})
	}
	return all
}

// again has each agent in turn lose answers, half of the time.
func again(name string, every time.Duration, agents int) (all []faults.Planned) {
	for at := 2 * time.Second; at < lasts; at += every {
		all = append(all, faults.Planned{Fault: name, At: at, Lasts: every / 2, Agent: len(all) % agents})
	}
	return all
}

// TestSabotage switches each safeguard off, one at a time: the run has to break what it keeps. With all of them on the
// same run is clean. LEASEHOLD_SEED has the runs made from another seed.
func TestSabotage(t *testing.T) {
	built, cluster := programs(t), harness.NewPooledCluster(t)
	seed := seedOr(t, 11)
	all := sabotages()
	for _, off := range fault.Safeguards() {
		require.True(t, slices.ContainsFunc(all, func(s sabotage) bool { return s.off == off }), off)
	}
	for _, s := range all {
		t.Run(string(s.off), func(t *testing.T) {
			o := s.run
			o.Seed, o.Lasts, o.Agents = seed, cmp.Or(o.Lasts, lasts), cmp.Or(o.Agents, agents)
			t.Run("on", func(t *testing.T) { inspect(t, faults.Run(t, built, cluster, o)) })
			t.Run("off", func(t *testing.T) {
				if o.SQL = s.sql; s.sql == "" {
					o.Env = append(slices.Clone(o.Env), "LEASEHOLD_FAULT_OFF="+string(s.off))
				}
				h := faults.Run(t, built, cluster, o)
				t.Log(summary(h))
				found := check.Check(h)
				for _, v := range found {
					if slices.Contains(s.breaks, v.Invariant) {
						t.Logf("missed, and noticed (%d breaches in all):\n%s", len(found), check.Trace(h, v))
						return
					}
				}
				t.Errorf("nothing of %v was broken without %s; what was: %v", s.breaks, s.off, found)
			})
		})
	}
}
