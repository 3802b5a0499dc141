package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Join opens a session.
func (s *Store) Join(ctx context.Context, a store.Agent) (session task.Session, err error) {
	err = s.update(ctx, "join", func(t *tx) error {
		if err := checkVersion(t.version()); err != nil {
			return err
		}
		if err := t.keepPolicies(a.Policies); err != nil {
			return err
		}
		if err := t.noteRedactions(0, &a); err != nil {
			return err
		}
		err := t.row([]any{&session}, t.sql.Join, arg("name", a.Name), arg("region", null(a.Region)), arg("version", a.Version),
			arg("config", a.Config), arg("workers", a.Workers), arg("types", jsonList(a.Types)), arg("redact", a.RedactText()), arg("now", stamp(t.now)),
			arg("until", stamp(t.now.Add(a.Presence))))
		if err != nil {
			return err
		}
		if err := t.declareLimits(session, a.Limits, 0); err != nil {
			return err
		}
		return t.declareSequences(session, a.Sequences)
	})
	return session, err
}

// Present writes the session's heartbeat, and reads what it holds.
func (s *Store) Present(ctx context.Context, p store.Heartbeat) (st store.HeartbeatReply, err error) {
	if err := s.look(); err != nil {
		return st, s.explain("say present", err)
	}
	a := p.Agent
	err = s.keep(ctx, "say present", func(t *tx) error {
		if err := t.keepPolicies(a.Policies); err != nil {
			return err
		}
		var calmAt any // NULL: the session does not vouch for the clock
		view := p.Sees()
		if view.Vouches(t.now, a.Presence) {
			calmAt = stamp(t.now)
		}
		if err := t.noteRedactions(p.Session, &a); err != nil {
			return err
		}
		if _, err := t.exec(t.sql.Present, arg("session", int64(p.Session)), arg("name", a.Name), arg("region", null(a.Region)),
			arg("version", a.Version), arg("config", a.Config), arg("workers", a.Workers), arg("types", jsonList(a.Types)),
			arg("redact", a.RedactText()), arg("now", stamp(t.now)), arg("until", stamp(t.now.Add(a.Presence))), arg("draining", p.Draining),
			arg("running", p.Running), arg("done", p.Done), arg("minute", p.Minute), arg("order", string(p.Order)),
			arg("condition", p.Condition.Text()), arg("calm_at", calmAt)); err != nil {
			return err
		}
		if err := t.declareLimits(p.Session, a.Limits, view.CalmAt(t.now)); err != nil {
			return err
		}
		if err := t.declareSequences(p.Session, a.Sequences); err != nil {
			return err
		}
		st = store.HeartbeatReply{Now: t.now}
		if err := t.row([]any{textOf[store.AgentOrder]{&st.Order}, &st.OrderedBy}, t.sql.Ordered, arg("session", int64(p.Session))); err != nil {
			return err
		}
		return t.query(func(r *sql.Rows) error {
			h, err := t.scanHeld(r)
			st.Held = append(st.Held, h)
			return err
		}, t.sql.Held, arg("session", int64(p.Session)))
	})
	return st, err
}

// scanHeld reads a row of the statement held.
func (t *tx) scanHeld(r *sql.Rows) (h store.Held, err error) {
	var until, due time.Time
	err = r.Scan(numberOf[task.ID]{&h.ID}, numberOf[task.Fence]{&h.Fence}, numberOf[int64]{&h.Claim}, timeOf{&until}, timeOf{&due},
		truthOf{&h.Detached}, truthOf{&h.CancelRequested}, textOf[string]{&h.CancelReason},
		jsonOf{&h.Marks})
	h.Left = until.Sub(t.now)
	if !due.IsZero() {
		h.Pinged, h.PingDue = true, due.Sub(t.now)
	}
	return h, err
}

// Cancels lists what the session holds that is to stop. It only reads.
func (s *Store) Cancels(ctx context.Context, session task.Session) (list []store.Cancel, err error) {
	err = s.view(ctx, "look for cancellations", func(t *snapshot) error {
		return t.query(func(r *sql.Rows) error {
			var c store.Cancel
			err := r.Scan(numberOf[task.ID]{&c.ID}, numberOf[task.Fence]{&c.Fence}, numberOf[int64]{&c.Claim}, truthOf{&c.Requested},
				textOf[string]{&c.Reason})
			list = append(list, c)
			return err
		}, t.sql.Cancels, arg("session", int64(session)))
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// Leave ends the session's presence.
func (s *Store) Leave(ctx context.Context, session task.Session) error {
	return s.update(ctx, "leave", func(t *tx) error {
		_, err := t.exec(t.sql.Leave, arg("now", stamp(t.now)), arg("session", int64(session)))
		return err
	})
}

// keepPolicies stores the policies that are not there yet.
func (t *tx) keepPolicies(policies map[task.PolicyHash]store.NamedPolicy) error {
	for hash, p := range policies {
		body, err := json.Marshal(p.Policy)
		if err != nil {
			return fmt.Errorf("encode the policy of %s: %w", p.Type, err)
		}
		if _, err := t.exec(t.sql.KeepPolicy, arg("hash", int64(hash)), arg("type", p.Type), arg("body", string(body))); err != nil {
			return err
		}
	}
	return nil
}

// Policies reads stored policies.
func (s *Store) Policies(ctx context.Context, hashes []task.PolicyHash) (map[task.PolicyHash]task.Policy, error) {
	found := make(map[task.PolicyHash]task.Policy, len(hashes))
	err := s.view(ctx, "read policies", func(t *snapshot) error {
		return t.query(func(r *sql.Rows) error {
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
		}, t.sql.Policies, arg("hashes", jsonList(hashes)))
	})
	return found, err
}
