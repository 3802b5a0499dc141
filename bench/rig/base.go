package rig

import "context"

// Base is the database of one run.
type Base interface {
	// URL is how the measured process connects.
	URL() string
	// Read reads the server's counters once all sessions have disconnected.
	Read(ctx context.Context) (Counters, error)
	// Count runs a query that gives one number.
	Count(ctx context.Context, sql string, args ...any) (int64, error)
	Drop(ctx context.Context) error
}

// Counters are the server's, at one moment.
type Counters struct {
	CPU        float64 // seconds, of all the server's processes
	WAL        int64   // bytes written so far
	Commits    int64   // of the database
	Statements int64   // of the database; -1: not known
	ClaimTime  float64 // seconds that the server was at work on the contender's claims
	ClaimRows  int64   // that they took
}

// Sub gives what came since.
func (c Counters) Sub(before Counters) Counters {
	return Counters{
		CPU: c.CPU - before.CPU, WAL: c.WAL - before.WAL, Commits: c.Commits - before.Commits,
		Statements: c.Statements - before.Statements,
		ClaimTime:  c.ClaimTime - before.ClaimTime, ClaimRows: c.ClaimRows - before.ClaimRows,
	}
}
