package lease

import (
	"context"
	"encoding/json"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Store is what leases need of the store. Every call may be repeated, so a lost reply costs only a repetition. When ctx ends
// first, it is unknown whether the call took effect.
type Store interface {
	// Join opens a session, which expires after a.Presence unless Present extends it, and stores the agent's policies. It
	// fails with *store.SchemaError if the schema does not admit the binary.
	Join(ctx context.Context, a store.Agent) (task.Session, error)
	// Present writes a heartbeat: the session expires p.Agent.Presence from now, by the store's clock. It returns what the
	// store knows of the session. A session whose row was removed (it ended long ago) is written again under its number.
	Present(ctx context.Context, p store.Heartbeat) (store.HeartbeatReply, error)
	// Renew moves lease ends, one answer a row in the order of rows. It never answers Ended.
	Renew(ctx context.Context, s task.Session, rows []store.Renewal) ([]store.Answer, error)
	// Cancels lists the rows that the session holds in the run phase and that are to stop: rows whose cancellation was
	// requested, and rows of batches that are being cancelled or rolled back, marked already or not. It writes nothing.
	Cancels(ctx context.Context, s task.Session) ([]store.Cancel, error)
	// Leave ends the session at once. Rows that it still holds can be reaped from then on; detached ones cannot.
	Leave(ctx context.Context, s task.Session) error
}

// Remote is what the store offers for pings and completions that reach another session than the one that holds the row.
// Every call may be repeated.
type Remote interface {
	// Secret is the store's own key for ping URLs, the same for all agents, 32 bytes at least.
	Secret(ctx context.Context) ([]byte, error)
	// TakePings applies pings by id and fence alone, and returns one reply for each row, in order; each (id, fence) occurs
	// once. The policy that the row was claimed under decides about windows, and which pings count.
	TakePings(ctx context.Context, rows []store.RemotePing) ([]store.PingReply, error)
	// Complete ends a run as succeeded with that result (nil: none), or a rollback as rolled back, whichever session holds
	// it: Applied, Ended if the same fence has completed it before, Lost or Busy.
	Complete(ctx context.Context, id task.ID, f task.Fence, result json.RawMessage) (store.Answer, error)
	// Completed reports, for each row in order, whether the given fence has completed it, by Complete or by SQL.
	Completed(ctx context.Context, rows []store.Held) ([]bool, error)
}
