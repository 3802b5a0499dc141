package postgres

import "context"

// Statements are the hot calls' texts.
func (s *Store) Statements() map[string]string {
	return map[string]string{
		"claim": s.sql.claim, "claim in a region": s.sql.claimRegion, "claimed": s.sql.claimed, "next due": s.sql.nextDue,
		"settle": s.sql.settle, "settle: told": s.sql.told, "settle: kept": s.sql.kept, "renew": s.sql.renew,
		"renew: told": s.sql.renewTold, "sweep": s.sql.sweep, "present": s.sql.present, "get": s.sql.get,
	}
}

// Show reads a setting of the store's connections.
func (s *Store) Show(ctx context.Context, name string) (value string, err error) {
	err = s.pool.QueryRow(ctx, "SELECT current_setting($1)", name).Scan(&value)
	return value, err
}

// Spoil makes all the pool's connections read-only, as a failover does.
func (s *Store) Spoil(ctx context.Context) error {
	for _, c := range s.pool.AcquireAllIdle(ctx) {
		_, err := c.Exec(ctx, "SET default_transaction_read_only = on")
		c.Release()
		if err != nil {
			return err
		}
	}
	return nil
}
