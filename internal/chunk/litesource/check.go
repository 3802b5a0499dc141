package litesource

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/leasehold/leasehold/internal/chunk"
)

// shape is what is known of the table: names as they stand in SQL.
type shape struct {
	table  string
	column string // with the table's name
	class  string // that keys are stored in: integer or text
	order  string // COLLATE and the column's collation; empty: the values' own
	some   string // INDEXED BY … for looks with the condition; empty: the planner chooses well
	whole  string // the same for looks at all rows
}

// value is a key as the driver binds it.
func (sh *shape) value(k chunk.Key) (any, error) {
	if sh.class != integer {
		return string(k), nil
	}
	n, err := strconv.ParseInt(string(k), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("the key %q of table %s is no integer", string(k), sh.table)
	}
	return n, nil
}

// The classes of keys (https://sqlite.org/datatype3.html).
const (
	integer = "integer"
	text    = "text"
)

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
	var empty bool
	err := s.transact(ctx, slack, func(ctx context.Context, tx *sql.Tx) error {
		col, err := s.lookUp(ctx, tx)
		if err != nil {
			return err
		}
		sh = &shape{table: quote(s.o.Table), column: quote(s.o.Table) + "." + quote(col.name)}
		if err := s.checkWhere(ctx, tx, sh); err != nil {
			return err
		}
		if err := s.checkOrder(ctx, tx, sh, col); err != nil {
			return err
		}
		if sh.class, empty, err = s.classOf(ctx, tx, sh, col); err != nil || s.o.When == "" {
			return err
		}
		_, err = s.when(ctx, tx)
		return err
	})
	if err != nil {
		return nil, err
	}
	if !empty { // what an empty table will hold is guessed, and looked at again
		s.mu.Lock()
		s.shape = sh
		s.mu.Unlock()
	}
	return sh, nil
}

// keyColumn is what the schema says about the key.
type keyColumn struct {
	name     string // as the table spells it
	declared string // its type, in upper case
	rowid    bool   // it is the number of the row itself
}

// lookUp finds the table and its key.
func (s *Source) lookUp(ctx context.Context, tx *sql.Tx) (c keyColumn, err error) {
	var kind string
	var withoutRowid bool
	err = tx.QueryRowContext(ctx, `SELECT type, wr FROM pragma_table_list(?1) WHERE schema = 'main'`, s.o.Table).Scan(&kind, &withoutRowid)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return c, s.invalid("the file "+s.o.Path+" has no such table", "name a table that exists")
	case err != nil:
		return c, err
	case kind != "table":
		return c, s.invalid("it is no table", "name the table itself; a view has no index")
	}
	var notNull, hidden bool
	var pk, pks int
	err = tx.QueryRowContext(ctx, `SELECT name, upper(type), "notnull", pk, hidden, (SELECT count(*) FROM pragma_table_xinfo(?1) WHERE pk > 0)
		FROM pragma_table_xinfo(?1) WHERE lower(name) = lower(?2)`, s.o.Table, s.o.Key).Scan(&c.name, &c.declared, &notNull, &pk, &hidden, &pks)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return c, s.invalid("the table has no such column", "name "+kinds)
	case err != nil:
		return c, err
	}
	c.rowid = pk == 1 && pks == 1 && c.declared == "INTEGER" && !withoutRowid
	if c.rowid { // INTEGER PRIMARY KEY DESC is none: then there is an index
		var indexes int
		err = tx.QueryRowContext(ctx, `SELECT count(*) FROM pragma_index_list(?1) WHERE origin = 'pk'`, s.o.Table).Scan(&indexes)
		if err != nil {
			return c, err
		}
		c.rowid = indexes == 0
	}
	if !c.rowid && !notNull {
		return c, s.invalid("the key can be NULL, and such rows would be in no chunk", "declare the column NOT NULL, or cut by another one")
	}
	return c, nil
}

// kinds are the types of keys.
const kinds = "a column of integers, or of text (uuids and timestamps are text)"

// checkWhere has SQLite read the condition. Between WHEN and THEN nothing can close the brackets around it.
func (s *Source) checkWhere(ctx context.Context, tx *sql.Tx, sh *shape) error {
	if s.o.Where == "" {
		return nil
	}
	var n sql.NullInt64
	err := tx.QueryRowContext(ctx, "SELECT CASE WHEN "+s.o.Where+"\nTHEN 1 END FROM "+sh.table+" LIMIT 0").Scan(&n)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return err
}

// checkOrder finds by which index a look reads in the order of the key, and the collation of that.
func (s *Source) checkOrder(ctx context.Context, tx *sql.Tx, sh *shape, c keyColumn) error {
	candidates := []string{""}
	if c.rowid {
		candidates = append(candidates, " NOT INDEXED")
	}
	names, err := s.indexes(ctx, tx, c.name)
	if err != nil {
		return err
	}
	for _, name := range names {
		candidates = append(candidates, " INDEXED BY "+quote(name))
	}
	if sh.whole, err = s.choose(ctx, tx, sh, c, candidates, ""); err != nil {
		return err
	}
	sh.some = sh.whole
	if s.o.Where != "" { // an index that has the condition, too, is better, where the planner takes it
		whole := sh.whole
		if sh.some, err = s.choose(ctx, tx, sh, c, candidates, s.o.Where); err != nil {
			return err
		}
		sh.whole = whole
	}
	if c.rowid {
		return nil
	}
	return s.collation(ctx, tx, sh, c)
}

// choose returns the first index by which a look reads in order.
func (s *Source) choose(ctx context.Context, tx *sql.Tx, sh *shape, c keyColumn, candidates []string, where string) (string, error) {
	for _, by := range candidates {
		sh.some, sh.whole = by, by
		if good, err := s.ordered(ctx, tx, sh, c, where); err != nil || good {
			return by, err
		}
	}
	return "", s.invalid("no index has the order of the key",
		"CREATE INDEX "+quote(s.o.Table+"_"+c.name)+" ON "+quote(s.o.Table)+" ("+quote(c.name)+")")
}

// indexes are those that have the key, those that begin with it first.
func (s *Source) indexes(ctx context.Context, tx *sql.Tx, column string) (names []string, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT il.name FROM pragma_index_list(?1) il JOIN pragma_index_xinfo(il.name) ix
		WHERE ix.name = ?2 AND ix.key = 1 ORDER BY ix.seqno, il.partial, il.name`, s.o.Table, column)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, rows.Err()
}

// ordered reports whether looks, from the table's begin and from a key, find their rows by index and in order. It asks for the plan.
func (s *Source) ordered(ctx context.Context, tx *sql.Tx, sh *shape, c keyColumn, where string) (bool, error) {
	f, err := sh.rows(nil, nil, where)
	if err != nil {
		return false, err
	}
	for _, from := range []string{"", " AND " + sh.column + " > ?1"} {
		var args []any
		if from != "" {
			args = []any{""}
		}
		plan, err := s.plan(ctx, tx, "SELECT "+sh.column+" "+f.text+from+sh.at(100), args)
		if err != nil {
			if strings.Contains(err.Error(), "no query solution") || strings.Contains(err.Error(), "no such index") {
				return false, nil // the index cannot be used for this
			}
			return false, err
		}
		if !inOrder(plan, c, from != "") {
			return false, nil
		}
	}
	return true, nil
}

// inOrder reports whether a plan sorts nothing and, from a key on, begins at that key.
func inOrder(plan []string, c keyColumn, from bool) bool {
	sought := !from
	for _, step := range plan {
		if strings.Contains(step, "TEMP B-TREE") || strings.Contains(step, "AUTOMATIC") {
			return false
		}
		if strings.Contains(step, c.name+">?") || c.rowid && strings.Contains(step, "(rowid>?") {
			sought = true
		}
	}
	return sought
}

// plan is the plan of a statement.
func (s *Source) plan(ctx context.Context, tx *sql.Tx, text string, args []any) (steps []string, err error) {
	rows, err := tx.QueryContext(ctx, "EXPLAIN QUERY PLAN "+text, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			return nil, err
		}
		steps = append(steps, detail)
	}
	return steps, rows.Err()
}

// collation finds that of the column: it is the one with which the order of an index on the key is the column's.
func (s *Source) collation(ctx context.Context, tx *sql.Tx, sh *shape, c keyColumn) error {
	names, err := s.collations(ctx, tx, c.name)
	if err != nil {
		return err
	}
	for _, name := range names {
		sh.order = " COLLATE " + quote(name)
		plan, err := s.plan(ctx, tx, "SELECT "+sh.column+" FROM "+sh.table+sh.whole+" ORDER BY "+sh.column+sh.order, nil)
		if err == nil && inOrder(plan, c, false) {
			return nil
		}
	}
	return s.invalid("the order of the key is not that of its index", "CREATE INDEX with the collation of the column")
}

// collations returns those of the column in indexes.
func (s *Source) collations(ctx context.Context, tx *sql.Tx, column string) (names []string, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT DISTINCT ix.coll FROM pragma_index_list(?1) il JOIN pragma_index_xinfo(il.name) ix
		WHERE ix.name = ?2 AND ix.key = 1 ORDER BY 1`, s.o.Table, column)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, rows.Err()
}

// classOf finds the class that keys are stored in. Classes lie one behind another in an index, so its ends show whether there is more
// than one. Numbers with a fraction may lie between integers: no range ends with one.
func (s *Source) classOf(ctx context.Context, tx *sql.Tx, sh *shape, c keyColumn) (class string, empty bool, err error) {
	var ends [2]string
	for i, way := range []string{"", " DESC"} {
		err = tx.QueryRowContext(ctx, "SELECT typeof("+sh.column+") FROM "+sh.table+sh.whole+" ORDER BY "+sh.column+way+" LIMIT 1").Scan(&ends[i])
		if errors.Is(err, sql.ErrNoRows) {
			if c.rowid || strings.Contains(c.declared, "INT") {
				return integer, true, nil
			}
			return text, true, nil
		}
		if err != nil {
			return "", false, err
		}
	}
	switch {
	case ends[0] != ends[1]:
		return "", false, s.mixed(ends[0], ends[1])
	case ends[0] != integer && ends[0] != text:
		return "", false, s.invalid("keys stored as "+ends[0]+" cannot be cut", "name "+kinds)
	}
	return ends[0], false, nil
}

func (s *Source) mixed(a, b string) error {
	return s.invalid("some keys are stored as "+a+" and others as "+b,
		"make all of them the same, and declare the table STRICT or the column with a CHECK of its typeof()")
}
