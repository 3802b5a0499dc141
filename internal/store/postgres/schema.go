package postgres

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// nameLength is the longest identifier in bytes that Postgres keeps (NAMEDATALEN - 1); it cuts longer ones silently,
// and two schemas could become one.
const nameLength = 63

// schema is the name of the schema that holds everything, and what is derived from it.
type schema string

// check refuses names that cannot be quoted into every place where they stand.
func (s schema) check() error {
	bad := func(r rune) bool { return unicode.IsControl(r) || r == '$' || r == '{' || r == '}' }
	switch {
	case s == "":
		return errors.New("the schema's name is empty")
	case len(s) > nameLength:
		return fmt.Errorf("the schema's name %q is longer than %d bytes", string(s), nameLength)
	case !utf8.ValidString(string(s)) || strings.ContainsFunc(string(s), bad):
		return fmt.Errorf("the schema's name %q has a control character, a $ or a brace in it", string(s))
	case strings.HasPrefix(string(s), "pg_") || s == "information_schema":
		return fmt.Errorf("the schema's name %q is reserved by Postgres", string(s))
	}
	return nil
}

// quoted is the name as an SQL identifier.
func (s schema) quoted() string { return quoteIdentifier(string(s)) }

// channel is the notification channel: databases have channels of their own, schemas have not.
func (s schema) channel() string {
	c := "leasehold:" + string(s)
	if len(c) <= nameLength {
		return c
	}
	sum := sha256.Sum256([]byte(s))
	return "leasehold:" + hex.EncodeToString(sum[:16])
}

// fill puts the names into a statement: {schema} and {channel}, identifiers; {schema_literal} and {channel_literal}, for
// where they are spelled out.
func (s schema) fill(text string) string {
	return strings.NewReplacer(
		"{schema}", s.quoted(),
		"{schema_literal}", quoteLiteral(s.quoted()),
		"{channel}", quoteIdentifier(s.channel()),
		"{channel_literal}", quoteLiteral(s.channel()),
	).Replace(text)
}

func quoteIdentifier(name string) string { return pgx.Identifier{name}.Sanitize() }

// quoteLiteral quotes for any setting of standard_conforming_strings.
func quoteLiteral(text string) string {
	quoted := "'" + strings.ReplaceAll(text, "'", "''") + "'"
	if strings.Contains(text, `\`) {
		return " E" + strings.ReplaceAll(quoted, `\`, `\\`)
	}
	return quoted
}
