package v1

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/api"
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
)

// query reads the parameters of a request. What is unknown, repeated or malformed is a mistake, which end returns.
type query struct {
	values url.Values
	known  []string
	err    error
}

func newQuery(r *http.Request) *query {
	values, err := url.ParseQuery(r.URL.RawQuery)
	q := &query{values: values}
	if err != nil {
		q.wrong("the query cannot be read: escape what is special")
	}
	return q
}

// wrong notes the first mistake.
func (q *query) wrong(format string, args ...any) {
	if q.err == nil {
		q.err = bad(http.StatusBadRequest, format, args...)
	}
}

// list reads a parameter that may be repeated.
func (q *query) list(name string) []string {
	q.known = append(q.known, name)
	for _, v := range q.values[name] {
		if !store.Storable(v) {
			q.wrong("%s: text must be UTF-8 without NUL", name)
		}
	}
	return q.values[name]
}

// text reads a parameter; "" where there is none.
func (q *query) text(name string) string {
	list := q.list(name)
	switch {
	case len(list) > 1:
		q.wrong("%s occurs twice", name)
	case len(list) == 1 && list[0] == "":
		q.wrong("%s is empty: leave it out", name)
	case len(list) == 1:
		return list[0]
	}
	return ""
}

// number reads a whole number from 1 to most; 0 where there is none.
func (q *query) number(name string, most int64) int64 {
	text := q.text(name)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n > most {
		q.wrong("%s %s: use a whole number from 1 to %d", name, api.Quote(text), most)
	}
	return n
}

// flag reads true or false.
func (q *query) flag(name string) bool {
	text := q.text(name)
	if text != "" && text != "true" && text != "false" {
		q.wrong("%s %s: use true or false", name, api.Quote(text))
	}
	return text == "true"
}

// span reads a duration up to longest; usual where there is none.
func (q *query) span(name string, usual, longest time.Duration) time.Duration {
	text := q.text(name)
	if text == "" {
		return usual
	}
	d, err := ops.ParseSpan(text)
	if err != nil || d > longest || d == 0 {
		q.wrong("%s: use a duration up to %s, such as 30s", name, longest)
	}
	return d
}

// labels reads label=name=value, repeated.
func (q *query) labels() map[string]string {
	var labels map[string]string
	for _, l := range q.list("label") {
		name, value, ok := strings.Cut(l, "=")
		if _, twice := labels[name]; !ok || name == "" || twice {
			q.wrong("label %s: use label=name=value, once for each name", api.Quote(l))
			continue
		}
		if labels == nil {
			labels = map[string]string{}
		}
		labels[name] = value
	}
	return labels
}

// Bounds of a page.
const (
	mostPage    = 500
	defaultPage = 50
)

// limit reads how long a page is to be.
func (q *query) limit() int {
	if n := q.number("limit", mostPage); n > 0 {
		return int(n)
	}
	return defaultPage
}

// end returns the first mistake, once all that a route knows has been read.
func (q *query) end() error {
	for name := range q.values {
		if !slices.Contains(q.known, name) {
			known := "none"
			if len(q.known) > 0 {
				known = strings.Join(q.known, ", ")
			}
			q.wrong("unknown parameter %s: this takes %s", api.Quote(name), known)
		}
	}
	return q.err
}

// next is the link to the next page: this request with another value, or several, as names and values in turn.
func (c *call) next(name, value string, more ...string) string {
	values := maps.Clone(c.query.values)
	values.Set(name, value)
	for pair := range slices.Chunk(more, 2) {
		values.Set(pair[0], pair[len(pair)-1])
	}
	return c.r.URL.EscapedPath() + "?" + values.Encode()
}
