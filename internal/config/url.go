package config

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/leasehold/leasehold/internal/task"
)

// escaped is how a row's value is written into a URL, by where it stands.
type escaped struct {
	part
	query bool
}

// urlTemplate compiles a webhook's URL: row data fills path and query only, escaped for where it stands.
func (s *scope) urlTemplate(t *template) (task.Template, bool) {
	prefix, sample := t.prefix(), strings.Builder{}
	for _, p := range t.parts {
		if p.row != nil {
			sample.WriteByte('x')
		}
		sample.WriteString(p.fixed)
	}
	if better := s.withScheme(t); better != "" {
		s.l.fail(t.at, "Invalid url", "url: it must start with http:// or https://. Did you mean %q?", better)
		return nil, false
	}
	_, rest, _ := strings.Cut(prefix, "://")
	if !t.isFixed() && !strings.ContainsAny(rest, "/?") {
		s.l.fail(t.at, "Invalid url", "url: row data may fill the path and the query of a URL, but not its scheme, host or port: "+
			"write http://host:port/ first, as fixed text or from env(…).")
		return nil, false
	}
	if err := checkURL(sample.String()); err != nil {
		s.l.fail(t.at, "Invalid url", "url: %s.", err)
		return nil, false
	}
	if t.isFixed() {
		return t.compile(maxURL, nil), true
	}
	var parts []escaped
	query := false
	for _, p := range t.parts {
		parts = append(parts, escaped{p, query})
		query = query || p.row == nil && strings.Contains(p.fixed, "?")
	}
	return func(row *task.Task) (string, error) {
		out, err := fillURL(parts, row)
		if err != nil {
			return "", fmt.Errorf("%s: %w", place(t.at), err)
		}
		return out, nil
	}, true
}

// withScheme returns a URL that begins with a host, with the scheme that it lacks, up to its first row data; "" for any other URL.
// A URL that is not written in the file may hold a secret, so it is not repeated.
func (s *scope) withScheme(t *template) string {
	const most = 200
	prefix := t.prefix()
	better := "http://" + prefix
	if strings.Contains(prefix, "://") || len(prefix) > most || !strings.Contains(s.text(t.at), prefix) || checkURL(better) != nil {
		return ""
	}
	if !t.isFixed() {
		if !strings.ContainsAny(prefix, "/?") {
			return ""
		}
		better += "…"
	}
	if u, err := url.Parse(better); err != nil || strings.HasSuffix(u.Host, ":") { // http:/path
		return ""
	}
	return better
}

// checkURL checks a URL in which something stands for each value of a row.
func checkURL(text string) error {
	if len(text) > maxURL {
		return fmt.Errorf("longer than %d bytes", maxURL)
	}
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c == 0x7f || c == '\\' {
			return errors.New("a URL must not contain white space, control characters or backslashes: escape them")
		}
	}
	u, err := url.Parse(text)
	if err != nil {
		if ue, ok := errors.AsType[*url.Error](err); ok {
			err = ue.Err
		}
		return fmt.Errorf("it cannot be read as a URL: %w", err)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("it must start with http:// or https://")
	case u.Hostname() == "":
		return errors.New("it has no host; write it as http://127.0.0.1:8080/…")
	case u.User != nil:
		return errors.New("credentials do not belong in a URL, which ends up in logs: " +
			`declare headers = { Authorization = "Basic ${base64encode(env("…"))}" }`)
	case strings.Contains(text, "#"):
		return errors.New("the URL of a request must not have a fragment (#)")
	}
	return nil
}

// fillURL writes a row's values into a URL. A segment of the path that holds row data may be neither empty nor "." nor
// "..", which would change the path's meaning, and which no escape can hide: "%2e%2e" means the same. Nor may it hold
// ".." between slashes once it is decoded, as servers and proxies do before they look for "..", some of them twice. An
// encoded slash is let through: keys hold slashes, and to go down a path leads nowhere else. So are "." and "//" within a
// value, and a query is data however it is decoded.
func fillURL(parts []escaped, row *task.Task) (string, error) {
	var b strings.Builder
	segment, tainted := 0, false // where the path's last segment begins; whether it holds row data
	endSegment := func() error {
		switch s := b.String()[segment:]; {
		case !tainted:
		case s == "" || isDots(s):
			return fmt.Errorf("the row makes a path segment %q of the URL", s)
		case climbs(s):
			return fmt.Errorf("the row makes a path segment %s of the URL, which contains \"..\" once decoded",
				strconv.Quote(shorten(s, 200)))
		}
		segment, tainted = b.Len()+1, false
		return nil
	}
	for _, p := range parts {
		if p.row != nil {
			v, err := p.row(row)
			if err != nil {
				return "", err
			}
			if p.query {
				b.WriteString(url.QueryEscape(v))
			} else {
				b.WriteString(url.PathEscape(v))
				tainted = true
			}
		} else if err := writeFixed(&b, p, endSegment); err != nil {
			return "", err
		}
		if b.Len() > maxURL {
			return "", fmt.Errorf("the URL would be longer than %d bytes", maxURL)
		}
	}
	return b.String(), endSegment()
}

// writeFixed adds fixed text and says where it ends segments of the path.
func writeFixed(b *strings.Builder, p escaped, endSegment func() error) error {
	for i, inPath := 0, !p.query; i < len(p.fixed); i++ {
		if c := p.fixed[i]; inPath && (c == '/' || c == '?') {
			if err := endSegment(); err != nil {
				return err
			}
			inPath = c == '/'
		}
		b.WriteByte(p.fixed[i])
	}
	return nil
}

// isDots reports whether a segment means "here" or "above", in any spelling.
func isDots(segment string) bool {
	plain := strings.ReplaceAll(strings.ToLower(segment), "%2e", ".")
	return plain == "." || plain == ".."
}

// maxDecodings is how often a segment is decoded at most; what is escaped more often than that is refused.
const maxDecodings = 8

// climbs reports whether a segment holds ".." between slashes of either kind, decoded however often. Servers cut off what
// follows a semicolon, and some parsers drop blanks and control characters.
func climbs(segment string) bool {
	for range maxDecodings {
		if !strings.Contains(segment, ".") && !strings.Contains(segment, "%") {
			return false
		}
		for part := range strings.FieldsFuncSeq(segment, func(r rune) bool { return r == '/' || r == '\\' }) {
			name, _, _ := strings.Cut(part, ";")
			if strings.Map(visible, name) == ".." {
				return true
			}
		}
		decoded := decodeEscapes(segment)
		if decoded == segment {
			return false
		}
		segment = decoded
	}
	return true
}

// visible drops blanks and control characters.
func visible(r rune) rune {
	if r <= ' ' || r == 0x7f {
		return -1
	}
	return r
}

// decodeEscapes decodes every valid %xx once, and leaves the rest as it is.
func decodeEscapes(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(c))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
