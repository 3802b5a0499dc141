package config

import (
	"errors"
	"fmt"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/leasehold/leasehold/internal/task"
)

// rowString compiles a string that a row may fill in. Fixed text is checked now, the rest with each row.
func (b *block) rowString(
	name string, expr hclsyntax.Expression, limit int, valid func(string) error,
) (*template, checked, bool) {
	t, c, ok := b.template(expr)
	if !ok {
		return nil, c, false
	}
	if t.isFixed() {
		err := valid(t.prefix())
		if err == nil && len(t.prefix()) > limit {
			err = fmt.Errorf("longer than %d bytes", limit)
		}
		if err != nil {
			b.invalid(name, expr.Range(), err)
			return nil, c, false
		}
	}
	return t, c, true
}

// rowStrings is an attribute with an object of strings that rows may fill in.
type rowStrings struct {
	name       string
	limit      int                     // bytes of a value
	checkKey   func(key string) error  // keys are fixed
	checkValue func(text string) error // at load what is fixed, for each row the rest
	same       func(key string) string // folds keys that mean the same
	checkRow   func(key string) error  // whether a row may fill in the value of that key
}

// templates compiles an object of strings that rows may fill in.
func (b *block) templates(of rowStrings) map[string]task.Template {
	name := of.name
	out := make(map[string]task.Template)
	a := b.attr(name)
	if a == nil {
		b.out.add(name, "{}")
		return out
	}
	items, ok := object(a.Expr)
	if !ok {
		b.invalid(name, a.Expr.Range(), errors.New(`it must be an object of strings, as in { NAME = "value" }`))
		return out
	}
	var shown [][2]string
	seen := make(map[string]bool)
	for _, item := range items {
		k, ok := b.fixedKey(name, item.KeyExpr, of.checkKey)
		if !ok {
			continue
		}
		if seen[of.same(k)] {
			b.invalid(name, item.KeyExpr.Range(), fmt.Errorf("%s is set twice", k))
			continue
		}
		seen[of.same(k)] = true
		b.hide(item.ValueExpr, isSecretName(k))
		t, c, ok := b.rowString(name, item.ValueExpr, of.limit, of.checkValue)
		if !ok {
			continue
		}
		if err := of.checkRow(k); err != nil && !t.isFixed() {
			b.invalid(name, item.ValueExpr.Range(), err)
		}
		out[k] = t.compile(of.limit, of.checkValue)
		shown = append(shown, [2]string{key(k), b.templateSource(item.ValueExpr, c, t, k)})
	}
	b.out.add(name, mapOf(shown))
	return out
}

// fixedKey evaluates the key of an object.
func (b *block) fixedKey(name string, expr hclsyntax.Expression, check func(string) error) (string, bool) {
	v, _, ok := b.constant(expr)
	if !ok {
		return "", false
	}
	k, err := stringOf(v)
	if err == nil {
		err = check(k)
	}
	if err != nil {
		b.invalid(name, expr.Range(), err)
		return "", false
	}
	return k, true
}

// templateSource prints a template: as its source where a row, env or file fills it in, else as the text it is. Where
// its name says that it is a secret, text that is written out is not shown.
func (b *block) templateSource(expr hclsyntax.Expression, c checked, t *template, name string) string {
	secret := isSecretName(name)
	switch {
	case len(c.calls) > 0 && secret:
		return b.source(expr, c, redact)
	case len(c.calls) > 0:
		return b.source(expr, c, RedactText)
	case secret && t.isFixed():
		return quote(redact(t.prefix()))
	case secret && b.hasOtherText(expr):
		return quote(Redacted)
	case t.isFixed():
		return quote(RedactText(t.prefix()))
	}
	return b.source(expr, c, nil)
}

func notOneOf(s string, allowed []string) error {
	return fmt.Errorf("invalid value %q: use %s", s, oneOf(allowed))
}
