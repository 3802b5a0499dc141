package pgsource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/chunk"
)

// shape is what is known of the table: names as they stand in SQL.
type shape struct {
	table  string // with its schema
	column string // with the table's name
	cast   string // the key's type
	order  string // COLLATE and its collation; empty: the database's, or none
}

// value is a parameter as a key.
func (sh *shape) value(n int) string {
	return "$" + strconv.Itoa(n) + "::pg_catalog.text::" + sh.cast + sh.order
}

// text is the key as text.
func (sh *shape) text() string { return sh.column + "::pg_catalog.text" }

// looked returns the table's shape, and checks the table first where that is not known.
func (s *Source) looked(ctx context.Context) (*shape, error) {
	s.mu.Lock()
	sh := s.shape
	s.mu.Unlock()
	if sh != nil {
		return sh, nil
	}
	return s.check(ctx)
}

// Check is chunk.Source's.
func (s *Source) Check(ctx context.Context) error {
	_, err := s.check(ctx)
	return err
}

func (s *Source) check(ctx context.Context) (*shape, error) {
	var sh *shape
	err := s.transact(ctx, slack, func(ctx context.Context, tx pgx.Tx) (err error) {
		if sh, err = s.lookUp(ctx, tx); err != nil {
			return err
		}
		if err := s.checkWhere(ctx, tx, sh); err != nil {
			return err
		}
		if err := s.checkOrder(ctx, tx, sh); err != nil {
			return err
		}
		return s.checkThrottle(ctx, tx)
	})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.shape = sh
	s.mu.Unlock()
	return sh, nil
}

// column is the catalogue's entry of the key.
const column = `SELECT cl.relkind::text, pg_catalog.quote_ident(ns.nspname), pg_catalog.quote_ident(cl.relname),
	att.attnum IS NOT NULL, coalesce(att.attnotnull, false), coalesce(ty.typname::text, ''),
	coalesce(tn.nspname = 'pg_catalog', false),
	coalesce(co.collisdeterministic, true), coalesce(co.collprovider::text <> 'd', false),
	coalesce(pg_catalog.quote_ident(cn.nspname) || '.' || pg_catalog.quote_ident(co.collname), '')
FROM pg_catalog.pg_class cl
JOIN pg_catalog.pg_namespace ns ON ns.oid = cl.relnamespace
LEFT JOIN pg_catalog.pg_attribute att ON att.attrelid = cl.oid AND att.attname = $2 AND att.attnum > 0 AND NOT att.attisdropped
LEFT JOIN pg_catalog.pg_type ty ON ty.oid = att.atttypid
LEFT JOIN pg_catalog.pg_namespace tn ON tn.oid = ty.typnamespace
LEFT JOIN pg_catalog.pg_collation co ON co.oid = att.attcollation
LEFT JOIN pg_catalog.pg_namespace cn ON cn.oid = co.collnamespace
WHERE cl.oid = pg_catalog.to_regclass($1)`

// kinds are the types of keys.
const kinds = "a column of type smallint, integer, bigint, uuid, text, varchar, timestamp or timestamptz"

// lookUp finds the table and its key.
func (s *Source) lookUp(ctx context.Context, tx pgx.Tx) (*shape, error) {
	var kind, schema, table, typ, collation string
	var exists, notNull, builtIn, deterministic, named bool
	err := tx.QueryRow(ctx, column, s.o.Table, s.o.Key).Scan(
		&kind, &schema, &table, &exists, &notNull, &typ, &builtIn, &deterministic, &named, &collation)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, s.invalid("this role finds no such table", "name a table that exists, with its schema")
	case err != nil:
		return nil, err
	case kind != "r" && kind != "p":
		return nil, s.invalid("it is no table", "name the table itself; a view has no index")
	case !exists:
		return nil, s.invalid("the table has no such column", "name "+kinds+", exactly as the table spells it")
	case !notNull:
		return nil, s.invalid("the key can be NULL, and such rows would be in no chunk", "declare the column NOT NULL, or cut by another one")
	case !deterministic:
		return nil, s.invalid("the key's collation is not deterministic: different keys count as equal",
			"cut by a column with a deterministic collation, such as \"C\"")
	}
	switch typ {
	case "int2", "int4", "int8", "uuid", "text", "varchar", "timestamp", "timestamptz":
	default:
		builtIn = false
	}
	if !builtIn {
		return nil, s.invalid("keys of type "+typ+" cannot be cut", "name "+kinds)
	}
	sh := &shape{
		table: schema + "." + table, column: table + "." + pgx.Identifier{s.o.Key}.Sanitize(), cast: "pg_catalog." + typ,
	}
	if named {
		sh.order = " COLLATE " + collation
	}
	return sh, nil
}

// checkWhere has the server read the condition. Between WHEN and THEN nothing can close the brackets around it.
func (s *Source) checkWhere(ctx context.Context, tx pgx.Tx, sh *shape) error {
	if s.o.Where == "" {
		return nil
	}
	_, err := tx.Exec(ctx, "SELECT CASE WHEN "+s.o.Where+"\nTHEN 1 END FROM "+sh.table+" LIMIT 0")
	return err
}

// checkOrder has the server plan a look: the judge of whether an index has the order is the one that will have to use it.
func (s *Source) checkOrder(ctx context.Context, tx pgx.Tx, sh *shape) error {
	f := sh.rows(nil, nil, s.o.Where)
	var text []byte
	err := tx.QueryRow(ctx, "EXPLAIN (FORMAT JSON) SELECT "+sh.column+" "+f.text+sh.at(100), f.args...).Scan(&text)
	if err != nil {
		return err
	}
	var plans []struct {
		Plan plan `json:"Plan"`
	}
	if err = json.Unmarshal(text, &plans); err != nil || len(plans) != 1 {
		return fmt.Errorf("read the plan of a look at table %s: %w", s.o.Table, errors.Join(err, errors.New("unexpected reply")))
	}
	if node := plans[0].Plan.bad(); node != "" {
		return s.invalid("no index has the order of the key (the plan would need a "+node+")",
			"CREATE INDEX CONCURRENTLY ON "+sh.table+" ("+pgx.Identifier{s.o.Key}.Sanitize()+")")
	}
	return nil
}

// plan is a node of a plan.
type plan struct {
	Node     string `json:"Node Type"`
	Relation string `json:"Parent Relationship"`
	Plans    []plan `json:"Plans"`
}

// bad is the first node that reads more than was asked for; "" where there is none. What the condition looks up is its own business.
func (p *plan) bad() string {
	switch p.Node {
	case "Sort", "Incremental Sort", "Seq Scan", "Bitmap Heap Scan", "Tid Scan", "Foreign Scan", "Aggregate", "Hash Join", "Gather", "Gather Merge":
		return p.Node
	}
	for i := range p.Plans {
		if r := p.Plans[i].Relation; r == "SubPlan" || r == "InitPlan" {
			continue
		}
		if node := p.Plans[i].bad(); node != "" {
			return node
		}
	}
	return ""
}

// checkThrottle sees to it that what planning waits for can be seen.
func (s *Source) checkThrottle(ctx context.Context, tx pgx.Tx) error {
	if s.o.OldestTransaction > 0 {
		var may bool
		if err := tx.QueryRow(ctx, "SELECT pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE')").Scan(&may); err != nil {
			return err
		}
		if !may {
			return s.invalid("oldest_transaction needs to see the transactions of other roles", "GRANT pg_read_all_stats to this role")
		}
	}
	if s.o.When == "" {
		return nil
	}
	_, err := s.when(ctx, tx)
	return err
}

var _ chunk.Reader = reader{}
