package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/leasehold/leasehold/internal/task"
)

// maxDataDepth bounds the nesting of row data that expressions look into.
const maxDataDepth = 100

// rowFields are the names that templates may use after "task.".
func rowFields() []string {
	return []string{"type", "id", "data", "key", "region", "labels", "attempt"}
}

// unknownRow stands for every possible row when expressions are checked at load.
func unknownRow() cty.Value {
	return cty.ObjectVal(map[string]cty.Value{
		"type":    cty.UnknownVal(cty.String).RefineNotNull(),
		"id":      cty.UnknownVal(cty.Number).RefineNotNull(),
		"data":    cty.DynamicVal,
		"key":     cty.UnknownVal(cty.String),
		"region":  cty.UnknownVal(cty.String),
		"labels":  cty.UnknownVal(cty.Map(cty.String)),
		"attempt": cty.UnknownVal(cty.Number).RefineNotNull(),
	})
}

// rowValue is a row for expressions that compute. Only the fields that the expression uses are filled in.
func rowValue(t *task.Task, fields []string) (cty.Value, error) {
	attrs := make(map[string]cty.Value, len(fields))
	for _, f := range fields {
		var err error
		switch f {
		case "type":
			attrs[f] = cty.StringVal(t.Type)
		case "id":
			attrs[f] = cty.NumberIntVal(int64(t.ID))
		case "attempt":
			attrs[f] = cty.NumberIntVal(int64(t.Attempt))
		case "key":
			attrs[f] = orNull(t.Key)
		case "region":
			attrs[f] = orNull(t.Region)
		case "data":
			attrs[f], err = decodeJSON(t.Data())
		case "labels":
			attrs[f], err = decodeJSON(labels(t))
		}
		if err != nil {
			return cty.NilVal, fmt.Errorf("task.%s: %w", f, err)
		}
	}
	return cty.ObjectVal(attrs), nil
}

func orNull(s string) cty.Value {
	if s == "" {
		return cty.NullVal(cty.String)
	}
	return cty.StringVal(s)
}

func labels(t *task.Task) json.RawMessage {
	if len(t.Labels) == 0 {
		return json.RawMessage("{}")
	}
	return t.Labels
}

// decodeJSON reads JSON into a value, numbers exactly, within the bounds of every computed value.
func decodeJSON(raw []byte) (cty.Value, error) {
	if len(raw) > maxValueSize {
		return cty.NilVal, errValueSize
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return cty.NilVal, errJSON
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return cty.NilVal, errors.New("not valid JSON: trailing data")
	}
	items := 0
	return fromJSON(v, 0, &items)
}

func fromJSON(v any, depth int, items *int) (cty.Value, error) {
	if *items++; *items > maxValueElements || depth > maxDataDepth {
		return cty.NilVal, fmt.Errorf("more than %d values, or more than %d deep", maxValueElements, maxDataDepth)
	}
	switch v := v.(type) {
	case nil:
		return cty.NullVal(cty.DynamicPseudoType), nil
	case bool:
		return cty.BoolVal(v), nil
	case string:
		return cty.StringVal(v), nil
	case json.Number:
		if !sane(v.String()) {
			return cty.NilVal, errNumber
		}
		return cty.ParseNumberVal(v.String())
	case []any:
		elems := make([]cty.Value, len(v))
		for i, e := range v {
			var err error
			if elems[i], err = fromJSON(e, depth+1, items); err != nil {
				return cty.NilVal, err
			}
		}
		return cty.TupleVal(elems), nil
	case map[string]any:
		attrs := make(map[string]cty.Value, len(v))
		for k, e := range v {
			var err error
			if attrs[k], err = fromJSON(e, depth+1, items); err != nil {
				return cty.NilVal, err
			}
		}
		return cty.ObjectVal(attrs), nil
	}
	return cty.NilVal, fmt.Errorf("unexpected %T", v)
}

// pathStep is one step into row data: a name, or an index where it is a number.
type pathStep string

// rowPath is a template's plain mention of row data, "task.data.a[0]": read straight from the row, byte for byte,
// without HCL's evaluator, which normalises text to NFC.
type rowPath struct {
	field string // one of rowFields
	steps []pathStep
	text  string // as written, for messages
}

// newRowPath turns a traversal that starts with "task" into a path; ok is false where its steps are not plain.
func newRowPath(tr hcl.Traversal, text string) (p rowPath, ok bool) {
	p.text = text
	for i, step := range tr[1:] {
		name, plain := stepName(step)
		if !plain {
			return p, false
		}
		if i == 0 {
			p.field = name
		} else {
			p.steps = append(p.steps, pathStep(name))
		}
	}
	return p, p.field != "" && (len(p.steps) == 0 || p.field == "data" || p.field == "labels")
}

// stepName is the name or number of one step of a traversal.
func stepName(step hcl.Traverser) (string, bool) {
	switch s := step.(type) {
	case hcl.TraverseAttr:
		return s.Name, true
	case hcl.TraverseIndex:
		switch {
		case !s.Key.IsKnown() || s.Key.IsNull():
		case s.Key.Type() == cty.String:
			return s.Key.AsString(), true
		case s.Key.Type() == cty.Number:
			return s.Key.AsBigFloat().Text('f', -1), true
		}
	}
	return "", false
}

// raw finds the JSON that the path stands for; only for the fields that are JSON.
func (p rowPath) raw(t *task.Task) (json.RawMessage, error) {
	at := json.RawMessage(bytes.TrimSpace(t.Data()))
	if p.field == "labels" {
		at = labels(t)
	}
	for _, s := range p.steps {
		next, err := s.into(at)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.text, err)
		}
		at = next
	}
	return at, nil
}

// into takes one step into JSON.
func (s pathStep) into(at json.RawMessage) (json.RawMessage, error) {
	at = bytes.TrimSpace(at)
	switch {
	case bytes.HasPrefix(at, []byte("{")):
		v, found, err := member(at, string(s))
		if err == nil && !found {
			err = fmt.Errorf("the row has no field %q at this place", string(s))
		}
		return v, err
	case bytes.HasPrefix(at, []byte("[")):
		i, err := strconv.Atoi(string(s))
		if err != nil {
			return nil, fmt.Errorf("the value in the row is a list, which has no field %q", string(s))
		}
		v, n, err := item(at, i)
		if err == nil && (i < 0 || i >= n) {
			err = fmt.Errorf("the list in the row has %d items, no index %d", n, i)
		}
		return v, err
	}
	return nil, fmt.Errorf("the value in the row is neither an object nor a list, so it has no field %q", string(s))
}

// value is the string that the path stands for in a row.
func (p rowPath) value(t *task.Task) (string, error) {
	switch p.field {
	case "type":
		return t.Type, nil
	case "id":
		return strconv.FormatInt(int64(t.ID), 10), nil
	case "attempt":
		return strconv.Itoa(t.Attempt), nil
	case "key":
		return p.present(t.Key)
	case "region":
		return p.present(t.Region)
	}
	raw, err := p.raw(t)
	if err != nil {
		return "", err
	}
	s, err := scalar(raw)
	if err != nil {
		return "", fmt.Errorf("%s: %w", p.text, err)
	}
	return s, nil
}

func (p rowPath) present(s string) (string, error) {
	if s == "" {
		return "", fmt.Errorf("%s: the row has none", p.text)
	}
	return s, nil
}

// scalar is the text of a JSON string, number or boolean.
func scalar(raw json.RawMessage) (string, error) {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0:
		return "", errJSON
	case raw[0] == '"':
		return unquoted(raw)
	case !json.Valid(raw):
		return "", errJSON
	}
	switch raw[0] {
	case '{', '[':
		return "", errors.New("the value in the row is an object or a list: name a field of it, or use jsonencode(…)")
	case 'n':
		return "", errors.New("the value in the row is null")
	case 't', 'f':
		return string(raw), nil
	}
	return plainNumber(string(raw))
}

// unquoted is the text of a JSON string.
func unquoted(raw json.RawMessage) (string, error) {
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", errJSON
	}
	return s, nil
}
