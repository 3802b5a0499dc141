package config

import (
	"cmp"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/leasehold/leasehold/internal/task"
)

// block is one block being decoded. Each attribute that is read from it is printed to out as well, so the effective
// configuration is what was read.
type block struct {
	*scope
	shape *shape
	body  *hclsyntax.Body // nil: the block is not there, and all is default
	label []string
	rng   hcl.Range // its header
	out   *printed

	redacted []string // members that are hidden where the block is shown
	wrong    []string // attributes whose values have mistakes
}

// block starts decoding a block: its labels and names are checked. hb is nil for one that is not there.
func (s *scope) block(hb *hclsyntax.Block, shape *shape) *block {
	b := &block{scope: s, shape: shape, out: &printed{header: shape.name}}
	if hb == nil {
		return b
	}
	b.body, b.label, b.rng = hb.Body, hb.Labels, hb.DefRange()
	switch {
	case shape.label == "" && len(hb.Labels) > 0:
		s.l.fail(hb.LabelRanges[0], "Unexpected label", "A %s block has no label: write %s { … }.", shape.name, shape.name)
	case shape.label != "" && len(hb.Labels) == 0:
		s.l.fail(b.rng, "Missing label", "A %s block needs %s: write %s \"name\" { … }.", shape.name, shape.label, shape.name)
	case shape.label != "" && len(hb.Labels) > 1:
		s.l.fail(hb.LabelRanges[1], "Unexpected label", "A %s block has one label, %s.", shape.name, shape.label)
	}
	b.checkNames()
	return b
}

// checkNames refuses attributes and blocks that do not belong.
func (b *block) checkNames() {
	for _, a := range inOrder(b.body.Attributes) {
		switch {
		case slices.Contains(b.shape.attrs, a.Name):
		case slices.Contains(b.shape.blocks, a.Name):
			b.l.fail(a.NameRange, "A block, not an attribute", "%s is a block: write %s { %s } without the equals sign.",
				a.Name, a.Name, inside(a.Name))
		default:
			b.foreign(a.Name, a.NameRange, "attribute")
		}
	}
	for _, hb := range b.body.Blocks {
		switch {
		case slices.Contains(b.shape.blocks, hb.Type):
		case slices.Contains(b.shape.attrs, hb.Type):
			b.l.fail(hb.TypeRange, "An attribute, not a block", "%s is an attribute: write %s = …, with the equals sign.",
				hb.Type, hb.Type)
		default:
			b.foreign(hb.Type, hb.TypeRange, "block")
		}
	}
}

// inside is what stands in a block of that name, for messages.
func inside(name string) string {
	switch name {
	case "command":
		return `argv = ["program", "argument"]`
	case "source":
		return `table = "event"`
	case "throttle":
		return `oldest_transaction = "10m"`
	case "webhook":
		return `url = "http://127.0.0.1:8080/tasks"`
	}
	return "…"
}

// foreign notes a name that is unknown, or stands elsewhere.
func (b *block) foreign(name string, at hcl.Range, kind string) {
	if reason, ok := b.shape.never[name]; ok {
		b.l.fail(at, "Not here", "%s %s", reason, b.shape.allowed())
		return
	}
	if remedy, ok := b.shape.called[strings.ToLower(name)]; ok {
		b.l.fail(at, "Unknown "+kind, "There is no %s %q here: %s. %s", kind, name, remedy, b.shape.allowed())
		return
	}
	b.l.fail(at, "Unknown "+kind, "There is no %s %q here.%s %s", kind, name, didYouMean(name, b.shape.names()),
		b.shape.allowed())
}

func inOrder(attrs hclsyntax.Attributes) []*hclsyntax.Attribute {
	out := make([]*hclsyntax.Attribute, 0, len(attrs))
	for _, a := range attrs {
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b *hclsyntax.Attribute) int {
		return cmp.Compare(a.SrcRange.Start.Byte, b.SrcRange.Start.Byte)
	})
	return out
}

// attr is an attribute of the block; nil where it is not written.
func (b *block) attr(name string) *hclsyntax.Attribute {
	if b.body == nil {
		return nil
	}
	return b.body.Attributes[name]
}

// child is a block in the block, at most one; nil where there is none.
func (b *block) child(name string) *hclsyntax.Block {
	if b.body == nil {
		return nil
	}
	var first *hclsyntax.Block
	for _, hb := range b.body.Blocks {
		switch {
		case hb.Type != name:
		case first == nil:
			first = hb
		default:
			b.l.fail(hb.DefRange(), "Duplicate block", "Only one %s block is allowed in %s; another one is at %s.",
				name, b.shape.name, place(first.DefRange()))
		}
	}
	return first
}

// given is an attribute's value.
type given struct {
	checked
	v  cty.Value
	ok bool // written, not null, and of the wanted type
}

// get evaluates an attribute. An attribute that is null counts as not written.
func (b *block) get(name string, want cty.Type) given {
	a := b.attr(name)
	if a == nil {
		return given{}
	}
	v, c, ok := b.constant(a.Expr)
	if !ok {
		b.wrong = append(b.wrong, name)
	}
	if !ok || v.IsNull() {
		return given{}
	}
	out, err := convert.Convert(v, want)
	if err != nil {
		b.invalid(name, a.Expr.Range(), fmt.Errorf("it must be %s, not %s", described(want), friendly(v)))
		return given{}
	}
	return given{v: out, checked: c, ok: true}
}

func described(t cty.Type) string {
	switch {
	case t == cty.String:
		return "a string"
	case t == cty.Number:
		return "a number"
	case t == cty.Bool:
		return "true or false"
	case t.IsListType():
		return "a list, each item " + described(t.ElementType())
	}
	return "an object, each value " + described(t.ElementType())
}

// invalid notes what is wrong with an attribute's value.
func (b *block) invalid(name string, at hcl.Range, err error) {
	b.wrong = append(b.wrong, name)
	b.l.fail(at, "Invalid "+name, "%s: %s.", name, err)
}

// sound reports whether no mistake was found in the values of these attributes. What compares attributes with each other asks for it
// first: a value with a mistake is read as another, of which nothing is to be said.
func (b *block) sound(names ...string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return slices.Contains(b.wrong, name) })
}

// at is the place of an attribute's value; the block's where it is not written.
func (b *block) at(name string) hcl.Range {
	if a := b.attr(name); a != nil {
		return a.Expr.Range()
	}
	return b.rng
}

// str reads a string; check may be nil.
func (b *block) str(name, def string, check func(string) error) string {
	g := b.get(name, cty.String)
	out := def
	if g.ok {
		out = g.v.AsString()
		if check != nil {
			if err := check(out); err != nil {
				b.invalid(name, g.expr.Range(), err)
			}
		}
	}
	b.print(name, g, quote(out))
	return out
}

// optional reads a string that may be left out, which is "", and null in the effective configuration.
func (b *block) optional(name string, check func(string) error) string {
	g := b.get(name, cty.String)
	if !g.ok {
		b.out.add(name, "null")
		return ""
	}
	out := g.v.AsString()
	if err := check(out); err != nil {
		b.invalid(name, g.expr.Range(), err)
	}
	b.print(name, g, quote(out))
	return out
}

// choice reads one of several words.
func (b *block) choice(name, def string, allowed ...string) string {
	return b.str(name, def, func(s string) error {
		if slices.Contains(allowed, s) {
			return nil
		}
		return notOneOf(s, allowed)
	})
}

// boolean reads true or false.
func (b *block) boolean(name string, def bool) bool {
	g := b.get(name, cty.Bool)
	out := def
	if g.ok {
		out = g.v.True()
	}
	b.print(name, g, fmt.Sprint(out))
	return out
}

// num reads a whole number from lo to hi.
func (b *block) num(name string, def, lo, hi int) int {
	g := b.get(name, cty.Number)
	out := def
	if g.ok {
		n, err := whole(g.v, lo, hi)
		if err != nil {
			b.invalid(name, g.expr.Range(), err)
		}
		out = n
	}
	b.print(name, g, fmt.Sprint(out))
	return out
}

// whole is a number as an int from lo to hi.
func whole(v cty.Value, lo, hi int) (int, error) {
	n, acc := v.AsBigFloat().Int64()
	if acc != big.Exact || n < int64(lo) || n > int64(hi) {
		return lo, fmt.Errorf("it must be a whole number from %d to %d", lo, hi)
	}
	return int(n), nil
}

// length reads a length of time from lo to hi.
func (b *block) length(name string, def, lo, hi time.Duration) time.Duration {
	d, _ := b.maybeLength(name, def, lo, hi)
	return d
}

// maybeLength is length, and reports whether it was written. A default below 0 stands for none.
func (b *block) maybeLength(name string, def, lo, hi time.Duration) (time.Duration, bool) {
	a := b.attr(name)
	if a != nil {
		if v, _, ok := b.constant(a.Expr); ok && !v.IsNull() && v.Type() == cty.Number {
			b.invalid(name, a.Expr.Range(), noUnit(v))
			return def, true
		} else if !ok {
			b.wrong = append(b.wrong, name)
			return def, true
		}
	}
	g := b.get(name, cty.String)
	out := def
	if g.ok {
		d, err := parseLength(g.v.AsString(), lo, hi)
		if err != nil {
			b.invalid(name, g.expr.Range(), err)
		}
		out = d
	}
	literal := "null"
	if out >= 0 {
		literal = quote(task.FormatDuration(out))
	}
	b.print(name, g, literal)
	return out, g.ok
}

// noUnit is the error for a number in place of a duration.
func noUnit(v cty.Value) error {
	return fmt.Errorf("a duration is a string with a unit: write %q (ms, s, m, h, d)", v.AsBigFloat().Text('f', -1)+"s")
}

// parseLength reads a duration from lo to hi.
func parseLength(s string, lo, hi time.Duration) (time.Duration, error) {
	d, err := task.ParseDuration(s)
	if err == nil && (d < lo || d > hi) {
		err = fmt.Errorf("it must be a duration from %s to %s", task.FormatDuration(lo), task.FormatDuration(hi))
	}
	return d, err
}

// strs reads a list of strings; check may be nil.
func (b *block) strs(name string, def []string, check func(string) error) []string {
	g := b.get(name, cty.List(cty.String))
	out := def
	if g.ok {
		out = []string{}
		for _, v := range g.v.AsValueSlice() {
			if v.IsNull() {
				b.invalid(name, g.expr.Range(), errors.New("an item is null"))
				continue
			}
			s := v.AsString()
			if check != nil {
				if err := check(s); err != nil {
					b.invalid(name, g.expr.Range(), err)
				}
			}
			out = append(out, s)
		}
	}
	b.print(name, g, quoteAll(out))
	return out
}

// print adds an attribute to the effective configuration: as its source where it calls env or file, else as literal.
func (b *block) print(name string, g given, literal string) {
	if len(g.calls) > 0 {
		literal = b.source(g.expr, g.checked, nil)
	}
	b.out.add(name, literal)
}

// printRedacted is print for a text in which secrets may stand.
func (b *block) printRedacted(name string, g given, text string) {
	if len(g.calls) > 0 {
		b.out.add(name, b.source(g.expr, g.checked, RedactText))
		return
	}
	b.out.add(name, quote(RedactText(text)))
}
