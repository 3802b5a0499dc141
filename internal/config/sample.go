package config

import (
	"encoding/json"
	"strconv"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Sample is a payload to try a declared type with: JSON that has each member of task.data which the type's templates
// mention, with a number that stands for its value. It is {} where they mention none, and for types that are not declared.
func (c *Config) Sample(typ string) json.RawMessage {
	if doc, ok := c.samples[typ]; ok {
		return doc
	}
	return json.RawMessage("{}")
}

// sampleOf makes a payload for a task block.
func sampleOf(body *hclsyntax.Body) json.RawMessage {
	var root any
	for _, tr := range mentions(body) {
		if p, _ := newRowPath(tr, ""); p.field == "data" {
			root = grow(root, p.steps)
		}
	}
	if _, isObject := root.(map[string]any); !isObject {
		return json.RawMessage("{}")
	}
	doc, err := json.Marshal(root)
	if err != nil {
		return json.RawMessage("{}") // it is of plain values, so this is not reached
	}
	return doc
}

// mentions are the names that the expressions in a block and in those within it refer to.
func mentions(body *hclsyntax.Body) []hcl.Traversal {
	var all []hcl.Traversal
	for _, a := range body.Attributes {
		for _, tr := range a.Expr.Variables() {
			if tr.RootName() == "task" && len(tr) > 2 {
				all = append(all, tr)
			}
		}
	}
	for _, b := range body.Blocks {
		all = append(all, mentions(b.Body)...)
	}
	return all
}

// grow adds a path to a document. A place that is a value already, and has members elsewhere, becomes what has members.
func grow(at any, steps []pathStep) any {
	if len(steps) == 0 {
		if at == nil {
			return 1
		}
		return at
	}
	const most = 16 // elements: a template may name any index
	if n, err := strconv.Atoi(string(steps[0])); err == nil && n >= 0 && n < most {
		list, isList := at.([]any)
		if _, isObject := at.(map[string]any); isObject {
			return at
		}
		if !isList {
			list = nil
		}
		for len(list) <= n {
			list = append(list, 1)
		}
		list[n] = grow(nonLeaf(list[n]), steps[1:])
		return list
	}
	members, isObject := at.(map[string]any)
	if !isObject {
		members = map[string]any{}
	}
	members[string(steps[0])] = grow(members[string(steps[0])], steps[1:])
	return members
}

// nonLeaf is a value without the 1 that stands for one not known yet.
func nonLeaf(v any) any {
	if v == 1 {
		return nil
	}
	return v
}
