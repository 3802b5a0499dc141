package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"
)

// running is the condition on rows that somebody holds; it must stand like this for SQLite to use task_running.
const running = "state IN ('running', 'rollback_running')"

// Join opens a session.
func (s *Store) Join(ctx context.Context, a lease.Agent) (session task.Session, err error) {
	types, err := typeList(a.Types)
	if err != nil {
		return 0, err
	}
	err = s.update(ctx, "join", func(t *tx) error {
		if err := checkVersion(t.version()); err != nil {
			return err
		}
		if err := t.keepPolicies(a.Policies); err != nil {
			return err
		}
		now := stamp(t.now)
		return t.row([]any{&session}, `
			INSERT INTO agent (name, region, version, config, workers, types, started_at, seen_at, present_until)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING session`,
			a.Name, null(a.Region), a.Version, a.Config, a.Workers, types, now, now, stamp(t.now.Add(a.Presence)))
	})
	return session, err
}

// Present writes the session's sign of life, and reads what it holds.
func (s *Store) Present(ctx context.Context, p lease.Presence) (st lease.Standing, err error) {
	a := p.Agent
	types, err := typeList(a.Types)
	if err != nil {
		return st, err
	}
	err = s.update(ctx, "say present", func(t *tx) error {
		if err := t.keepPolicies(a.Policies); err != nil {
			return err
		}
		now := stamp(t.now)
		if _, err := t.exec(`
			INSERT INTO agent (session, name, region, version, config, workers, types, started_at, seen_at,
			                   present_until, draining, running, done)
			VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?9, ?10, ?11, ?12)
			ON CONFLICT (session) DO UPDATE SET
				name = excluded.name, region = excluded.region, version = excluded.version, config = excluded.config,
				workers = excluded.workers, types = excluded.types, seen_at = excluded.seen_at,
				present_until = excluded.present_until, draining = excluded.draining, running = excluded.running,
				done = excluded.done`,
			int64(p.Session), a.Name, null(a.Region), a.Version, a.Config, a.Workers, types, now,
			stamp(t.now.Add(a.Presence)), p.Draining, p.Running, p.Done); err != nil {
			return err
		}
		st = lease.Standing{Now: t.now}
		return t.query(func(r *sql.Rows) error {
			h, err := t.scanHeld(r)
			st.Held = append(st.Held, h)
			return err
		}, heldQuery, int64(p.Session))
	})
	return st, err
}

const heldQuery = "SELECT id, fence, claim, lease_until, ping_due, detached, " +
	"cancel_asked IS NOT NULL AND state = 'running', cancel_by, CASE WHEN ping_due IS NOT NULL THEN marks END " +
	"FROM task INDEXED BY task_running WHERE session = ? AND " + running + " ORDER BY id"

// scanHeld reads a row of heldQuery.
func (t *tx) scanHeld(r *sql.Rows) (h lease.Held, err error) {
	var until, due time.Time
	err = r.Scan(numberOf[task.ID]{&h.ID}, numberOf[task.Fence]{&h.Fence}, numberOf[int64]{&h.Claim}, timeOf{&until}, timeOf{&due},
		truthOf{&h.Detached}, truthOf{&h.CancelAsked}, textOf[string]{&h.CancelReason},
		jsonOf{&h.Marks})
	h.Left = until.Sub(t.now)
	if !due.IsZero() {
		h.Pinged, h.PingDue = true, due.Sub(t.now)
	}
	return h, err
}

const cancelsQuery = "SELECT id, fence, claim, cancel_asked IS NOT NULL, cancel_by " +
	"FROM task INDEXED BY task_running WHERE session = ? AND " + running + " AND state = 'running' AND (cancel_asked IS NOT NULL " +
	"OR batch_id IN (SELECT id FROM batch INDEXED BY batch_stopping WHERE stopping = 1 AND ended_at IS NULL))"

// Cancels lists what the session holds that is to stop. It only reads.
func (s *Store) Cancels(ctx context.Context, session task.Session) (list []lease.Cancel, err error) {
	err = s.view(ctx, "look for cancellations", func(t *sql.Tx) error {
		rows, err := t.QueryContext(ctx, cancelsQuery, int64(session))
		if err != nil {
			return err
		}
		return eachRow(rows, func(r *sql.Rows) error {
			var c lease.Cancel
			err := r.Scan(numberOf[task.ID]{&c.ID}, numberOf[task.Fence]{&c.Fence}, numberOf[int64]{&c.Claim}, truthOf{&c.Asked},
				textOf[string]{&c.Reason})
			list = append(list, c)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// Leave ends the session's presence.
func (s *Store) Leave(ctx context.Context, session task.Session) error {
	return s.update(ctx, "leave", func(t *tx) error {
		_, err := t.exec("UPDATE agent SET present_until = ?1, seen_at = ?1 WHERE session = ?2", stamp(t.now), int64(session))
		return err
	})
}

func typeList(types []string) (string, error) {
	if types == nil {
		types = []string{}
	}
	b, err := json.Marshal(types)
	if err != nil {
		return "", fmt.Errorf("encode the list of types: %w", err)
	}
	return string(b), nil
}

// keepPolicies stores the policies that are not there yet.
func (t *tx) keepPolicies(policies map[task.PolicyHash]lease.NamedPolicy) error {
	for hash, p := range policies {
		body, err := json.Marshal(p.Policy)
		if err != nil {
			return fmt.Errorf("encode the policy of %s: %w", p.Type, err)
		}
		if _, err := t.exec("INSERT INTO policy (hash, type, body) VALUES (?, ?, ?) ON CONFLICT (hash) DO NOTHING",
			int64(hash), p.Type, string(body)); err != nil {
			return err
		}
	}
	return nil
}

// Policies reads stored policies.
func (s *Store) Policies(ctx context.Context, hashes []task.PolicyHash) (map[task.PolicyHash]task.Policy, error) {
	list, err := json.Marshal(hashes)
	if err != nil {
		return nil, fmt.Errorf("encode policy hashes: %w", err)
	}
	found := make(map[task.PolicyHash]task.Policy, len(hashes))
	err = s.view(ctx, "read policies", func(t *sql.Tx) error {
		rows, err := t.QueryContext(ctx,
			"SELECT hash, body FROM policy WHERE hash IN (SELECT value FROM json_each(?))", string(list))
		if err != nil {
			return err
		}
		return eachRow(rows, func(r *sql.Rows) error {
			var hash task.PolicyHash
			var body []byte
			if err := r.Scan(&hash, &body); err != nil {
				return err
			}
			var p task.Policy
			if err := json.Unmarshal(body, &p); err != nil {
				return fmt.Errorf("policy %d: %w", hash, err)
			}
			found[hash] = p
			return nil
		})
	})
	return found, err
}
