//go:build bench

package lookbench_test

import (
	"context"
	"fmt"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
)

// listed reads a page.
func listed(ctx context.Context, s looker, f store.TaskFilter) (string, error) {
	p, err := ops.PageTasks(ctx, s, f, 0)
	found := fmt.Sprintf("%d tasks", len(p.Tasks))
	if p.LookedBack != nil {
		found += fmt.Sprintf(", looked back to %d", p.LookedBack.ID)
	}
	return found, err
}
