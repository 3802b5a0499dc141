package ops

import (
	"context"
	"fmt"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Enqueue checks the request and inserts its row, or does with the live one that has the same type and key what the request asks
// for. What is wrong with the request comes back as *InputError.
func Enqueue(ctx context.Context, s Store, r store.EnqueueRequest) (id task.ID, answer store.Enqueued, err error) {
	if err := r.Check(); err != nil {
		return 0, "", err
	}
	return s.Enqueue(ctx, r)
}

// Untaken returns why no present agent takes tasks of a type now; "" where one does.
func Untaken(ctx context.Context, s Store, typ string) (string, error) {
	paused, err := PauseOf(ctx, s, typ)
	if err != nil {
		return "", err
	}
	takers, err := s.Takers(ctx, typ)
	switch {
	case err != nil:
		return "", err
	case paused != nil:
		return fmt.Sprintf("the type %q is paused %s", typ, PausedSince(paused)), nil
	case takers.OfType > 0:
		return "", nil
	case takers.Agents == 0:
		return "no agent is running", nil
	}
	return fmt.Sprintf("no running agent declares the type %q", typ), nil
}
