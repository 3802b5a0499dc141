package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/zclconf/go-cty/cty"

	"github.com/leasehold/leasehold/internal/task"
)

// Defaults and bounds of the agent block.
const (
	defaultWorkers  = 32
	maxWorkers      = 10_000
	defaultListen   = "127.0.0.1:7070"
	defaultPoll     = time.Second
	defaultPresence = 15 * time.Second
	defaultDrain    = 20 * time.Second
	maxName         = 128 // bytes
)

// Bounds of presence. A session signs on each quarter of it, 2 s at most, and everything of a subprocess is dead 1 s
// before it runs out (docs/architecture.md, lengths and fail-stop), so below 2 s one late sign would cost running
// tasks. A stop_grace that is longer than presence leaves room for is legal: it is kept while the store is in reach
// and cut short only when presence runs out.
const (
	minPresence = 2 * time.Second
	maxPresence = time.Hour
)

func agentShape() *shape {
	return &shape{
		name:   "agent",
		attrs:  []string{"name", "region", "workers", "listen", "advertise", "poll", "presence", "drain", "token", "read_token", "read_only"},
		called: calledInAgent(),
	}
}

func (b *block) agent() Agent {
	a := Agent{
		Name:      b.agentName(),
		Region:    b.str("region", "", checkName),
		Workers:   b.num("workers", defaultWorkers, 0, maxWorkers),
		Listen:    b.str("listen", defaultListen, checkListen),
		Advertise: b.str("advertise", "", checkAdvertise),
		Poll:      b.length("poll", defaultPoll, 10*time.Millisecond, time.Hour),
		Presence:  b.length("presence", defaultPresence, minPresence, maxPresence),
		Drain:     b.length("drain", defaultDrain, 0, task.Day),
		Token:     b.secret("token", ""),
		ReadToken: b.secret("read_token", ""),
		ReadOnly:  b.boolean("read_only", false),
	}
	if a.ReadToken != "" && a.ReadToken == a.Token && a.Token != Redacted { // as printed, all secrets are the same
		b.invalid("read_token", b.at("read_token"), errors.New("it is the same secret as token, with which everything can be changed: "+
			"give it one of its own"))
	}
	if strings.HasPrefix(a.Listen, "unix://") && a.Advertise == "" && b.sound("listen", "advertise") {
		b.invalid("advertise", b.at("listen"), errors.New("a Unix socket has no URL that tasks could ping: give the URL of the proxy in front of it, "+
			`as in advertise = "http://127.0.0.1:7070"`))
	}
	return a
}

// agentName is the declared name, else the host's.
func (b *block) agentName() string {
	g := b.get("name", cty.String)
	if g.ok {
		name := g.v.AsString()
		err := checkName(name)
		if name == "" {
			err = errors.New("it is empty; leave it out for the host name")
		}
		if err != nil {
			b.invalid("name", g.expr.Range(), err)
		}
		b.print("name", g, quote(name))
		return name
	}
	name, err := b.l.opts.Hostname()
	if err != nil && b.attr("name") == nil {
		b.l.failNowhere("No name for the agent", "The host has no name (%s): declare agent { name = \"…\" }.", err)
	}
	b.out.add("name", quote(name))
	return name
}

// checkName checks the name of an agent or a region.
func checkName(s string) error { return checkText(s, maxName) }

// checkText checks a short text, of at most that many bytes.
func checkText(s string, most int) error {
	if len(s) > most {
		return fmt.Errorf("longer than %d bytes", most)
	}
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return errors.New("it contains control characters")
	}
	return nil
}

// checkAdvertise checks the address by which others reach the listener: that of its root.
func checkAdvertise(s string) error {
	if s == "" {
		return nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return errors.New(`write http://host:port or https://host, as in "http://127.0.0.1:7070"`)
	}
	if u.User != nil || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("it consists of scheme, host and port only")
	}
	return nil
}

// checkListen checks "host:port" and "unix:///path".
func checkListen(s string) error {
	if path, ok := strings.CutPrefix(s, "unix://"); ok {
		if !strings.HasPrefix(path, "/") || len(path) < 2 {
			return errors.New("a Unix socket is unix:// and an absolute path, as in unix:///run/leasehold.sock")
		}
		if len(path) > 107 { // sun_path of sockaddr_un, unix(7)
			return errors.New("the path of a Unix socket has at most 107 bytes")
		}
		return nil
	}
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return errors.New(`write host:port, as in "127.0.0.1:7070", or unix:///path`)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return errors.New("the port is a number from 0 to 65535; 0 picks a free one")
	}
	return nil
}
