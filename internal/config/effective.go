package config

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
)

// printed is a block of the effective configuration.
type printed struct {
	header string // type and label
	attrs  [][2]string
	agents map[string]bool // of attrs: those that follow from the agent's workers
	blocks []*printed
}

func (p *printed) add(name, expr string) { p.attrs = append(p.attrs, [2]string{name, expr}) }

// set replaces what was added under a name.
func (p *printed) set(name, expr string) {
	for i := range p.attrs {
		if p.attrs[i][0] == name {
			p.attrs[i][1] = expr
		}
	}
}

// Effective prints the configuration as HCL with every default filled in. Values from the environment and from files
// are printed as their calls, literal secrets as Redacted. Loading the text again gives the same configuration, secrets
// apart (with Options.Redacted, if there are any). Its Hash is another one where the workers of a type follow from the agent's.
func (c *Config) Effective(w io.Writer) error {
	for i, p := range c.printed {
		text := p.text(nil)
		if i > 0 {
			text = "\n" + text
		}
		if _, err := io.WriteString(w, text); err != nil {
			return fmt.Errorf("print the configuration: %w", err)
		}
	}
	return nil
}

// text is the block as HCL, without the attributes of it and of the blocks in it that omit is true for; nil: with all.
func (p *printed) text(omit func(p *printed, attr string) bool) string {
	var b strings.Builder
	p.write(&b, "", omit)
	return b.String()
}

func (p *printed) write(b *strings.Builder, indent string, omit func(p *printed, attr string) bool) {
	fmt.Fprintf(b, "%s%s {\n", indent, p.header)
	attrs := p.attrs
	if omit != nil {
		attrs = slices.DeleteFunc(slices.Clone(attrs), func(a [2]string) bool { return omit(p, a[0]) })
	}
	width := 0
	for _, a := range attrs {
		width = max(width, len(a[0]))
	}
	for _, a := range attrs {
		fmt.Fprintf(b, "%s  %-*s = %s\n", indent, width, a[0], a[1])
	}
	for _, sub := range p.blocks {
		sub.write(b, indent+"  ", omit)
	}
	fmt.Fprintf(b, "%s}\n", indent)
}

// quote is a string as an HCL literal.
func quote(s string) string { return string(hclwrite.TokensForValue(cty.StringVal(s)).Bytes()) }

func quoteAll(list []string) string {
	items := make([]string, len(list))
	for i, s := range list {
		items[i] = quote(s)
	}
	return listOf(items)
}

// listOf is a list of items that are HCL already.
func listOf(items []string) string {
	if !slices.ContainsFunc(items, severalLines) {
		return "[" + strings.Join(items, ", ") + "]"
	}
	var b strings.Builder
	b.WriteString("[\n")
	for _, s := range items {
		b.WriteString("      " + s)
		if severalLines(s) {
			b.WriteString("\n      ") // a heredoc's end stands alone on its line
		}
		b.WriteString(",\n")
	}
	return b.String() + "    ]"
}

// mapOf is an object of items that are HCL already.
func mapOf(items [][2]string) string {
	if len(items) == 0 {
		return "{}"
	}
	pairs := make([]string, len(items))
	for i, item := range items {
		pairs[i] = item[0] + " = " + item[1]
	}
	if slices.ContainsFunc(pairs, severalLines) {
		return "{\n      " + strings.Join(pairs, "\n      ") + "\n    }"
	}
	return "{ " + strings.Join(pairs, ", ") + " }"
}

func severalLines(s string) bool { return strings.Contains(s, "\n") }

// key is a name as it stands before the equals sign in an object.
func key(name string) string {
	if hclsyntax.ValidIdentifier(name) && name != "null" && name != "true" && name != "false" {
		return name
	}
	return quote(name)
}

// edit replaces a range of the source by other text.
type edit struct {
	from, to int
	text     string
}

// source is an expression as it was written, good for loading from anywhere: relative paths in file(…) are made
// absolute. redact says what to show instead of a literal default of env; nil: the default itself.
func (s *scope) source(expr hclsyntax.Expression, c checked, redact func(string) string) string {
	var edits []edit
	for _, call := range c.calls {
		switch {
		case call.Name == "file" && len(call.Args) == 1:
			if path, diags := call.Args[0].Value(s.ctx); !diags.HasErrors() && path.Type() == cty.String {
				if text, changed := s.anchored(call.Args[0], path.AsString()); changed {
					edits = append(edits, replacing(call.Args[0], text))
				}
			}
		case call.Name == "env" && len(call.Args) == 2 && redact != nil:
			if lit, ok := literal(call.Args[1]); ok && redact(lit) != lit {
				edits = append(edits, replacing(call.Args[1], quote(redact(lit))))
			}
		}
	}
	r := expr.Range()
	for _, m := range s.l.masks[s.src.name] {
		if m.Start.Byte >= r.Start.Byte && m.End.Byte <= r.End.Byte {
			edits = append(edits, edit{m.Start.Byte, m.End.Byte, Redacted})
		}
	}
	slices.SortFunc(edits, func(a, b edit) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to)) })
	text, last := s.l.text[s.src.name], r.Start.Byte
	var b strings.Builder
	for _, e := range edits {
		if e.from < last { // within another edit
			continue
		}
		b.Write(text[last:e.from])
		b.WriteString(e.text)
		last = e.to
	}
	b.Write(text[last:r.End.Byte])
	return b.String()
}

func replacing(expr hclsyntax.Expression, text string) edit {
	r := expr.Range()
	return edit{r.Start.Byte, r.End.Byte, text}
}

// anchored is an expression for a path, made absolute; changed is false where it is so already.
func (s *scope) anchored(expr hclsyntax.Expression, path string) (text string, changed bool) {
	if filepath.IsAbs(path) {
		return "", false
	}
	if _, ok := literal(expr); ok {
		return quote(resolve(s.src.dir, path)), true
	}
	dir := quote(s.src.dir)
	return dir[:len(dir)-1] + "/${" + s.text(expr.Range()) + "}\"", true
}

// literal is the string that an expression plainly is.
func literal(expr hclsyntax.Expression) (string, bool) {
	t, ok := expr.(*hclsyntax.TemplateExpr)
	if !ok || len(t.Parts) > 0 && !t.IsStringLiteral() {
		return "", false
	}
	v, diags := t.Value(nil)
	if diags.HasErrors() {
		return "", false
	}
	return v.AsString(), true
}
