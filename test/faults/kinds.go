//go:build linux

package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/test/faults/history"
)

// AllFaults lists what the nemesis can do. The first word of a name says whom it concerns.
func AllFaults() []Fault {
	return []Fault{
		{Name: "agent killed", Agent: true, Lasts: 3 * time.Second, do: kill},
		{Name: "agent killed at a point", Agent: true, Lasts: 4 * time.Second, do: killAtPoint},
		{Name: "agent killed in a rollback", Agent: true, Lasts: 2 * time.Second, do: killInRollback},
		{Name: "agent killed at a batch", Agent: true, Lasts: 4 * time.Second, do: killAtBatch},
		{Name: "agent frozen", Agent: true, Lasts: 2*Presence + Stop, do: freeze},
		{Name: "agent drained", Agent: true, Lasts: 2 * time.Second, do: drain},
		{Name: "agent disk full", Agent: true, Lasts: 4 * time.Second, do: fillDisk},
		{Name: "agent clock wrong", Agent: true, Lasts: 8 * time.Second, do: stepAgentClock},
		{Name: "worker killed", Agent: true, Lasts: 4 * time.Second, do: killWorkers},
		{Name: "worker frozen", Agent: true, Lasts: 3 * time.Second, do: freezeWorker},
		{Name: "clock of the server", Lasts: 8 * time.Second, Alone: true, do: stepServerClock},
		{Name: "network slow", Agent: true, Lasts: 4 * time.Second, do: slow},
		{Name: "network loses requests", Agent: true, Lasts: 2 * Presence, do: lose("upstream")},
		{Name: "network loses replies", Agent: true, Lasts: 2 * Presence, do: lose("downstream")},
		{Name: "network loses some replies", Agent: true, Lasts: 3 * time.Second, do: loseSome},
		{Name: "network cuts requests", Agent: true, Lasts: time.Second, do: toxic("cut", "upstream")},
		{Name: "network cuts replies", Agent: true, Lasts: time.Second, do: toxic("deaf", "downstream")},
		{Name: "server terminates", do: terminate},
		{Name: "server restarts", Alone: true, do: restart},
		{Name: "server crashes", Alone: true, do: crash},
		{Name: "server read-only", Alone: true, Lasts: 3 * time.Second, do: readOnly},
		{Name: "server refuses commits", Alone: true, Lasts: 3 * time.Second, do: refuseCommits},
		{Name: "server disk full", Alone: true, Lasts: 3 * time.Second, do: fillServer},
		{Name: "endpoint restarts", Lasts: 2 * time.Second, do: restartApplication},
	}
}

// aimed lists those that chance does not choose: they are there for schedules.
func aimed() []Fault { return []Fault{{Name: "network forgets settlements", Agent: true, do: forget}} }

// FaultsNamed gives those of some names.
func FaultsNamed(names ...string) (some []Fault) {
	for _, name := range names {
		for _, f := range AllFaults() {
			if f.Name == name {
				some = append(some, f)
			}
		}
	}
	return some
}

func kill(_ *nemesis, a *agent, _ *rand.Rand) (func() error, string, error) {
	a.signal(syscall.SIGCONT)
	killed := a.signal(syscall.SIGKILL)
	return func() error {
		killed.await(10 * time.Second)
		return a.start()
	}, "", nil
}

// killInRollback kills an agent that is rolling something back just now; any, where none comes by for a while.
func killInRollback(n *nemesis, a *agent, r *rand.Rand) (func() error, string, error) {
	note := "(there was none)"
	for range 20 {
		rollingBack := int64(0)
		ctx, cancel := context.WithTimeout(context.Background(), queryTimeout)
		_ = n.w.app.QueryRow(ctx, `SELECT count(*) FROM leasehold.task AS t JOIN leasehold.agent AS a USING (session)
			WHERE t.state = 'rollback_running' AND a.name = $1`, a.name).Scan(&rollingBack) // the server may be away
		cancel()
		if rollingBack > 0 {
			note = fmt.Sprintf("(%d)", rollingBack)
			break
		}
		sleepUntil(context.Background(), time.Now().Add(50*time.Millisecond))
	}
	heal, _, err := kill(n, a, r)
	return heal, note, err
}

// Points are where an agent may kill itself.
func Points() []string {
	points := []string{"before an attempt", "after an attempt", "after a fork", "after an envelope", "after a last line", "after a line"}
	for _, call := range []string{
		"claim tasks", "settle tasks", "exchange tasks", "promote", "renew leases", "write presence", "look at sessions", "sweep", "read back a claim", "join", "leave",
		"take pings", "complete a task", "adopt a task", "sum batches", "fold batches",
		"carry on an operation",
	} {
		points = append(points, "before "+call, "after "+call)
	}
	return points
}

func killAtPoint(_ *nemesis, a *agent, r *rand.Rand) (func() error, string, error) {
	point := Points()[r.IntN(len(Points()))]
	count := 1 + r.IntN(30)
	if point == "before join" || point == "after join" {
		count = 1
	}
	return killAt(a, point, count)
}

// killAtBatch has an agent kill itself just before or after what it does for batches: between the last settlement of a
// batch and its finish row, or half-way through an operation.
func killAtBatch(_ *nemesis, a *agent, r *rand.Rand) (func() error, string, error) {
	points := []string{
		"after sum batches", "before fold batches", "after fold batches", "before carry on an operation", "after carry on an operation",
	}
	return killAt(a, points[r.IntN(len(points))], 1+r.IntN(12))
}

func killAt(a *agent, point string, count int) (func() error, string, error) {
	a.signal(syscall.SIGCONT)
	if !a.signal(syscall.SIGKILL).await(10 * time.Second) {
		return nil, "", errors.New("an agent does not die")
	}
	env := "LEASEHOLD_FAULT_KILL=" + point + "=" + strconv.Itoa(count)
	return func() error {
		a.signal(syscall.SIGKILL).await(10 * time.Second) // it may not have come by there
		return a.start()
	}, point, a.start(env)
}

func freeze(_ *nemesis, a *agent, _ *rand.Rand) (func() error, string, error) {
	a.signal(syscall.SIGSTOP)
	return func() error {
		a.signal(syscall.SIGCONT)
		return nil
	}, "", nil
}

func drain(_ *nemesis, a *agent, _ *rand.Rand) (func() error, string, error) {
	drained := a.signal(syscall.SIGTERM)
	return func() error {
		if !drained.await(30 * time.Second) {
			a.signal(syscall.SIGKILL).await(10 * time.Second) // it was frozen, or the store is away
		}
		return a.start()
	}, "", nil
}

func fillDisk(_ *nemesis, a *agent, _ *rand.Rand) (func() error, string, error) {
	if a.disk == nil {
		return nil, "(it has none of its own)", nil
	}
	return a.disk.empty, "", a.disk.fill()
}

// An agent's clock on the wall may be anything: nothing depends on it.
func stepAgentClock(_ *nemesis, a *agent, r *rand.Rand) (func() error, string, error) {
	offset := time.Duration(r.Int64N(int64(2*time.Hour))) - time.Hour
	a.clock.setClock(offset)
	return func() error {
		a.clock.setClock(0)
		return nil
	}, offset.Round(time.Second).String(), nil
}

// The server's clock steps by some seconds, and back. A step back by hours would have rows that were tried again
// meanwhile wait for hours: that is what their due time says.
func stepServerClock(n *nemesis, _ *agent, r *rand.Rand) (func() error, string, error) {
	offset := time.Duration(r.Int64N(int64(12*time.Second))) - 6*time.Second
	n.w.server.setClock(offset)
	return func() error {
		n.w.server.setClock(0)
		return nil
	}, offset.Round(time.Millisecond).String(), nil
}

func slow(n *nemesis, a *agent, r *rand.Rand) (func() error, string, error) {
	latency := 20 + r.IntN(400)
	return n.poison(a, toxin{
		Type: "latency", Stream: "upstream", Attributes: map[string]any{"latency": latency, "jitter": latency / 2},
	}, fmt.Sprintf("%d ms", latency))
}

// lose has everything that goes one way vanish.
func lose(stream string) func(*nemesis, *agent, *rand.Rand) (func() error, string, error) {
	return func(n *nemesis, a *agent, _ *rand.Rand) (func() error, string, error) {
		return n.poison(a, toxin{Type: "timeout", Stream: stream, Attributes: map[string]any{"timeout": 0}}, "")
	}
}

// loseSome has replies vanish on half of the connections.
func loseSome(n *nemesis, a *agent, _ *rand.Rand) (func() error, string, error) {
	half := float32(0.5)
	return n.poison(a, toxin{Type: "timeout", Stream: "downstream", Toxicity: &half, Attributes: map[string]any{"timeout": 0}}, "")
}

func toxic(kind, stream string) func(*nemesis, *agent, *rand.Rand) (func() error, string, error) {
	return func(n *nemesis, a *agent, _ *rand.Rand) (func() error, string, error) {
		return n.poison(a, toxin{Type: kind, Stream: stream}, "")
	}
}

// forget loses the answers to settlements, and has the agent wait for each in vain while it goes on claiming. The proxy
// recognizes them by their one column (renewals have it, too). The server names it each time only without prepared
// statements: for the last agent.
func forget(n *nemesis, a *agent, _ *rand.Rand) (func() error, string, error) {
	return n.poison(a, toxin{
		Type: "deaf", Stream: "downstream", Attributes: map[string]any{"to": "\x00\x01id\x00", "late": 300},
	}, "")
}

// poison puts a fault into an agent's connections.
func (n *nemesis) poison(a *agent, t toxin, note string) (func() error, string, error) {
	n.mu.Lock()
	n.last++
	t.Name = fmt.Sprintf("%s-%d", t.Type, n.last)
	n.mu.Unlock()
	return func() error { return a.proxy.remove(t.Name) }, note, a.proxy.add(t)
}

// terminate ends every connection but its own.
func terminate(n *nemesis, _ *agent, _ *rand.Rand) (func() error, string, error) {
	_ = n.ask(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'`)
	return nil, "", nil
}

func restart(n *nemesis, _ *agent, _ *rand.Rand) (func() error, string, error) {
	return nil, "", n.w.cluster.TryRestart("fast", n.w.preload()...)
}

// crash ends the server as the loss of its power does: what was committed without waiting for the disk may be lost.
func crash(n *nemesis, _ *agent, _ *rand.Rand) (func() error, string, error) {
	n.w.mu.Lock()
	n.w.crashes = append(n.w.crashes, history.Now())
	n.w.mu.Unlock()
	return nil, "", n.w.cluster.TryRestart("immediate", n.w.preload()...)
}

// readOnly makes the server one that refuses all writes, as a failover does to those who stay with the old one.
func readOnly(n *nemesis, _ *agent, _ *rand.Rand) (func() error, string, error) {
	_ = n.ask(`ALTER SYSTEM SET default_transaction_read_only = on`)
	_ = n.ask(`SELECT pg_reload_conf()`)
	return func() error {
		return n.again(`ALTER SYSTEM RESET default_transaction_read_only`, `SELECT pg_reload_conf()`)
	}, "", nil
}

// again runs SQL, again and again where the server is away.
func (n *nemesis) again(all ...string) (err error) {
	for range 20 {
		err = nil
		for _, sql := range all {
			err = errors.Join(err, n.ask(sql))
		}
		if err == nil {
			return nil
		}
		pause := time.NewTimer(500 * time.Millisecond)
		<-pause.C
	}
	return err
}

// refuseCommits has every third claim fail when it commits, after its rows were sent.
func refuseCommits(n *nemesis, _ *agent, _ *rand.Rand) (func() error, string, error) {
	_ = n.ask(`
CREATE OR REPLACE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF pg_current_xact_id()::text::bigint % 3 = 0 THEN RAISE EXCEPTION 'refused when it commits'; END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER refuse AFTER UPDATE ON leasehold.task DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.claim IS DISTINCT FROM OLD.claim AND NEW.claim > 0) EXECUTE FUNCTION public.refuse()`)
	return func() error { return n.again(`DROP TRIGGER IF EXISTS refuse ON leasehold.task`) }, "", nil
}

func fillServer(n *nemesis, _ *agent, _ *rand.Rand) (func() error, string, error) {
	n.w.server.setFull(true)
	return func() error {
		n.w.server.setFull(false)
		return n.w.cluster.TryAwait(n.w.preload()...) // a full disk may have ended it
	}, "", nil
}

func restartApplication(n *nemesis, _ *agent, _ *rand.Rand) (func() error, string, error) {
	n.w.endpoint.down()
	return n.w.endpoint.up, "", nil
}

// ask runs SQL on a connection of its own, also where writes are refused.
func (n *nemesis) ask(sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), queryTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, n.w.direct)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, `SET default_transaction_read_only = off`); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql)
	return err
}
