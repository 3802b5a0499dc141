package config

import (
	"errors"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/leasehold/leasehold/internal/task"
)

// Defaults and bounds of the store block.
const (
	defaultStoreFile   = "leasehold.db"
	defaultSchema      = "leasehold"
	defaultConnections = 4
	maxConnections     = 200
	defaultRetention   = 7 * task.Day
)

func storeShape() *shape {
	return &shape{name: "store", attrs: []string{"url", "schema", "connections", "notify", "retention", "group"}, called: calledInStore()}
}

// store decodes the store block. Without a url it is an SQLite file in dir, beside the configuration.
func (b *block) store(dir string) Store {
	s := Store{
		URL:         b.storeURL(dir),
		Schema:      b.str("schema", defaultSchema, checkSchema),
		Connections: b.num("connections", defaultConnections, 1, maxConnections),
		Notify:      b.boolean("notify", true),
		Retention:   b.length("retention", defaultRetention, time.Second, task.MaxDuration),
		Group:       b.optional("group", checkGroup),
	}
	if s.Group != "" && strings.HasPrefix(s.URL, "postgres") {
		b.invalid("group", b.at("group"), errors.New("it applies to SQLite files only; on PostgreSQL use roles: "+
			"`leasehold migrate grants`"))
	}
	return s
}

// checkGroup checks the name of a group; whether the host has that group is found out at the start.
func checkGroup(name string) error {
	if name == "" || strings.ContainsAny(name, " \t:,") {
		return errors.New("it must be the name or number of a group; leave it out to allow only the owner of the file")
	}
	return checkName(name)
}

func (b *block) storeURL(dir string) string {
	out, written := b.databaseURL("it is empty; leave the store block out for a SQLite file beside the configuration")
	if !written {
		out = "sqlite:" + filepath.Join(dir, defaultStoreFile)
		b.out.add("url", quote(out))
	}
	return out
}

// databaseURL reads a database's URL; "" where that has a mistake. An empty one is refused with that text.
func (b *block) databaseURL(empty string) (out string, written bool) {
	if a := b.attr("url"); a != nil {
		b.hide(a.Expr, false)
	}
	g := b.get("url", cty.String)
	if !g.ok {
		return "", false
	}
	out = strings.TrimSpace(g.v.AsString())
	err := errors.New(empty)
	if out != "" {
		out, err = storeURL(b.src.dir, out)
	}
	if err != nil {
		b.invalid("url", g.expr.Range(), err)
		return "", true
	}
	b.notRedacted(g.expr.Range(), out)
	b.printRedacted("url", g, out)
	return out, true
}

// storeURL checks the URL of a store or a database; an SQLite file is made absolute, seen from dir. Its errors show nothing of the
// URL, which may hold a password.
func storeURL(dir, s string) (string, error) {
	switch {
	case strings.HasPrefix(s, "postgres://"), strings.HasPrefix(s, "postgresql://"):
		if _, err := url.Parse(s); err != nil {
			return "", errors.New("it cannot be read as a URL; " +
				"characters as @ : / ? # % in a password are escaped as %40 and so on")
		}
		return s, nil
	case strings.HasPrefix(s, "sqlite:"):
		path := strings.TrimPrefix(s, "sqlite:")
		if rest, ok := strings.CutPrefix(path, "//"); ok {
			if !strings.HasPrefix(rest, "/") {
				return "", errors.New("sqlite: needs a path, as in sqlite:leasehold.db or sqlite:/var/lib/leasehold.db")
			}
			path = rest
		}
		if !filePath.MatchString(path) || strings.HasPrefix(path, "file:") {
			return "", errors.New("sqlite: needs the path of a file, without parameters, as in sqlite:leasehold.db")
		}
		return "sqlite:" + resolve(dir, path), nil
	}
	return "", errors.New("it must be postgres://user@host/database or sqlite:path")
}

var filePath = regexp.MustCompile(`^[^:?#\x00][^?#\x00]*$`)

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

func checkSchema(s string) error {
	if !schemaName.MatchString(s) || strings.HasPrefix(s, "pg_") {
		return errors.New("a schema name has at most 63 lower-case letters, digits and _, and does not begin with pg_")
	}
	return nil
}
