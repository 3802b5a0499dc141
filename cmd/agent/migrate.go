package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres"
)

type migrateCmd struct {
	Up     migrateUpCmd     `cmd:"" default:"withargs" help:"Bring the schema to this binary's version."`
	Down   migrateDownCmd   `cmd:"" help:"Take back the newest step."`
	Status migrateStatusCmd `cmd:"" help:"List the steps, and which the store has."`
	SQL    migrateSQLCmd    `cmd:"" name:"sql" help:"Print the steps as SQL, for those who migrate by hand."`
	Grants migrateGrantsCmd `cmd:"" help:"Print what a role needs: an application's, an operator's or an agent's (Postgres)."`
}

// migrateTimeout bounds one change of the schema; others may be at it, and tables may be large.
const migrateTimeout = 10 * time.Minute

// step is a migration as it is printed.
type step struct {
	Version int        `json:"version"`
	Name    string     `json:"name"`
	Applied *time.Time `json:"applied_at"`
}

func steps(migrations []store.Migration) []step {
	list := make([]step, 0, len(migrations))
	for _, m := range migrations {
		if m.Applied != nil {
			utc := m.Applied.UTC()
			m.Applied = &utc
		}
		list = append(list, step(m))
	}
	return list
}

func stepRow(s step) table.Row {
	applied := timeOf(s.Applied)
	if applied == "" {
		applied = "not yet"
	}
	return table.Row{s.Version, s.Name, applied}
}

func stepHeader() table.Row { return table.Row{"VERSION", "NAME", "APPLIED"} }

type migrateUpCmd struct {
	MaxPayload *byteSize `help:"Set the store's bound on payloads and rollback payloads, 128KiB to 64MiB; it is kept." placeholder:"SIZE"`
}

// Help gives examples.
func (migrateUpCmd) Help() string {
	return `It may run any number of times, and on several hosts at once. The embedded store is migrated by dev and run.

A payload is 1 MiB at most, unless --max-payload has set another bound. Rows that are there are not looked at, and can be
run, retried and rolled back whatever the bound is now.

Examples:

    leasehold migrate up
    leasehold migrate --max-payload 8MiB
    leasehold migrate up --store postgres://owner@db/app`
}

// Run migrates.
func (c migrateUpCmd) Run(a *app) error {
	if c.MaxPayload != nil {
		if err := store.CheckMaxPayload(int64(*c.MaxPayload)); err != nil {
			return usagef("--max-payload: %w", err)
		}
	}
	return a.withStore(func(ctx context.Context, s dataStore) error {
		call, cancel := context.WithTimeout(ctx, migrateTimeout)
		defer cancel()
		done, err := s.Migrator().Up(call)
		if err != nil {
			return err
		}
		if c.MaxPayload != nil {
			if err := s.Migrator().SetMaxPayload(call, int64(*c.MaxPayload)); err != nil {
				return err
			}
			if a.cli.Output == "table" {
				if _, err := fmt.Fprintf(a.out, "payloads may be %s at most\n", store.Size(int64(*c.MaxPayload))); err != nil {
					return err
				}
			}
		}
		if len(done) == 0 && a.cli.Output == "table" {
			_, err := fmt.Fprintln(a.out, "the schema is up to date")
			return err
		}
		return printList(a, steps(done), stepHeader(), stepRow)
	})
}

type migrateDownCmd struct {
	Yes bool `help:"Do it although the store holds tasks that go with it."`
}

// Help gives examples.
func (migrateDownCmd) Help() string {
	return `It refuses while agents are present, and without --yes where tasks would be deleted.

Examples:

    leasehold migrate down
    leasehold migrate down --yes --store postgres://owner@db/app`
}

// Run takes back the newest step.
func (c migrateDownCmd) Run(a *app) error {
	return a.withStore(func(ctx context.Context, s dataStore) error {
		call, cancel := context.WithTimeout(ctx, migrateTimeout)
		defer cancel()
		if !c.Yes {
			if err := spareTasks(call, s); err != nil {
				return err
			}
		}
		gone, err := s.Migrator().Down(call)
		if err != nil {
			return err
		}
		gone.Applied = nil
		return printList(a, steps([]store.Migration{gone}), stepHeader(), stepRow)
	})
}

// spareTasks refuses to take back the first step, which the tables came with, while there are tasks in them.
func spareTasks(ctx context.Context, s dataStore) error {
	status, err := s.Migrator().Status(ctx)
	if err != nil {
		return err
	}
	applied := 0
	for _, m := range status {
		if m.Applied != nil {
			applied++
		}
	}
	if applied != 1 {
		return nil
	}
	// The tables of an earlier version may not be such that this binary can read them.
	if found, err := s.List(ctx, ops.Filter{Limit: 1}); err != nil || len(found) > 0 {
		return usagef("this would delete the tables with every task in them: say --yes if that is meant")
	}
	return nil
}

type migrateStatusCmd struct{}

// Help gives examples.
func (migrateStatusCmd) Help() string {
	return "Examples:\n\n    leasehold migrate status\n    leasehold migrate status -o json --store sqlite:leasehold.db"
}

// Run lists the steps.
func (migrateStatusCmd) Run(a *app) error {
	return a.withStore(func(ctx context.Context, s dataStore) error {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		all, err := s.Migrator().Status(call)
		if err != nil {
			return err
		}
		if err := printStatus(call, a, s, steps(all)); err != nil {
			return err
		}
		// The steps of a newer binary cannot be listed. Where they keep this binary out, the list alone would mislead.
		if err := s.Ping(call); store.IsTooNew(err) {
			return err
		}
		return nil
	})
}

// schemaStatus is what the status is as JSON.
type schemaStatus struct {
	Steps      []step `json:"steps"`
	MaxPayload int64  `json:"max_payload"` // bytes; 0: the schema has no bound yet
}

func printStatus(ctx context.Context, a *app, s dataStore, all []step) error {
	bound, err := s.Migrator().MaxPayload(ctx)
	if err != nil {
		return err
	}
	if a.cli.Output != "table" {
		return a.print(schemaStatus{all, bound}, nil)
	}
	if err := printList(a, all, stepHeader(), stepRow); err != nil || bound == 0 {
		return err
	}
	_, err = fmt.Fprintf(a.out, "\npayloads may be %s at most (--max-payload)\n", store.Size(bound))
	return err
}

type migrateSQLCmd struct {
	From int `help:"Only the steps after this version." default:"0" placeholder:"VERSION"`
}

// Help gives examples.
func (migrateSQLCmd) Help() string {
	return `The script also records the versions that it brings.

Examples:

    leasehold migrate sql --store postgres://db/app > schema.sql
    leasehold migrate sql --from 1 | psql "$DATABASE_URL"`
}

type migrateGrantsCmd struct {
	Role     string `help:"The application's role, or the agent's." required:"" placeholder:"ROLE"`
	Operator bool   `help:"What an operator's role needs, beside what an application's does." xor:"kind"`
	Agent    bool   `help:"What an agent's role needs that does not own the schema. Run it again after each migrate up." xor:"kind"`
}

// Help gives examples.
func (migrateGrantsCmd) Help() string {
	return `Examples:

    leasehold migrate grants --role app | psql "$DATABASE_URL"
    leasehold migrate grants --role oncall --operator
    leasehold migrate grants --role leasehold_agent --agent | psql postgres://owner@db/app`
}

// printSQL writes a script as it is, or as one field of JSON.
func (a *app) printSQL(text string) error {
	return a.print(map[string]string{"sql": text}, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
}

// Run prints the steps.
func (c migrateSQLCmd) Run(a *app) error {
	return a.withStore(func(_ context.Context, s dataStore) error {
		text, err := s.Migrator().SQL(c.From)
		if err != nil {
			return usagef("%w", err)
		}
		return a.printSQL(text)
	})
}

// Run prints the grants.
func (c migrateGrantsCmd) Run(a *app) error {
	p, err := a.findPlace()
	if err != nil {
		return err
	}
	if p.embedded() {
		return usagef("a SQLite file has no roles: whoever may write the file may do everything (%s)", p)
	}
	if c.Agent {
		return a.printSQL(postgres.AgentGrants(p.Schema, c.Role))
	}
	return a.printSQL(postgres.Grants(p.Schema, c.Role, c.Operator))
}
