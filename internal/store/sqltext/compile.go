// Package sqltext compiles SQL statements that are written with named arguments. A statement stands in a file of its own
// and names its arguments (@session, @ids); it is compiled once, to the positions that the driver takes ($1 or ?1), so a
// call pays nothing for the names. Comments are left out of the compiled text: they explain the file, and neither the
// statement cache nor the server's log needs them.
package sqltext

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Dialect is the database whose lexical rules a statement follows, and whose positions it is compiled to.
type Dialect int

const (
	// Postgres has dollar quotes, E'…' strings and nested comments; its positions are $1 and on.
	Postgres Dialect = iota
	// SQLite has identifiers in brackets and backquotes; its positions are ?1 and on.
	SQLite
)

func (d Dialect) position(n int) string {
	if d == SQLite {
		return fmt.Sprintf("?%d", n)
	}
	return fmt.Sprintf("$%d", n)
}

// Query is a compiled statement. Its Text is constant, so a driver prepares it once for each connection.
type Query struct {
	Name  string   // for messages
	Text  string   // with positions, without comments
	Names []string // of the arguments, in the order of their positions: that of their first use in the text

	source  string
	dialect Dialect
}

// Compile compiles one statement. An argument is @ and a name, which stands neither in a string, a quoted identifier or a
// comment. It is an error to give a position by number, to write an @ that could be either an argument or the end of an
// operator (a <@b), and to select all columns by a *: agents run their statements on schemas with columns that they do not
// know, where a prepared one would fail ("cached plan must not change result type") or a name become ambiguous.
func Compile(name, text string, d Dialect) (*Query, error) {
	c := compiler{in: text, dialect: d}
	if err := c.run(); err != nil {
		return nil, fmt.Errorf("query %s: %w", name, err)
	}
	q := &Query{
		Name: name, Text: strings.TrimRight(c.out.String(), " \t\n;"), Names: c.names, source: text, dialect: d,
	}
	if q.Text == "" {
		return nil, fmt.Errorf("query %s: it is empty", name)
	}
	return q, nil
}

// Map returns the query with f applied to its text. f fills in names, as that of a schema, and adds no arguments.
func (q *Query) Map(f func(text string) string) *Query {
	mapped := *q
	mapped.Text, mapped.source = f(q.Text), f(q.source)
	return &mapped
}

// Fill returns the query with a placeholder replaced, compiled anew: what replaces it may have arguments. It is for
// statements that are put together at each call, as those that list what matches a filter.
func (q *Query) Fill(placeholder, text string) (*Query, error) {
	return Compile(q.Name, strings.ReplaceAll(q.source, placeholder, text), q.dialect)
}

// FillAll is Fill of several placeholders, each followed by its text.
func (q *Query) FillAll(pairs ...string) (*Query, error) {
	return Compile(q.Name, strings.NewReplacer(pairs...).Replace(q.source), q.dialect)
}

// Takes returns those of the arguments that the query has a place for.
func (q *Query) Takes(args ...Arg) []Arg {
	return slices.DeleteFunc(slices.Clone(args), func(a Arg) bool { return !slices.Contains(q.Names, a.Name) })
}

// compiler walks a text once, token by token.
type compiler struct {
	in      string
	at      int
	dialect Dialect
	out     trimmed
	names   []string
}

func (c *compiler) run() error {
	for c.at < len(c.in) {
		if err := c.token(); err != nil {
			return fmt.Errorf("line %d: %w", 1+strings.Count(c.in[:c.at], "\n"), err)
		}
	}
	return nil
}

func (c *compiler) token() error {
	rest, char := c.in[c.at:], c.in[c.at]
	switch {
	case strings.HasPrefix(rest, "--"):
		c.at += len(before(rest, "\n"))
		return nil
	case strings.HasPrefix(rest, "/*"):
		return c.comment()
	case char == '\'', char == '"', char == '`' && c.dialect == SQLite:
		return c.quoted(char, false)
	case char == '[' && c.dialect == SQLite:
		return c.quoted(']', false)
	case (char == 'e' || char == 'E') && strings.HasPrefix(rest[1:], "'") && c.dialect == Postgres:
		c.keep(1)
		return c.quoted('\'', true)
	case isWordStart(char), isDigit(char):
		c.keep(1 + wordLength(rest[1:], c.dialect))
		return nil
	case char == '$':
		return c.dollar()
	case char == '?' && c.dialect == SQLite:
		return errors.New("a position in place of a name")
	case isOperator(char):
		return c.operator()
	}
	c.keep(1)
	return nil
}

// operator passes over the signs of one operator, or compiles an argument.
func (c *compiler) operator() error {
	rest := c.in[c.at:]
	if rest[0] == '@' && len(rest) > 1 && isWordStart(rest[1]) {
		n := 1 + wordLength(rest[1:], SQLite)
		c.argument(rest[1:n])
		c.at += n
		return nil
	}
	n := 1
	for n < len(rest) && isOperator(rest[n]) && !strings.HasPrefix(rest[n:], "--") && !strings.HasPrefix(rest[n:], "/*") {
		if rest[n] == '@' && n+1 < len(rest) && isWordStart(rest[n+1]) {
			if rest[n-1] == '=' {
				break // no operator ends in =@
			}
			return fmt.Errorf("an operator or an argument, put a space before or behind the @: %.20s", rest)
		}
		n++
	}
	if rest[:n] == "*" && c.listsAll() {
		return errors.New("name the columns in place of *: a later version of the schema may have more")
	}
	c.keep(n)
	return nil
}

// listsAll reports whether a * that comes next would stand for all columns. It does not in count(*) and in a product.
func (c *compiler) listsAll() bool {
	before := strings.TrimRight(c.out.String(), " \t\n")
	word := strings.ToUpper(before[strings.LastIndexAny(before, " \t\n(")+1:])
	return strings.HasSuffix(before, ".") || strings.HasSuffix(before, ",") ||
		slices.Contains([]string{"SELECT", "ALL", "DISTINCT", "RETURNING"}, word)
}

func (c *compiler) argument(name string) {
	place := 0
	for i, known := range c.names {
		if known == name {
			place = i + 1
		}
	}
	if place == 0 {
		c.names = append(c.names, name)
		place = len(c.names)
	}
	c.out.write(c.dialect.position(place))
}

// comment leaves out a comment in signs. Postgres nests them.
func (c *compiler) comment() error {
	depth, at := 0, c.at
	for {
		rest := c.in[at:]
		switch {
		case rest == "":
			return errors.New("a comment has no end")
		case strings.HasPrefix(rest, "/*") && (depth == 0 || c.dialect == Postgres):
			depth++
			at += 2
		case strings.HasPrefix(rest, "*/"):
			depth--
			at += 2
		default:
			at++
		}
		if depth == 0 {
			c.at = at
			c.out.write(" ")
			return nil
		}
	}
}

// quoted passes over what ends with the sign; the sign twice is one of it inside, and so is one after a backslash if that
// escapes.
func (c *compiler) quoted(end byte, escapes bool) error {
	rest := c.in[c.at:]
	for n := 1; n < len(rest); n++ {
		switch {
		case escapes && rest[n] == '\\':
			n++
		case rest[n] == end && n+1 < len(rest) && rest[n+1] == end && end != ']':
			n++
		case rest[n] == end:
			c.keep(n + 1)
			return nil
		}
	}
	return fmt.Errorf("a quote has no end: %.20s", rest)
}

// dollar passes over a dollar quote: $tag$ … $tag$.
func (c *compiler) dollar() error {
	rest := c.in[c.at:]
	if c.dialect == SQLite || len(rest) > 1 && isDigit(rest[1]) {
		return errors.New("a position in place of a name")
	}
	tag, _, ok := strings.Cut(rest[1:], "$")
	if !ok || wordLength(tag, SQLite) != len(tag) {
		return fmt.Errorf("neither a quote nor a position: %.20s", rest)
	}
	tag = "$" + tag + "$"
	inside, _, ok := strings.Cut(rest[len(tag):], tag)
	if !ok {
		return fmt.Errorf("a quote has no end: %.20s", rest)
	}
	c.keep(2*len(tag) + len(inside))
	return nil
}

// keep copies the next n bytes.
func (c *compiler) keep(n int) {
	c.out.write(c.in[c.at : c.at+n])
	c.at += n
}

// trimmed collects a text without empty lines and without space at the ends of lines, which comments leave behind. A
// quote is written in one piece, so what stands inside stays as it is.
type trimmed struct{ text []byte }

func (t *trimmed) write(piece string) {
	if piece == "\n" {
		if t.text = bytes.TrimRight(t.text, " \t\n"); len(t.text) == 0 {
			return
		}
	}
	t.text = append(t.text, piece...)
}

func (t *trimmed) String() string { return string(t.text) }

func before(text, sign string) string {
	head, _, _ := strings.Cut(text, sign)
	return head
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isWordStart(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c >= 0x80
}

// wordLength counts the bytes of the word at the text's begin. In Postgres a $ may stand inside one.
func wordLength(text string, d Dialect) int {
	for i := range len(text) {
		if c := text[i]; !isWordStart(c) && !isDigit(c) && (c != '$' || d == SQLite) {
			return i
		}
	}
	return len(text)
}

// isOperator reports whether the sign may be part of an operator of several signs.
func isOperator(c byte) bool { return strings.IndexByte("+-*/<>=~!@#%^&|`?", c) >= 0 }
