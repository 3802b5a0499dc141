package config

import (
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Redacted is printed in place of a literal secret.
const Redacted = "(redacted)"

// Bounds on a signing secret, in bytes once decoded: those of the Standard Webhooks specification.
const (
	minSecret = 24
	maxSecret = 64
)

// redact hides a whole secret.
func redact(s string) string {
	if s == "" {
		return s
	}
	return Redacted
}

// hide masks the literal text of an expression wherever the source is shown: all of it, or the secrets in it only.
func (s *scope) hide(expr hclsyntax.Expression, all bool) {
	names := make(map[hclsyntax.Node]bool) // what env and file are called with is no secret
	_ = hclsyntax.VisitAll(expr, func(n hclsyntax.Node) hcl.Diagnostics {
		switch n := n.(type) {
		case *hclsyntax.FunctionCallExpr:
			if (n.Name == "env" || n.Name == "file") && len(n.Args) > 0 {
				names[n.Args[0]] = true
			}
		case *hclsyntax.TemplateExpr:
			if !names[n] {
				s.mask(n.Parts, all)
			}
		}
		return nil
	})
}

// noSecret is what stands beside the secret in a header.
var noSecret = regexp.MustCompile(`^(?i:bearer|basic|token|digest|key)?\W*$`)

// mask masks the literal parts of a template, which are looked at together: a secret may begin in one and go on in another.
func (s *scope) mask(parts []hclsyntax.Expression, all bool) {
	const filled = "\x01" // stands for what env, file or a row gives
	var text strings.Builder
	at := make([]int, len(parts))
	for i, p := range parts {
		at[i] = text.Len()
		if lit, ok := p.(*hclsyntax.LiteralValueExpr); ok {
			text.WriteString(s.text(lit.SrcRange))
		} else {
			text.WriteString(filled)
		}
	}
	secrets := []span{{0, text.Len()}}
	if !all {
		secrets = textSecrets(text.String())
	}
	for i, p := range parts {
		lit, ok := p.(*hclsyntax.LiteralValueExpr)
		if !ok || all && len(parts) > 1 && noSecret.MatchString(s.text(lit.SrcRange)) {
			continue
		}
		for _, secret := range secrets {
			part := lit.SrcRange
			end := min(secret.to-at[i], part.End.Byte-part.Start.Byte)
			if from := max(secret.from-at[i], 0); from < end {
				part.Start.Byte, part.End.Byte = lit.SrcRange.Start.Byte+from, lit.SrcRange.Start.Byte+end
				s.l.masks[s.src.name] = append(s.l.masks[s.src.name], part)
			}
		}
	}
}

// notRedacted refuses to load what Effective printed instead of a secret, unless that is what the caller wants.
func (s *scope) notRedacted(at hcl.Range, value string) {
	if strings.Contains(value, Redacted) && !s.l.opts.Redacted {
		s.l.fail(at, "Redacted secret",
			"This stands where a secret was when the configuration was printed. Put the secret in its place, "+
				"or better env(…) or file(…).")
	}
}

// secretSource prints an expression that gives a secret: its calls of env and file, and nothing that is written out.
func (b *block) secretSource(expr hclsyntax.Expression, c checked, value string) string {
	if len(c.calls) == 0 || b.hasOtherText(expr) {
		return quote(redact(value))
	}
	return b.source(expr, c, redact)
}

// hasOtherText reports whether an expression holds text besides what env and file are called with.
func (b *block) hasOtherText(expr hclsyntax.Expression) bool {
	args, found := make(map[hclsyntax.Node]bool), false
	_ = hclsyntax.VisitAll(expr, func(n hclsyntax.Node) hcl.Diagnostics {
		switch n := n.(type) {
		case *hclsyntax.FunctionCallExpr:
			if n.Name == "env" || n.Name == "file" {
				for _, a := range n.Args {
					args[a] = true
				}
			}
		case *hclsyntax.TemplateExpr:
			if lit, ok := literal(n); !args[n] && !(ok && lit == "") {
				for _, p := range n.Parts {
					_, isText := p.(*hclsyntax.LiteralValueExpr)
					found = found || isText
				}
			}
		}
		return nil
	})
	return found
}

// secret reads one secret string; white space around it, as a file has at its end, is not part of it.
func (b *block) secret(name, def string) string {
	if a := b.attr(name); a != nil {
		b.hide(a.Expr, true)
	}
	g := b.get(name, cty.String)
	if !g.ok {
		b.out.add(name, quote(def))
		return def
	}
	value := strings.TrimSpace(g.v.AsString())
	b.notRedacted(g.expr.Range(), value)
	b.out.add(name, b.secretSource(g.expr, g.checked, value))
	return value
}

// signingSecrets reads one signing secret or a list of them.
func (b *block) signingSecrets(name string) []string {
	a := b.attr(name)
	if a == nil {
		b.out.add(name, "[]")
		return nil
	}
	b.hide(a.Expr, true)
	list, isList := unwrap(a.Expr).(*hclsyntax.TupleConsExpr)
	if !isList {
		return b.evaluatedSecrets(name, a.Expr)
	}
	var values, items []string
	for _, e := range list.Exprs {
		v, c, ok := b.constant(e)
		if !ok {
			continue
		}
		s, err := stringOf(v)
		if err != nil {
			b.invalid(name, e.Range(), err)
			continue
		}
		values = append(values, b.signingSecret(name, e.Range(), s))
		items = append(items, b.secretSource(e, c, s))
	}
	b.out.add(name, listOf(items))
	return values
}

// evaluatedSecrets reads an expression that gives one secret or a list.
func (b *block) evaluatedSecrets(name string, expr hclsyntax.Expression) []string {
	v, c, ok := b.constant(expr)
	if !ok {
		return nil
	}
	if v.IsNull() {
		b.out.add(name, "[]")
		return nil
	}
	all := []cty.Value{v}
	if v.Type().IsTupleType() || v.Type().IsListType() {
		all = v.AsValueSlice()
	}
	var values []string
	for _, v := range all {
		s, err := stringOf(v)
		if err != nil {
			b.invalid(name, expr.Range(), err)
			continue
		}
		values = append(values, b.signingSecret(name, expr.Range(), s))
	}
	b.out.add(name, b.secretSource(expr, c, "secret"))
	return values
}

// signingSecret checks one secret and gives it without the white space around it.
func (b *block) signingSecret(name string, at hcl.Range, s string) string {
	s = strings.TrimSpace(s)
	b.notRedacted(at, s)
	if s != Redacted {
		if err := checkSecret(s); err != nil {
			b.invalid(name, at, err)
		}
	}
	return s
}

// checkSecret checks that a secret is one of Standard Webhooks. Its error does not show it.
func checkSecret(s string) error {
	const remedy = "`openssl rand -base64 32` makes one"
	if s == "" {
		return errors.New("it is empty; leave the attribute out to send requests unsigned; " + remedy)
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(s, "whsec_"))
	switch {
	case err != nil:
		return errors.New("a secret must be base64, with or without the prefix whsec_; " + remedy)
	case len(raw) < minSecret || len(raw) > maxSecret:
		return fmt.Errorf("a secret must encode %d to %d bytes, but this one encodes %d; %s", minSecret, maxSecret, len(raw), remedy)
	}
	return nil
}

// unwrap takes parentheses off an expression.
func unwrap(e hclsyntax.Expression) hclsyntax.Expression {
	for {
		p, ok := e.(*hclsyntax.ParenthesesExpr)
		if !ok {
			return e
		}
		e = p.Expression
	}
}
