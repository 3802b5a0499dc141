package config

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/leasehold/leasehold/internal/chunk"
	"github.com/leasehold/leasehold/internal/task"
)

// Defaults and bounds of the chunks block.
const (
	maxPlanName    = 200 // bytes
	maxTableName   = 255 // bytes, of a key, too
	maxSQL         = 16 << 10
	defaultAhead   = 64
	maxAhead       = 10_000
	minFollow      = time.Second
	minOldest      = time.Second
	storeIsAnother = "unless --store or LEASEHOLD_STORE names a PostgreSQL database"
)

// Chunks is a chunks block: a plan, and the source of its ranges.
type Chunks struct {
	Spec   chunk.Spec
	Source ChunkSource
}

// ChunkSource is where the plan's table is, what of it is cut, and what planning waits for.
type ChunkSource struct {
	URL   string // as Store.URL; "": the table is in the store's database. May hold a password
	Where string // a condition in SQL; "": all rows

	OldestTransaction time.Duration // planning waits while a transaction is older; 0: it does not. Never set with a URL of SQLite
	When              string        // planning waits while this query returns true; "": it does not
}

func chunksShape() *shape {
	return &shape{
		name: "chunks", label: "a name", attrs: []string{"task", "size", "ahead", "follow"}, blocks: []string{"source", "throttle"},
		never: map[string]string{
			"payload": "The payload of a chunk's task says which range it is: chunks, pass, table, key, after, through and rows.",
		},
		called: calledInChunks(),
	}
}

func sourceShape() *shape {
	return &shape{name: "source", attrs: []string{"url", "table", "key", "where"}, called: calledInSource()}
}

func throttleShape() *shape {
	return &shape{name: "throttle", attrs: []string{"oldest_transaction", "when"}, called: calledInThrottle()}
}

// chunks decodes the chunks blocks. cfg has its store and its tasks already.
func (l *loader) chunks(all []found, cfg *Config) {
	names := make(map[string]hcl.Range)
	for _, f := range all {
		b := f.scope.block(f.block, chunksShape())
		c, ok := b.chunks(cfg.Store.URL)
		if !ok {
			continue
		}
		at := f.block.DefRange()
		if other, taken := names[c.Spec.Name]; taken {
			l.fail(at, "Duplicate chunks", "The chunks %q are already declared at %s.", c.Spec.Name, place(other))
		} else {
			names[c.Spec.Name] = at
		}
		if cfg.Type(c.Spec.Task) == nil {
			b.warnOfUndeclared("The chunk plan", c.Spec.Name, c.Spec.Task, cfg)
		}
		cfg.Chunks = append(cfg.Chunks, c)
		cfg.places[b.out.header] = place(at)
		cfg.printed = append(cfg.printed, b.out)
	}
}

// chunks decodes a chunks block; false where it has no name. store is the URL of the configuration's store.
func (b *block) chunks(store string) (c Chunks, ok bool) {
	if len(b.label) != 1 {
		return c, false
	}
	s := &c.Spec
	s.Name = b.label[0]
	b.out.header = header("chunks", s.Name)
	if err := checkText(s.Name, maxPlanName); err != nil {
		b.invalid("name", b.rng, err)
	} else if s.Name == "" {
		b.invalid("name", b.rng, errors.New("it is empty"))
	}
	s.Task = b.required("task", task.CheckTypeName,
		`Chunks need a task, the type of the tasks that are inserted, one for each chunk, as in task = "event.process".`)
	s.Size = b.chunkSize()
	s.Ahead = b.num("ahead", defaultAhead, 1, maxAhead)
	follow, _ := b.maybeLength("follow", -1, minFollow, task.MaxDuration)
	s.Follow = max(follow, 0)
	conditional := b.chunkSource(&c)
	if s.Follow > 0 && !conditional {
		b.invalid("follow", b.at("follow"), errors.New(`it requires a condition in source that finds the rows that are left to do, `+
			`as in where = "status = 0": without one, every row would be processed again and again`))
	}
	b.throttle(&c.Source, store)
	return c, true
}

// chunkSource decodes the source block, and with it the plan's table and key. It reports whether the block has a condition, or may have
// one, as far as can be read.
func (b *block) chunkSource(c *Chunks) (conditional bool) {
	hb := b.child("source")
	if hb == nil && b.attr("source") != nil {
		return true // that has been said
	}
	if hb == nil {
		b.l.fail(b.rng, "Missing source",
			`Chunks need a source block, the table that is cut, with its table and its key, as in table = "event" and key = "id".`)
		return true
	}
	sub := b.block(hb, sourceShape())
	b.out.blocks = append(b.out.blocks, sub.out)
	s := &c.Source
	var written bool
	if s.URL, written = sub.databaseURL("it is empty; leave it out for a table in the store's database"); !written {
		sub.out.add("url", "null")
	}
	check := func(s string) error { return checkText(s, maxTableName) }
	c.Spec.Table = sub.required("table", check, `A source needs a table, with its schema if need be, as in table = "public.event".`)
	c.Spec.Key = sub.required("key", check, `A source needs a key, the column whose values cut the table, as in key = "id".`)
	s.Where, conditional = sub.sql("where")
	if words := strings.Fields(s.Where); len(words) > 0 && strings.EqualFold(words[0], "where") {
		sub.invalid("where", sub.at("where"), errors.New(`leave out the word WHERE, as in where = "status = 0"`))
	}
	return conditional
}

// throttle decodes the throttle block, if there is one.
func (b *block) throttle(s *ChunkSource, store string) {
	hb := b.child("throttle")
	if hb == nil {
		return
	}
	noted := len(b.l.diags)
	sub := b.block(hb, throttleShape())
	b.out.blocks = append(b.out.blocks, sub.out)
	oldest, _ := sub.maybeLength("oldest_transaction", -1, minOldest, task.MaxDuration)
	s.OldestTransaction = max(oldest, 0)
	s.When, _ = sub.sql("when")
	at := sub.at("oldest_transaction")
	switch {
	case len(b.l.diags) > noted:
	case s.OldestTransaction == 0 && s.When == "":
		b.l.fail(sub.rng, "Empty throttle", "A throttle needs at least one of oldest_transaction and when: planning waits while a transaction "+
			`is older, as in oldest_transaction = "10m", or while a query returns true, as in when = "SELECT count(*) > 100 FROM other_work".`)
	case s.OldestTransaction == 0:
	case strings.HasPrefix(s.URL, "sqlite:"):
		sub.invalid("oldest_transaction", at, errors.New("it applies to PostgreSQL only; on SQLite use when"))
	case s.URL == "" && strings.HasPrefix(store, "sqlite:"):
		b.l.warn(at, "oldest_transaction has no effect, because the table is in the store and the store is a SQLite file: use when, "+
			storeIsAnother+".")
	}
}

// required reads a string that must not be missing or empty.
func (b *block) required(name string, check func(string) error, remedy string) string {
	noted := len(b.l.diags)
	out := b.optional(name, func(s string) error {
		if s == "" {
			return nil
		}
		return check(s)
	})
	if out == "" && len(b.l.diags) == noted {
		b.l.fail(b.at(name), "Missing "+name, "%s", remedy)
	}
	return out
}

// sql reads a text in SQL that may be left out. It reports whether it is there; a text with a mistake is.
func (b *block) sql(name string) (text string, written bool) {
	if a := b.attr(name); a != nil {
		b.hide(a.Expr, false)
	}
	noted := len(b.l.diags)
	g := b.get(name, cty.String)
	if !g.ok {
		b.out.add(name, "null")
		return "", len(b.l.diags) > noted
	}
	text = strings.TrimSpace(g.v.AsString())
	var err error
	switch {
	case text == "":
		err = errors.New("it is empty; leave it out")
	case len(text) > maxSQL:
		err = fmt.Errorf("longer than %d KiB", maxSQL>>10)
	default:
		err = noNUL(text)
	}
	if err != nil {
		b.invalid(name, g.expr.Range(), err)
	}
	b.notRedacted(g.expr.Range(), text)
	b.printRedacted(name, g, text)
	return text, true
}

// Words say what the plan does, in one line. They show nothing of the URL or of SQL.
func (c *Chunks) Words() string {
	var b strings.Builder
	src, size := &c.Source, &c.Spec.Size
	fmt.Fprintf(&b, "cuts table %s", c.Spec.Table)
	if src.URL == "" {
		b.WriteString(" of the store's database")
	}
	fmt.Fprintf(&b, " by %s", c.Spec.Key)
	if src.Where != "" {
		b.WriteString(", its rows for which the condition is true,")
	}
	if size.Target > 0 {
		fmt.Fprintf(&b, " into chunks that take about %s, of %d rows at first and then %d to %d", task.FormatDuration(size.Target),
			size.Start, size.Min, size.Max)
	} else {
		fmt.Fprintf(&b, " into chunks of %d rows", size.Start)
	}
	fmt.Fprintf(&b, "; at most %d wait or run at once", c.Spec.Ahead)
	if c.Spec.Follow > 0 {
		fmt.Fprintf(&b, "; looks for new rows every %s", task.FormatDuration(c.Spec.Follow))
	} else {
		b.WriteString("; one pass")
	}
	var waits []string
	if src.OldestTransaction > 0 {
		waits = append(waits, "a transaction is older than "+task.FormatDuration(src.OldestTransaction))
	}
	if src.When != "" {
		waits = append(waits, "the query of throttle returns true")
	}
	if len(waits) > 0 {
		b.WriteString("; waits while " + strings.Join(waits, " or "))
	}
	return b.String()
}
