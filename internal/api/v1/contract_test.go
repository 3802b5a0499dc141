package v1

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

// contract is the document, as tests hold answers and requests against it.
type contract struct {
	doc     map[string]any
	schemas *jsonschema.Compiler
	met     map[string]bool // operations and statuses that a test has met: "GET /tasks 200"
}

const documentURL = "https://leasehold.invalid/openapi.json"

// newContract reads the document. What it says of answers it says of all their members here: clients ignore what they do not know, and
// tests do not.
func newContract(t *testing.T) *contract {
	t.Helper()
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(Document()))
	require.NoError(t, err)
	doc, _ := parsed.(map[string]any)
	components, _ := doc["components"].(map[string]any)
	closeObjects(components["schemas"])
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	require.NoError(t, c.AddResource(documentURL, doc))
	return &contract{doc: doc, schemas: c, met: map[string]bool{}}
}

// closeObjects lets objects have no members but those that are described.
func closeObjects(v any) {
	switch v := v.(type) {
	case map[string]any:
		if _, described := v["properties"]; described && v["type"] == "object" && v["additionalProperties"] == nil {
			v["additionalProperties"] = false
		}
		for _, inner := range v {
			closeObjects(inner)
		}
	case []any:
		for _, inner := range v {
			closeObjects(inner)
		}
	}
}

// operations lists what is described: "GET /tasks/{id}".
func (c *contract) operations() (all []string) {
	paths, _ := c.doc["paths"].(map[string]any)
	for path, item := range paths {
		methods, _ := item.(map[string]any)
		for method := range methods {
			all = append(all, strings.ToUpper(method)+" "+path)
		}
	}
	slices.Sort(all)
	return all
}

// match is the described path of a request.
func (c *contract) match(method, path string) (template string, ok bool) {
	path = strings.TrimPrefix(path, Prefix)
	got := strings.Split(path, "/")
	best := -1
	for _, op := range c.operations() {
		m, t, _ := strings.Cut(op, " ")
		parts := strings.Split(t, "/")
		if m != method || len(parts) != len(got) {
			continue
		}
		literal := 0
		if slices.EqualFunc(parts, got, func(a, b string) bool {
			if strings.HasPrefix(a, "{") {
				return b != ""
			}
			literal++
			return a == b
		}) && literal > best {
			best, template, ok = literal, t, true
		}
	}
	return template, ok
}

// resolve follows a path of names through the document, and references on it.
func (c *contract) resolve(names ...string) (pointer string, value any, ok bool) {
	pointer, value = "#", any(c.doc)
	for _, name := range names {
		object, _ := value.(map[string]any)
		if value, ok = object[name]; !ok {
			return "", nil, false
		}
		pointer += "/" + url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
		if inner, _ := value.(map[string]any); inner != nil {
			if to, _ := inner["$ref"].(string); strings.HasPrefix(to, "#/components/responses/") {
				return c.resolve("components", "responses", strings.TrimPrefix(to, "#/components/responses/"))
			}
		}
	}
	return pointer, value, true
}

// validate holds a document against the schema at a pointer.
func (c *contract) validate(t *testing.T, pointer string, doc []byte, what string) {
	t.Helper()
	schema, err := c.schemas.Compile(documentURL + pointer)
	require.NoError(t, err)
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
	require.NoError(t, err, "%s: %s", what, doc)
	require.NoError(t, schema.Validate(value), "%s: %s", what, doc)
}

// response checks that an answer is described, and is as it is described.
func (c *contract) response(t *testing.T, method, path string, a answer) {
	t.Helper()
	template, ok := c.match(method, path)
	require.True(t, ok, "%s %s is not in the document", method, path)
	media, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")
	status := fmt.Sprint(a.status)
	_, response, ok := c.resolve("paths", template, strings.ToLower(method), "responses", status)
	require.True(t, ok, "%s %s answers %d, which is not in the document: %s", method, template, a.status, a.body)
	pointer, _, _ := c.resolve("paths", template, strings.ToLower(method), "responses", status)
	object, _ := response.(map[string]any)
	content, _ := object["content"].(map[string]any)
	require.Contains(t, content, media, "%s %s %d", method, template, a.status)
	c.met[method+" "+template+" "+status] = true
	if media != "text/event-stream" {
		c.validate(t, pointer+"/content/"+url.PathEscape(strings.ReplaceAll(media, "/", "~1"))+"/schema", []byte(a.body),
			method+" "+path+" "+status)
	}
}

// request checks that a body that was taken is as it is described.
func (c *contract) request(t *testing.T, method, path string, body []byte, media string) {
	t.Helper()
	template, ok := c.match(method, path)
	if !ok || len(body) == 0 || media != "application/json" {
		return
	}
	pointer, _, ok := c.resolve("paths", template, strings.ToLower(method), "requestBody", "content", media, "schema")
	require.True(t, ok, "%s %s takes a body, which is not in the document", method, template)
	c.validate(t, pointer, body, "request "+method+" "+path)
}

// parameters are the names of the query's parameters.
func (c *contract) parameters(method, template string) (names []string) {
	_, list, _ := c.resolve("paths", template, strings.ToLower(method), "parameters")
	all, _ := list.([]any)
	for _, p := range all {
		if p, _ := p.(map[string]any); p["in"] == "query" {
			names = append(names, p["name"].(string))
		}
	}
	return names
}

// TestDocument compares the routes with the document, both ways.
func TestDocument(t *testing.T) {
	c := newContract(t)
	var routes []string
	for _, r := range New(Options{}).routes() {
		routes = append(routes, r.pattern)
	}
	slices.Sort(routes)
	require.Equal(t, c.operations(), routes)
	require.Equal(t, "3.1.0", c.doc["openapi"])
	seen := map[string]bool{}
	for _, op := range c.operations() {
		method, path, _ := strings.Cut(op, " ")
		_, id, ok := c.resolve("paths", path, strings.ToLower(method), "operationId")
		require.True(t, ok && !seen[id.(string)], op)
		seen[id.(string)] = true
		for part := range strings.SplitSeq(path, "/") { // each placeholder is described
			if name, ok := strings.CutPrefix(part, "{"); ok {
				_, list, _ := c.resolve("paths", path, strings.ToLower(method), "parameters")
				doc, err := json.Marshal(list)
				require.NoError(t, err)
				require.Contains(t, string(doc), fmt.Sprintf(`"name":%q`, strings.TrimSuffix(name, "}")), op)
			}
		}
	}
	schemas, _ := c.doc["components"].(map[string]any)["schemas"].(map[string]any)
	for name := range schemas {
		_, err := c.schemas.Compile(documentURL + "#/components/schemas/" + name)
		require.NoError(t, err, name)
		require.Contains(t, string(Document()), `"#/components/schemas/`+name+`"`, "the schema %s is not used", name)
	}
}

// TestParameters compares the query that each route takes with the document: a route names what it knows when it meets another.
func TestParameters(t *testing.T) {
	r := onSQLite(t)
	place := strings.NewReplacer("{kind}", "task")
	for _, op := range r.contract.operations() {
		method, template, _ := strings.Cut(op, " ")
		path := regexp.MustCompile(`\{\w+\}`).ReplaceAllString(place.Replace(template), "1")
		a := r.ask(method, path+"?unheard-of=1", "")
		require.Equal(t, 400, a.status, "%s: %s", op, a.body)
		_, takes, ok := strings.Cut(a.body, "this takes ")
		require.True(t, ok, "%s: %s", op, a.body)
		takes, _, _ = strings.Cut(takes, `"`)
		known := strings.Split(takes, ", ")
		if takes == "none" {
			known = nil
		}
		require.ElementsMatch(t, r.contract.parameters(method, template), known, op)
	}
}
