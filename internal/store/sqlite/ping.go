package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Secret returns the key of ping URLs. It was created with the schema.
func (s *Store) Secret(ctx context.Context) (key []byte, err error) {
	err = s.view(ctx, "read the key of ping URLs", func(t *snapshot) error {
		return t.row([]any{&key}, t.sql.Secret)
	})
	return key, err
}

// TakePings stores pings that reach another agent than the session that holds the row. The function ping does the same for
// applications; a test compares them. It never answers Busy: rows of this store cannot be locked.
func (s *Store) TakePings(ctx context.Context, rows []store.RemotePing) ([]store.PingReply, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	replies := make([]store.PingReply, len(rows))
	err := s.keep(ctx, "take pings", func(t *tx) error {
		p := pinging{tx: t, policies: map[task.PolicyHash]task.Policy{}}
		for i := range rows {
			var err error
			if replies[i], err = p.take(&rows[i]); err != nil {
				return fmt.Errorf("task %d: %w", rows[i].ID, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return replies, nil
}

// pinging is one call of TakePings.
type pinging struct {
	*tx
	policies map[task.PolicyHash]task.Policy // zero for one that is not there
}

// pinged is a row that a ping came for.
type pinged struct {
	state                    task.State
	policy                   task.PolicyHash
	until, claimed, deadline time.Time
	cancelRequested          bool
	by                       string
}

func (p *pinging) take(r *store.RemotePing) (store.PingReply, error) {
	var row pinged
	err := p.row([]any{
		textOf[task.State]{&row.state}, numberOf[task.PolicyHash]{&row.policy}, timeOf{&row.until}, timeOf{&row.claimed},
		timeOf{&row.deadline}, truthOf{&row.cancelRequested}, textOf[string]{&row.by},
	}, p.sql.Pinged, arg("id", int64(r.ID)), arg("fence", int64(r.Fence)), arg("now", stamp(p.now)))
	if errors.Is(err, sql.ErrNoRows) {
		return store.PingReply{Answer: store.Lost}, nil
	}
	if err != nil {
		return store.PingReply{}, err
	}
	policy, err := p.policy(row.policy)
	if err != nil {
		return store.PingReply{}, err
	}
	phase := row.state.Phase()
	counted, marks, err := p.counts(r, &policy, phase)
	if err != nil {
		return store.PingReply{}, err
	}
	end := row.end(&policy)
	reply := store.PingReply{Answer: store.Applied, Counted: counted, Remaining: max(end.Sub(p.now), 0)}
	var due, until any
	if window := policy.PingWindow(phase, r.NextWithin); counted && window > 0 {
		next := p.now.Add(window)
		if next.After(end) {
			next = end
		}
		_, _, stop := policy.Lengths(phase)
		due, until = stamp(next), stamp(next.Add(stop))
	}
	switch {
	case row.cancelRequested && row.state == task.StateRunning:
		reply.Cancel, reply.Reason = true, "cancellation requested"
		if row.by != "" {
			reply.Reason += " by " + row.by
		}
	case !counted:
		reply.Reason = "progress did not change"
	}
	if due == nil && r.Progress == nil && r.Message == "" && r.Checkpoint == nil {
		return reply, nil // nothing to write
	}
	_, err = p.exec(p.sql.Ping, arg("progress", jsonText(r.Progress)), arg("message", null(r.Message)),
		arg("checkpoint", jsonText(r.Checkpoint)), arg("due", due), arg("until", until), arg("marks", jsonText(marks)),
		arg("id", int64(r.ID)), arg("fence", int64(r.Fence)))
	return reply, err
}

// end is when the attempt must be over: what is left of the lease where its policy is not known.
func (r *pinged) end(policy *task.Policy) time.Time {
	end := r.until
	if policy.Timeout > 0 {
		end = r.claimed.Add(policy.AttemptLength(r.state.Phase()))
	}
	if r.state == task.StateRunning && !r.deadline.IsZero() && r.deadline.Before(end) {
		return r.deadline
	}
	return end
}

// counts reports whether the ping counts: where the policy requires progress, only if it advances. marks are the row's new
// ones; nil where they stay.
func (p *pinging) counts(r *store.RemotePing, policy *task.Policy, phase task.Phase) (counted bool, marks json.RawMessage, err error) {
	if _, strict, _ := policy.Liveness(phase); !strict {
		return true, nil, nil
	}
	m, err := p.marks(r.ID, r.Fence)
	if err != nil || !m.Advance(r.Progress, r.Checkpoint) {
		return false, nil, err
	}
	return true, m.JSON(), nil
}

// marks returns the best reports of the attempt with that fence.
func (t *tx) marks(id task.ID, f task.Fence) (task.Marks, error) {
	var stored sql.NullString
	err := t.row([]any{&stored}, t.sql.Marks, arg("id", int64(id)))
	return task.MarksOf([]byte(stored.String), f), err
}

// policy reads a policy, once a call; it is zero where it is not there.
func (p *pinging) policy(hash task.PolicyHash) (policy task.Policy, err error) {
	if policy, ok := p.policies[hash]; ok {
		return policy, nil
	}
	var body []byte
	switch err := p.row([]any{&body}, p.sql.Policy, arg("hash", int64(hash))); {
	case errors.Is(err, sql.ErrNoRows):
	case err != nil:
		return policy, err
	default:
		if err := json.Unmarshal(body, &policy); err != nil {
			return policy, fmt.Errorf("policy %d: %w", hash, err)
		}
	}
	p.policies[hash] = policy
	return policy, nil
}
