package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/leasehold/leasehold/internal/task"
)

// Bounds on what a template may give, in bytes.
const (
	maxURL      = 8 << 10
	maxHeader   = 8 << 10
	maxArgument = 128<<10 - 1 // Linux's MAX_ARG_STRLEN, which counts the NUL at the end
)

// maxMentions bounds how many bytes of a row all mentions in one expression stand for together: within an expression text
// is put together without any other bound.
const maxMentions = 16 << 20

// part is a piece of a template: fixed text, or what a row gives.
type part struct {
	fixed string
	row   task.Template // nil: fixed
	at    hcl.Range
}

// template is a compiled string: fixed parts and those that each row fills in.
type template struct {
	parts []part
	at    hcl.Range
}

// prefix is the fixed text that the template begins with.
func (t *template) prefix() string {
	var b strings.Builder
	for _, p := range t.parts {
		if p.row != nil {
			break
		}
		b.WriteString(p.fixed)
	}
	return b.String()
}

// isFixed reports whether no row changes the template.
func (t *template) isFixed() bool {
	for _, p := range t.parts {
		if p.row != nil {
			return false
		}
	}
	return true
}

// place is the template's place, as errors name it.
func place(r hcl.Range) string { return fmt.Sprintf("%s:%d", r.Filename, r.Start.Line) }

// compile makes a template of at most limit bytes whose text passes valid.
func (t *template) compile(limit int, valid func(string) error) task.Template {
	if t.isFixed() {
		s := t.prefix()
		return func(*task.Task) (string, error) { return s, nil }
	}
	return func(row *task.Task) (string, error) {
		var b strings.Builder
		for _, p := range t.parts {
			s := p.fixed
			if p.row != nil {
				var err error
				if s, err = p.row(row); err != nil {
					return "", fmt.Errorf("%s: %w", place(p.at), err)
				}
			}
			if b.Len()+len(s) > limit {
				return "", fmt.Errorf("%s: the template produces more than %d bytes", place(t.at), limit)
			}
			b.WriteString(s)
		}
		if err := valid(b.String()); err != nil {
			return "", fmt.Errorf("%s: %w", place(t.at), err)
		}
		return b.String(), nil
	}
}

// template compiles an expression that must give a string. ok is false where problems were noted.
func (s *scope) template(expr hclsyntax.Expression) (t *template, c checked, ok bool) {
	c, ok = s.check(expr)
	if !ok {
		return nil, c, false
	}
	t = &template{at: expr.Range()}
	for _, e := range pieces(expr) {
		p, ok := s.part(e)
		if !ok {
			return nil, c, false
		}
		t.parts = append(t.parts, p)
		if strings.Contains(p.fixed, Redacted) || p.row != nil && strings.Contains(s.text(e.Range()), Redacted) {
			s.notRedacted(e.Range(), Redacted)
		}
	}
	return t, c, true
}

// pieces takes a quoted template apart; every other expression is one piece.
func pieces(expr hclsyntax.Expression) []hclsyntax.Expression {
	switch e := expr.(type) {
	case *hclsyntax.TemplateExpr:
		return e.Parts
	case *hclsyntax.TemplateWrapExpr:
		return []hclsyntax.Expression{e.Wrapped}
	case *hclsyntax.ParenthesesExpr:
		return pieces(e.Expression)
	}
	return []hclsyntax.Expression{expr}
}

// part compiles one piece.
func (s *scope) part(expr hclsyntax.Expression) (part, bool) {
	p := part{at: expr.Range()}
	if len(expr.Variables()) == 0 {
		v, diags := expr.Value(s.ctx)
		if s.l.take(diags) {
			return p, false
		}
		str, err := stringOf(v)
		if err != nil {
			s.l.fail(expr.Range(), "Not a string", "Text is needed here: %s.", err)
			return p, false
		}
		p.fixed = str
		return p, true
	}
	// Evaluating with an unknown row finds unknown functions and wrong types now rather than with the first row.
	known := s.ctx.NewChild()
	known.Variables = map[string]cty.Value{"task": unknownRow()}
	v, diags := expr.Value(known)
	if s.l.take(diags) {
		return p, false
	}
	if v.IsNull() || v.Type() != cty.DynamicPseudoType && !v.Type().IsPrimitiveType() {
		s.l.fail(expr.Range(), "Not a string",
			"Text is needed here, and this gives %s. jsonencode(…) makes a string of anything.",
			friendly(v))
		return p, false
	}
	p.row = s.direct(expr)
	if p.row == nil {
		p.row = s.computed(expr)
	}
	return p, true
}

func friendly(v cty.Value) string {
	if v.IsNull() {
		return "null"
	}
	return "a " + v.Type().FriendlyName()
}

// direct is a template for a plain mention of row data, or its jsonencode; nil for everything else.
func (s *scope) direct(expr hclsyntax.Expression) task.Template {
	switch e := expr.(type) {
	case *hclsyntax.ScopeTraversalExpr:
		if p, ok := newRowPath(e.Traversal, s.text(e.SrcRange)); ok {
			return p.value
		}
	case *hclsyntax.FunctionCallExpr:
		if e.Name != "jsonencode" || len(e.Args) != 1 || e.ExpandFinal {
			return nil
		}
		mention, ok := e.Args[0].(*hclsyntax.ScopeTraversalExpr)
		if !ok {
			return nil
		}
		p, ok := newRowPath(mention.Traversal, s.text(mention.SrcRange))
		if !ok || p.field != "data" && p.field != "labels" {
			return nil
		}
		return func(t *task.Task) (string, error) {
			raw, err := p.raw(t)
			if err != nil {
				return "", err
			}
			var b bytes.Buffer
			if err := json.Compact(&b, raw); err != nil {
				return "", fmt.Errorf("%s: not valid JSON", p.text)
			}
			return b.String(), nil
		}
	}
	return nil
}

// computed is a template that HCL evaluates for each row.
func (s *scope) computed(expr hclsyntax.Expression) task.Template {
	var fields []string
	for _, tr := range expr.Variables() {
		if name, ok := stepName(tr[1]); ok {
			fields = append(fields, name)
		}
	}
	mentioned := make(map[string]int)
	for _, f := range fields {
		mentioned[f]++
	}
	source := s.text(expr.Range())
	if len(source) > 80 {
		source = source[:80] + "…"
	}
	return func(t *task.Task) (out string, err error) {
		defer func() {
			// A row is written by others; a fault of the evaluator's must cost the row and not the agent.
			if r := recover(); r != nil {
				out, err = "", fmt.Errorf("%s: evaluating it failed: %v", source, r)
			}
		}()
		if n := mentioned["data"]*len(t.Data()) + mentioned["labels"]*len(t.Labels); n > maxMentions {
			return "", fmt.Errorf("%s: the row is too large to be inserted this often", source)
		}
		row, err := rowValue(t, fields)
		if err != nil {
			return "", fmt.Errorf("%s: %w", source, err)
		}
		ctx := s.ctx.NewChild()
		ctx.Variables = map[string]cty.Value{"task": row}
		v, diags := expr.Value(ctx)
		if diags.HasErrors() {
			return "", fmt.Errorf("%s: %s", source, shorten(withoutOperand(firstError(diags).Detail), 300))
		}
		if out, err = stringOf(v); err != nil {
			return "", fmt.Errorf("%s: %w", source, err)
		}
		return out, nil
	}
}

func firstError(diags hcl.Diagnostics) *hcl.Diagnostic {
	for _, d := range diags {
		if d.Severity == hcl.DiagError {
			return d
		}
	}
	return diags[0]
}

// shorten cuts text to n bytes at the end of a character.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// stringOf is the text of a string, number or boolean.
func stringOf(v cty.Value) (string, error) {
	switch {
	case v.IsNull():
		return "", errors.New("the value is null")
	case !v.IsKnown():
		return "", errors.New("the value is not known")
	case !v.Type().IsPrimitiveType():
		return "", fmt.Errorf("the value is %s; jsonencode(…) makes a string of it", friendly(v))
	}
	if err := bounded(v); err != nil {
		return "", err
	}
	s, err := convert.Convert(v, cty.String)
	if err != nil {
		return "", err
	}
	return s.AsString(), nil
}
