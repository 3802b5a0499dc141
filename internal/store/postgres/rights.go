package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// explain adds to the error of a change of the schema which right is missing, and the statement that gives it. Other errors
// are returned as they are.
func (m migrator) explain(ctx context.Context, err error) error {
	if code(err) != codeRight {
		return err
	}
	var role, database, owner string
	looked := m.s.do(ctx, "look up rights", func(ctx context.Context, c *pgx.Conn) error {
		return queryRow(ctx, c, m.s.sql.Rights, arg("schema", string(m.s.schema))).Scan(&role, &database, &owner)
	})
	if looked != nil {
		return err
	}
	name, quoted := m.s.schema.quoted(), quoteIdentifier(role)
	switch owner {
	case "":
		return fmt.Errorf("%w; the role %s may not create the schema %s in the database %s: as the database's owner run "+
			"CREATE SCHEMA %s AUTHORIZATION %s; (or GRANT CREATE ON DATABASE %s TO %s;)",
			err, role, m.s.schema, database, name, quoted, quoteIdentifier(database), quoted)
	case role:
		return fmt.Errorf("%w; the role %s owns the schema %s, but not all that is in it: as a superuser run ALTER TABLE … "+
			"OWNER TO %s; for what belongs to another", err, role, m.s.schema, quoted)
	}
	return fmt.Errorf("%w; the schema %s belongs to the role %s, and only its owner can migrate it, or grant what is in it: connect as that role, "+
		"or as one that may act for it (GRANT %s TO %s;); an agent whose schema is up to date needs no more than "+
		"leasehold migrate grants --agent --role %s prints",
		err, m.s.schema, owner, quoteIdentifier(owner), quoted, role)
}
