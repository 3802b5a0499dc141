package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"
)

// Secret is the key of ping URLs, as it was made with the file.
func (s *Store) Secret(ctx context.Context) (key []byte, err error) {
	err = s.view(ctx, "read the key of ping URLs", func(t *sql.Tx) error {
		return t.QueryRowContext(ctx, "SELECT key FROM secret").Scan(&key)
	})
	return key, err
}

// attempted is the condition that an attempt which was given the fence holds the row; nobody judges it (claim = 0).
const attempted = "id = ?1 AND fence = ?2 AND claim > 0 AND " + running

// pingedQuery reads what a ping is reckoned with.
const pingedQuery = `
	SELECT state, policy, lease_until, claimed_at, deadline, cancel_asked IS NOT NULL, cancel_by
	FROM task WHERE ` + attempted + ` AND lease_until > ?3`

// toldQuery reads what the task has told of where it stands.
const toldQuery = "SELECT progress, checkpoint FROM task WHERE id = ?1"

// pingQuery writes a ping: ?6 and ?7 are NULL where it moves nothing.
const pingQuery = `
	UPDATE task SET progress = ifnull(?3, progress), message = ifnull(?4, message), checkpoint = ifnull(?5, checkpoint),
		ping_due = ifnull(?6, ping_due), lease_until = max(lease_until, ifnull(?7, lease_until))
	WHERE id = ?1 AND fence = ?2`

// TakePings takes in pings that come by another way than the session that holds the row. The view ping does the same for
// applications; a test compares them. It never answers Busy: nobody can lock a row of this store.
func (s *Store) TakePings(ctx context.Context, rows []lease.RemotePing) ([]lease.Pong, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	pongs := make([]lease.Pong, len(rows))
	err := s.update(ctx, "take pings", func(t *tx) error {
		p := pinging{tx: t, policies: map[task.PolicyHash]*task.Policy{}}
		for i := range rows {
			var err error
			if pongs[i], err = p.take(&rows[i]); err != nil {
				return fmt.Errorf("task %d: %w", rows[i].ID, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return pongs, nil
}

// pinging is one call of TakePings.
type pinging struct {
	*tx
	policies map[task.PolicyHash]*task.Policy // nil for one that is not there
}

// pinged is a row that a ping came for.
type pinged struct {
	state                    task.State
	policy                   task.PolicyHash
	until, claimed, deadline time.Time
	asked                    bool
	by                       string
}

func (p *pinging) take(r *lease.RemotePing) (lease.Pong, error) {
	var row pinged
	err := p.row([]any{
		textOf[task.State]{&row.state}, numberOf[task.PolicyHash]{&row.policy}, timeOf{&row.until}, timeOf{&row.claimed},
		timeOf{&row.deadline}, truthOf{&row.asked}, textOf[string]{&row.by},
	}, pingedQuery, int64(r.ID), int64(r.Fence), stamp(p.now))
	if errors.Is(err, sql.ErrNoRows) {
		return lease.Pong{Answer: lease.Lost}, nil
	}
	if err != nil {
		return lease.Pong{}, err
	}
	policy, err := p.policy(row.policy)
	if err != nil {
		return lease.Pong{}, err
	}
	counted, err := p.counts(r, policy, row.state.Phase())
	if err != nil {
		return lease.Pong{}, err
	}
	end := row.end(policy)
	pong := lease.Pong{Answer: lease.Applied, Counted: counted, Remaining: max(end.Sub(p.now), 0)}
	var due, until any
	if _, heartbeat, stop := lengths(policy, row.state.Phase()); counted && heartbeat > 0 {
		longest, _, _ := policy.Liveness(row.state.Phase())
		next := p.now.Add(max(heartbeat, min(r.NextWithin, longest)))
		if next.After(end) {
			next = end
		}
		due, until = stamp(next), stamp(next.Add(stop))
	}
	switch {
	case row.asked && row.state == task.StateRunning:
		pong.Cancel, pong.Reason = true, "a cancellation was asked for"
		if row.by != "" {
			pong.Reason += " by " + row.by
		}
	case !counted:
		pong.Reason = "progress did not change"
	}
	if due == nil && r.Progress == nil && r.Message == "" && r.Checkpoint == nil {
		return pong, nil // nothing to write
	}
	_, err = p.exec(pingQuery, int64(r.ID), int64(r.Fence), jsonText(r.Progress), null(r.Message), jsonText(r.Checkpoint), due, until)
	return pong, err
}

// end is when the attempt must be over: what is left of the lease where its policy is not known.
func (r *pinged) end(policy *task.Policy) time.Time {
	end := r.until
	if timeout, _, _ := lengths(policy, r.state.Phase()); timeout > 0 {
		end = r.claimed.Add(task.StartWait + timeout)
		if r.state == task.StateRunning {
			end = end.Add(policy.Check)
		}
	}
	if r.state == task.StateRunning && !r.deadline.IsZero() && r.deadline.Before(end) {
		return r.deadline
	}
	return end
}

// lengths are nought where the policy is not known.
func lengths(p *task.Policy, phase task.Phase) (timeout, heartbeat, stop time.Duration) {
	if p == nil {
		return 0, 0, 0
	}
	return p.Lengths(phase)
}

// counts tells whether the ping counts: where the policy wants progress, only if it tells other than the row does.
func (p *pinging) counts(r *lease.RemotePing, policy *task.Policy, phase task.Phase) (bool, error) {
	if policy == nil {
		return true, nil
	}
	if _, strict, _ := policy.Liveness(phase); !strict {
		return true, nil
	}
	var progress, checkpoint sql.NullString
	if err := p.row([]any{&progress, &checkpoint}, toldQuery, int64(r.ID)); err != nil {
		return false, err
	}
	return r.Progress != nil && !sameJSON(r.Progress, progress) || r.Checkpoint != nil && !sameJSON(r.Checkpoint, checkpoint), nil
}

// sameJSON tells whether two documents are the same but for the spaces between. Numbers are not rounded to compare them:
// to take a position for the one before would stop a task that moves.
func sameJSON(doc json.RawMessage, stored sql.NullString) bool {
	if !stored.Valid || string(doc) == stored.String {
		return stored.Valid
	}
	var a, b bytes.Buffer
	if json.Compact(&a, doc) != nil || json.Compact(&b, []byte(stored.String)) != nil {
		return false
	}
	return bytes.Equal(a.Bytes(), b.Bytes())
}

// policy reads a policy, once a call; nil where it is not there.
func (p *pinging) policy(hash task.PolicyHash) (*task.Policy, error) {
	if policy, ok := p.policies[hash]; ok {
		return policy, nil
	}
	var body []byte
	err := p.row([]any{&body}, "SELECT body FROM policy WHERE hash = ?", int64(hash))
	if errors.Is(err, sql.ErrNoRows) {
		p.policies[hash] = nil
		return nil, nil //nolint:nilnil // said above
	}
	if err != nil {
		return nil, err
	}
	policy := new(task.Policy)
	if err := json.Unmarshal(body, policy); err != nil {
		return nil, fmt.Errorf("policy %d: %w", hash, err)
	}
	p.policies[hash] = policy
	return policy, nil
}
