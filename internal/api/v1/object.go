package v1

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/leasehold/leasehold/internal/api"
)

// members says where the members of a body are read into. The values are pointers.
type members map[string]any

// object reads a body of so many bytes at most as an object. Unknown members and repeated ones are mistakes, never ignored. An empty
// body has no members.
func (c *call) object(most int64, into members) error {
	doc, err := c.body(most)
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(doc)) == 0 {
		return nil
	}
	if !json.Valid(doc) {
		return bad(http.StatusBadRequest, "the body is not JSON")
	}
	d := json.NewDecoder(bytes.NewReader(doc))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return bad(http.StatusBadRequest, "the body must be an object")
	}
	seen := map[string]bool{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return bad(http.StatusBadRequest, "the body is not JSON")
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return bad(http.StatusBadRequest, "the body is not JSON")
		}
		key := fmt.Sprint(name)
		target, known := into[key]
		switch {
		case !known:
			return bad(http.StatusBadRequest, "unknown member %s: this takes %s", api.Quote(key), into.names())
		case seen[key]:
			return bad(http.StatusBadRequest, "the member %s occurs twice", key)
		case string(value) == "null":
		case json.Unmarshal(value, target) != nil:
			return bad(http.StatusBadRequest, "%s must be %s, not %s", key, kind(target), api.Quote(string(value)))
		}
		seen[key] = true
	}
	return nil
}

func (m members) names() string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// kind is what a member must be.
func kind(target any) string {
	switch target.(type) {
	case *string:
		return "a string"
	case *bool:
		return "true or false"
	case *[]string:
		return "a list of strings"
	case *map[string]string:
		return "an object of strings"
	}
	return "a whole number"
}

// defaultBy is who requests a change where the request does not say it.
const defaultBy = "api"

// change reads the body of a change that has these members, too, and returns who requests it. What stores hold of that is bounded by
// package ops.
func (c *call) change(more members) (by string, err error) { return c.changeOf(maxVerb, more) }

// changeOf is change for a body of so many bytes at most.
func (c *call) changeOf(most int64, more members) (by string, err error) {
	by = defaultBy
	all := members{"requested_by": &by}
	maps.Copy(all, more)
	if err := c.query.end(); err != nil {
		return "", err
	}
	return by, c.object(most, all)
}
