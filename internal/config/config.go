// Package config turns HCL into typed, checked declarations. It is the only room that knows HCL: what leaves it is
// plain data and compiled templates. Every problem of every file is reported at once, with its place and a remedy.
package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/schedule"
	"github.com/leasehold/leasehold/internal/task"
)

// DefaultPath is the configuration that is read where none is named.
const DefaultPath = "leasehold.hcl"

// Config is everything that was declared, with every default filled in.
type Config struct {
	Agent Agent
	Store Store
	Tasks []*task.Type // in the order of files and lines

	Schedules []schedule.Spec // in that order, too
	Chunks    []Chunks        // and so are these

	Files []string // what was read, in that order, as named by the caller or found in a directory named by it

	// Inputs are the absolute paths of all that was read, in that order, and behind them the files of file(…).
	Inputs []string

	// Hash distinguishes configurations: twelve hex digits over the effective configuration. Neither the agent's name, size and
	// address nor any secret or value of the environment goes into it, so agents that share their files share their hash.
	Hash string

	// Warnings are about what loads all the same, in the order of files and lines.
	Warnings []Warning

	places  map[string]string // of schedule and chunks blocks, by their headers, and of what At returns
	printed []*printed
	samples map[string]json.RawMessage // by type
}

// Agent is the agent block.
type Agent struct {
	Name      string        // the host name by default
	Region    string        // "" for none
	Workers   int           // attempts at once; 0: an observer that claims nothing
	Listen    string        // "host:port", or "unix:///path"
	Advertise string        // how others reach the listener, as http://host:port; "": as Listen says
	Poll      time.Duration // how often to look when nothing wakes the agent
	Presence  time.Duration // an agent silent for this long is dead
	Drain     time.Duration // how long running tasks may take to finish on SIGTERM
	Token     string        // for reading and changing off loopback; "" for none; secret
	ReadToken string        // for reading off loopback; "" for none; never Token; secret
	ReadOnly  bool          // no client of the listener changes anything
}

// Store is the store block.
type Store struct {
	URL         string // postgres://…, postgresql://… or sqlite:/absolute/path; may hold a password
	Schema      string // of Postgres
	Connections int
	Notify      bool
	Retention   time.Duration // how long finished tasks are kept
	Group       string        // of SQLite: a group that may use the file, by name or number; "": its owner alone
}

// Options are what loading depends on besides the files. The zero value is for production.
type Options struct {
	LookupEnv func(name string) (value string, ok bool) // nil: os.LookupEnv
	Hostname  func() (string, error)                    // nil: os.Hostname

	// Redacted accepts Redacted where a secret belongs, so that the printed effective configuration can be looked at
	// and compared. What is loaded so must not be run.
	Redacted bool
}

// Load reads files and directories (all *.hcl in them, not their subdirectories) as one configuration. Its error is a
// *Problems with every mistake found.
func Load(paths []string, opts Options) (*Config, error) {
	if opts.LookupEnv == nil {
		opts.LookupEnv = os.LookupEnv
	}
	if opts.Hostname == nil {
		opts.Hostname = os.Hostname
	}
	l := newLoader(opts)
	sources := l.read(paths)
	cfg := l.decode(sources, baseDir(paths))
	if p := l.problems(); p != nil {
		return nil, p
	}
	for _, s := range sources {
		cfg.Files = append(cfg.Files, s.name)
	}
	cfg.Inputs = l.inputs(sources)
	cfg.Hash = cfg.hash()
	return cfg, nil
}

// typeNames lists the row types that are declared, aliases too.
func (c *Config) typeNames() (names []string) {
	for _, t := range c.Tasks {
		names = append(names, t.Names()...)
	}
	return names
}

// Type finds the declaration that claims rows of a type, by name or alias; nil where there is none.
func (c *Config) Type(name string) *task.Type {
	for _, t := range c.Tasks {
		if slices.Contains(t.Names(), name) {
			return t
		}
	}
	return nil
}

// Place returns where a schedule or chunks block stands, as "file:line"; "" where there is no such block.
func (c *Config) Place(kind, name string) string { return c.places[header(kind, name)] }

// header is how a block with a label begins.
func header(kind, label string) string { return kind + " " + quote(label) }

// ofMachine lists what the agent block says of one agent alone: its name, its size, and where it listens.
func ofMachine(attr string) bool {
	return slices.Contains([]string{"name", "workers", "listen", "advertise"}, attr)
}

// hash is what Hash holds. What agents of one configuration may have each for themselves is not part of it.
func (c *Config) hash() string {
	h := sha256.New()
	for _, p := range c.printed {
		_, _ = io.WriteString(h, p.text(func(p *printed, attr string) bool { return p.agents[attr] || p.header == "agent" && ofMachine(attr) }))
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}
