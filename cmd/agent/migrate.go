package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres"
)

type migrateCmd struct {
	Up     migrateUpCmd     `cmd:"" default:"withargs" help:"Migrate the schema to this binary's version."`
	Down   migrateDownCmd   `cmd:"" help:"Revert the newest migration."`
	Status migrateStatusCmd `cmd:"" help:"List the migrations, and which of them are applied."`
	SQL    migrateSQLCmd    `cmd:"" name:"sql" help:"Print the migrations as SQL, to apply them by hand."`
	Grants migrateGrantsCmd `cmd:"" help:"Print the grants for a role: an application's, an operator's or an agent's (PostgreSQL)."`
}

// migrateTimeout bounds one change of the schema; others may be at it, and tables may be large.
const migrateTimeout = 10 * time.Minute

// inUTC returns migrations as they are printed.
func inUTC(migrations []store.Migration) []store.Migration {
	for i := range migrations {
		if m := &migrations[i]; m.Applied != nil {
			utc := m.Applied.UTC()
			m.Applied = &utc
		}
	}
	return migrations
}

func stepRow(s store.Migration) table.Row {
	applied := timeOf(s.Applied)
	if applied == "" {
		applied = "not yet"
	}
	return table.Row{s.Version, s.Name, applied}
}

func stepHeader() table.Row { return table.Row{"VERSION", "NAME", "APPLIED"} }

type migrateUpCmd struct {
	MaxPayload       *byteSize `help:"Set the store's limit on payloads and rollback payloads, 128KiB to 64MiB; the store keeps it." placeholder:"SIZE"`
	GrantAgent       []string  `help:"Then grant this role what agents need (PostgreSQL); may be repeated." placeholder:"ROLE" sep:"none"`
	GrantApplication []string  `help:"Then grant this role what an application needs (PostgreSQL); may be repeated." placeholder:"ROLE" sep:"none"`
	GrantOperator    []string  `help:"Then grant this role what an operator needs for SQL (PostgreSQL); may be repeated." placeholder:"ROLE" sep:"none"`
}

// Help gives examples.
func (*migrateUpCmd) Help() string {
	return `You may run it any number of times, and on several hosts at once. dev and run migrate a SQLite store automatically.

A payload has at most 1 MiB, unless --max-payload has set another limit. The limit applies to new rows only: existing rows can
be run, retried and rolled back.

The grants are those that migrate grants prints. Repeat them with each migration: they cover what it has added. They are made
in one transaction, after the migration; the roles must exist.

Examples:

    leasehold migrate up
    leasehold migrate --max-payload 8MiB
    leasehold migrate up --grant-agent leasehold_agent \
        --grant-application app
    leasehold migrate up --store postgres://owner@db/app`
}

// Run migrates.
func (c *migrateUpCmd) Run(a *app) error {
	if c.MaxPayload != nil {
		if err := store.CheckMaxPayload(int64(*c.MaxPayload)); err != nil {
			return usagef("--max-payload: %w", err)
		}
	}
	if err := c.checkGrants(a); err != nil {
		return err
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
				if _, err := fmt.Fprintf(a.out, "maximum payload size: %s\n", store.Size(int64(*c.MaxPayload))); err != nil {
					return err
				}
			}
		}
		if err := c.grant(call, a, s); err != nil {
			return err
		}
		if len(done) == 0 && a.cli.Output == "table" {
			_, err := fmt.Fprintln(a.out, "the schema is up to date")
			return err
		}
		return printList(a, inUTC(done), stepHeader(), stepRow)
	})
}

// roles are those that are to get grants.
func (c *migrateUpCmd) roles() store.Roles {
	return store.Roles{Agents: c.GrantAgent, Applications: c.GrantApplication, Operators: c.GrantOperator}
}

// all lists the roles.
func (c *migrateUpCmd) all() []string {
	return slices.Concat(c.GrantAgent, c.GrantApplication, c.GrantOperator)
}

// checkGrants refuses, before anything is migrated, what cannot be granted.
func (c *migrateUpCmd) checkGrants(a *app) error {
	if len(c.all()) == 0 {
		return nil
	}
	if slices.Contains(c.all(), "") {
		return usagef("--grant-agent, --grant-application, --grant-operator: the name of the role is empty")
	}
	p, err := a.findPlace()
	if err == nil && p.embedded() {
		err = noRoles(p)
	}
	return err
}

// grant grants the roles what they need.
func (c *migrateUpCmd) grant(ctx context.Context, a *app, s dataStore) error {
	if len(c.all()) == 0 {
		return nil
	}
	granted, err := s.Migrator().Grant(ctx, c.roles())
	if err != nil || a.cli.Output != "table" {
		return err
	}
	text := "granted what each needs: " + ops.OneLine(strings.Join(c.all(), ", "), 400)
	if !granted {
		text = "nothing granted: a newer leasehold has migrated the schema, and knows what its roles need"
	}
	_, err = fmt.Fprintln(a.out, text)
	return err
}

// noRoles refuses grants on a file.
func noRoles(p place) error {
	return usagef("a SQLite file has no roles: any user who can write the file has full access (%s)", p)
}

type migrateDownCmd struct {
	Yes bool `help:"Confirm the deletion of all tasks, if reverting this step deletes them."`
}

// Help gives examples.
func (migrateDownCmd) Help() string {
	return `Refuses while agents are present. Requires --yes if tasks would be deleted.

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
			deletes, err := ops.DownDeletesTasks(call, s.Migrator(), s)
			if err != nil {
				return err
			}
			if deletes {
				return usagef("this deletes the tables with all tasks in them: confirm with --yes")
			}
		}
		gone, err := s.Migrator().Down(call)
		if err != nil {
			return err
		}
		gone.Applied = nil
		return printList(a, []store.Migration{gone}, stepHeader(), stepRow)
	})
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
		have, err := s.Migrator().Schema(call)
		if err != nil {
			return err
		}
		if err := printStatus(call, a, s, have, inUTC(all)); err != nil {
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
	Steps      []store.Migration `json:"steps"`
	Version    int               `json:"version"`     // of the store's schema; 0: there is none
	Oldest     int               `json:"oldest"`      // the oldest binary, by its schema version, that may work on it
	Binary     int               `json:"binary"`      // the newest version that this binary knows
	MaxPayload int64             `json:"max_payload"` // bytes; 0: the schema has no bound yet
}

func printStatus(ctx context.Context, a *app, s dataStore, have store.Schema, all []store.Migration) error {
	bound, err := s.Migrator().MaxPayload(ctx)
	if err != nil {
		return err
	}
	if a.cli.Output != "table" {
		return a.print(schemaStatus{all, have.Version, have.Oldest, len(all), bound}, nil)
	}
	if err := printList(a, all, stepHeader(), stepRow); err != nil {
		return err
	}
	if have.Version > len(all) && have.Admits(len(all)) == nil {
		_, err := fmt.Fprintf(a.out, "\nschema version %d; binaries that know version %d or later may work on it (this one knows %d)\n",
			have.Version, have.Oldest, len(all))
		if err != nil {
			return err
		}
	}
	if bound == 0 {
		return nil
	}
	_, err = fmt.Fprintf(a.out, "\nmaximum payload size: %s (--max-payload)\n", store.Size(bound))
	return err
}

type migrateSQLCmd struct {
	From int `help:"Only the migrations after this version." default:"0" placeholder:"VERSION"`
}

// Help gives examples.
func (migrateSQLCmd) Help() string {
	return `The script also records the versions that it applies.

Examples:

    leasehold migrate sql --store postgres://db/app > schema.sql
    leasehold migrate sql --from 1 | psql "$DATABASE_URL"`
}

type migrateGrantsCmd struct {
	Role     string `help:"Name of the role." required:"" placeholder:"ROLE"`
	Operator bool   `help:"Print an operator's grants, in addition to an application's." xor:"kind"`
	Agent    bool   `help:"Print the grants of an agent that does not own the schema. Repeat this after each migrate up." xor:"kind"`
}

// Help gives examples.
func (migrateGrantsCmd) Help() string {
	return `Examples:

    leasehold migrate grants --role app | psql "$DATABASE_URL"
    leasehold migrate grants --role oncall --operator
    leasehold migrate grants --role leasehold_agent --agent |
        psql postgres://owner@db/app`
}

// printSQL writes a script as it is, or as one field of JSON.
func (a *app) printSQL(text string) error {
	return a.print(map[string]string{"sql": text}, func(w io.Writer) error {
		_, err := io.WriteString(unfolded(w), text)
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
		return noRoles(p)
	}
	if c.Agent {
		return a.printSQL(postgres.AgentGrants(p.Schema, c.Role))
	}
	return a.printSQL(postgres.Grants(p.Schema, c.Role, c.Operator))
}
