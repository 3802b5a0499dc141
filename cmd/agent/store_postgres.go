package main

import (
	"context"
	"log/slog"

	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/internal/store/postgres"
)

// postgresStore is the Postgres store as a dataStore.
type postgresStore struct{ *postgres.Store }

// Close ends all connections.
func (s postgresStore) Close() error {
	s.Store.Close()
	return nil
}

// openPostgres makes the store, which connects with the first call. report is called with the state of listening; nil: that is logged.
func openPostgres(ctx context.Context, c config.Store, log *slog.Logger, report func(error)) (dataStore, error) {
	s, err := postgres.Open(ctx, postgres.Options{
		URL: c.URL, Schema: c.Schema, Connections: c.Connections, Notify: c.Notify, Log: log, Report: report,
	})
	if err != nil {
		return nil, usagef("%s", config.RedactText(err.Error())) // pgx leaves a part of some passwords
	}
	return postgresStore{s}, nil
}
