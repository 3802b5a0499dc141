package lease

import "context"

// Sign writes one sign of life now.
func (k *Keeper) Sign(ctx context.Context) (strays []Held, err error) { return k.present(ctx) }
