package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
)

// Grant runs the scripts of Grants and AgentGrants for roles. It keeps other changes of the schema out meanwhile, as GRANT on one
// object fails where two do it at once.
func (m migrator) Grant(ctx context.Context, to store.Roles) (granted bool, err error) {
	look := func(ctx context.Context, q querier, l *layout) (bool, error) {
		have, err := m.s.version(ctx, q)
		if err == nil && have.Version < len(l.steps) {
			err = have.Admits(len(l.steps))
		}
		return err == nil && have.Version == len(l.steps), err
	}
	err = m.change(ctx, "grant", look, func(tx pgx.Tx, _ *layout) error {
		if err := m.grantees(ctx, tx, to); err != nil {
			return err
		}
		var script strings.Builder
		for _, role := range to.Agents {
			script.WriteString(AgentGrants(string(m.s.schema), role))
		}
		for _, role := range to.Applications {
			script.WriteString(Grants(string(m.s.schema), role, false))
		}
		for _, role := range to.Operators {
			script.WriteString(Grants(string(m.s.schema), role, true))
		}
		_, err := tx.Exec(ctx, script.String())
		granted = err == nil
		return err
	})
	return granted && err == nil, err
}

// grantees refuses roles that do not exist, and the role that owns the tables: what is revoked from an agent's role would keep the owner
// from migrating.
func (m migrator) grantees(ctx context.Context, tx pgx.Tx, to store.Roles) error {
	names := slices.Concat(to.Agents, to.Applications, to.Operators)
	slices.Sort(names)
	var missing, create []string
	var name, owner string
	var there, owns bool
	err := forEach(ctx, tx, []any{&name, &there, &owns}, func() error {
		switch {
		case !there:
			missing, create = append(missing, name), append(create, "CREATE ROLE "+quoteIdentifier(name)+" LOGIN;")
		case owns:
			owner = name
		}
		return nil
	}, m.s.sql.Grantees, arg("names", slices.Compact(names)), arg("schema", string(m.s.schema)))
	switch {
	case err != nil:
		return err
	case len(missing) > 0:
		return fmt.Errorf("there is no role %s, and nothing was granted: correct the name, or create it first (%s)",
			strings.Join(missing, ", "), strings.Join(create, " "))
	case owner != "":
		return fmt.Errorf("the role %s owns the tables of the schema %s, and needs no grants: leave it out, "+
			"or connect agents and applications as roles of their own", owner, m.s.schema)
	}
	return nil
}
