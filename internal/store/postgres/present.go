package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Join opens a session, on a schema that admits the binary, with policies stored and partitions made.
func (s *Store) Join(ctx context.Context, a store.Agent) (session task.Session, err error) {
	err = s.do(ctx, "join", func(ctx context.Context, conn *pgx.Conn) error {
		if err := s.checkSchema(ctx, conn); err != nil {
			return err
		}
		if err := s.makePartitions(ctx, conn); err != nil {
			return err
		}
		s.stored.clear()
		if err := s.putPolicies(ctx, conn, a.Policies); err != nil {
			return err
		}
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			err := exec(ctx, tx, s.sql.NoteRedactions, arg("session", int64(0)), arg("types", types(a)), arg("redact", a.RedactText()))
			if err != nil {
				return err
			}
			err = queryRow(ctx, tx, s.sql.Join, arg("name", storable(a.Name)), arg("region", storable(a.Region)),
				arg("version", a.Version), arg("config", a.Config), arg("workers", a.Workers), arg("types", types(a)),
				arg("redact", a.RedactText()), arg("presence", a.Presence.Microseconds())).Scan((*int64)(&session))
			if err != nil {
				return err
			}
			if err := s.declareLimits(ctx, tx, session, a, store.View{}); err != nil {
				return err
			}
			return s.declareSequences(ctx, tx, session, a)
		})
	})
	return session, err
}

// types is never nil: the column takes no NULL.
func types(a store.Agent) []string { return append([]string{}, a.Types...) }

// Present says that the session is there.
func (s *Store) Present(ctx context.Context, p store.Heartbeat) (standing store.HeartbeatReply, err error) {
	err = s.live(ctx, "write presence", func(ctx context.Context, conn *pgx.Conn) error {
		a := p.Agent
		standing = store.HeartbeatReply{}
		view := p.Sees()
		var now *time.Time // NULL: the session cannot tell
		if !view.Now.IsZero() {
			now = &view.Now
		}
		var fresh, limits, sequences bool
		var h heldRow
		into := []any{&standing.Now, &fresh, &limits, &sequences, (*string)(&standing.Order), &standing.OrderedBy}
		err := forEach(ctx, conn, append(into, h.targets()...), func() error {
			if h.id != nil {
				standing.Held = append(standing.Held, h.held())
			}
			return nil
		}, s.sql.Present, arg("session", int64(p.Session)), arg("name", storable(a.Name)),
			arg("region", storable(a.Region)), arg("version", a.Version), arg("config", a.Config), arg("workers", a.Workers),
			arg("types", types(a)), arg("redact", a.RedactText()), arg("presence", a.Presence.Microseconds()), arg("draining", p.Draining),
			arg("running", p.Running), arg("done", p.Done), arg("minute", p.Minute), arg("order", string(p.Order)),
			arg("condition", storable(p.Condition.Text())), arg("now", now), arg("calm", view.Calm.Microseconds()),
			arg("tolerance", store.JumpTolerance.Microseconds()))
		if err != nil {
			return err
		}
		if fresh {
			s.stored.clear()
		}
		if err := s.putPolicies(ctx, conn, a.Policies); err != nil {
			return err
		}
		if sequences || len(a.Sequences) > 0 {
			if err := s.declareSequences(ctx, conn, p.Session, a); err != nil {
				return err
			}
		}
		if !limits && len(a.Limits) == 0 {
			s.limits.set(nil)
			return nil
		}
		return s.declareLimits(ctx, conn, p.Session, a, view)
	})
	return standing, err
}

// Cancels lists what the session holds that is to stop.
func (s *Store) Cancels(ctx context.Context, session task.Session) (list []store.Cancel, err error) {
	err = s.live(ctx, "look for cancellations", func(ctx context.Context, conn *pgx.Conn) error {
		list = nil
		var c store.Cancel
		return forEach(ctx, conn, []any{(*int64)(&c.ID), (*int64)(&c.Fence), &c.Claim, &c.Requested, &c.Reason}, func() error {
			list = append(list, c)
			return nil
		}, s.sql.Cancels, arg("session", int64(session)))
	})
	return list, err
}

// heldRow is what present.sql returns of a row; all of it is NULL where the session holds none.
type heldRow struct {
	id, fence, claim *int64
	detached, asked  *bool
	by               *string
	due, left        *time.Duration
	marks            []byte
}

func (h *heldRow) targets() []any {
	return []any{&h.id, &h.fence, &h.claim, &h.detached, &h.asked, &h.by, &h.due, &h.left, &h.marks}
}

func (h *heldRow) held() store.Held {
	return store.Held{
		ID: task.ID(*h.id), Fence: task.Fence(*h.fence), Claim: or(h.claim), Detached: or(h.detached),
		CancelRequested: or(h.asked), CancelReason: or(h.by), Pinged: h.due != nil, PingDue: or(h.due), Left: or(h.left),
		Marks: slices.Clone(h.marks),
	}
}

// or is the value, or zero for NULL.
func or[T any](v *T) (value T) {
	if v != nil {
		value = *v
	}
	return value
}

// putPolicies stores the policies that this agent has not seen stored.
func (s *Store) putPolicies(ctx context.Context, conn *pgx.Conn, policies map[task.PolicyHash]store.NamedPolicy) error {
	// Sorted: agents that store the same ones wait for each other in one order.
	lacks := s.stored.lacks(slices.Collect(maps.Keys(policies)))
	if len(lacks) == 0 {
		return nil
	}
	hashes, names, bodies := make([]int64, len(lacks)), make([]string, len(lacks)), make([]string, len(lacks))
	for i, h := range lacks {
		body, err := json.Marshal(policies[h].Policy)
		if err != nil {
			return fmt.Errorf("policy %d: %w", h, err)
		}
		hashes[i], names[i], bodies[i] = int64(h), policies[h].Type, string(body)
	}
	err := exec(ctx, conn, s.sql.PutPolicies, arg("hashes", hashes), arg("types", names), arg("bodies", bodies))
	if err != nil {
		return fmt.Errorf("store policies: %w", err)
	}
	s.stored.add(lacks)
	return nil
}

// Leave ends a session's presence.
func (s *Store) Leave(ctx context.Context, session task.Session) error {
	return s.do(ctx, "leave", func(ctx context.Context, conn *pgx.Conn) error {
		return exec(ctx, conn, s.sql.Leave, arg("session", int64(session)))
	})
}

// Idle says whether a session wants to be notified of inserts.
func (s *Store) Idle(ctx context.Context, session task.Session, idle bool) error {
	return s.do(ctx, "say whether idle", func(ctx context.Context, conn *pgx.Conn) error {
		return exec(ctx, conn, s.sql.Idle, arg("idle", idle), arg("session", int64(session)))
	})
}

// Policies reads stored policies.
func (s *Store) Policies(ctx context.Context, hashes []task.PolicyHash) (map[task.PolicyHash]task.Policy, error) {
	found := map[task.PolicyHash]task.Policy{}
	ids := make([]int64, len(hashes))
	for i, h := range hashes {
		ids[i] = int64(h)
	}
	err := s.do(ctx, "read policies", func(ctx context.Context, conn *pgx.Conn) error {
		var hash int64
		var body []byte
		return forEach(ctx, conn, []any{&hash, &body}, func() error {
			var p task.Policy
			if err := json.Unmarshal(body, &p); err != nil {
				return fmt.Errorf("policy %d: %w", hash, err)
			}
			found[task.PolicyHash(hash)] = p
			return nil
		}, s.sql.Policies, arg("hashes", ids))
	})
	return found, err
}

// Ping checks that the store can be reached and that its schema admits the binary.
func (s *Store) Ping(ctx context.Context) error { return s.do(ctx, "ping", s.checkSchema) }

func (s *Store) checkSchema(ctx context.Context, conn *pgx.Conn) error {
	have, err := s.version(ctx, conn)
	if err != nil {
		return err
	}
	want, err := newest(s.files)
	if err != nil {
		return err
	}
	return have.Admits(want)
}
