package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/leasehold/leasehold/internal/chunk"
	"github.com/leasehold/leasehold/internal/task"
)

// Defaults and bounds of a chunk's size.
const (
	defaultChunk    = 1000 // rows
	defaultChunkMin = 100
	defaultChunkMax = 50_000
	maxChunk        = 1_000_000
	minChunkTime    = 100 * time.Millisecond
	maxChunkTime    = time.Hour
)

// sizeExample is a size that follows a target.
const sizeExample = `size = { target = "5s", start = 1000, min = 100, max = 50000 }`

// sizeMembers lists the members of such a size, in the order they are printed.
func sizeMembers() []string { return []string{"target", "start", "min", "max"} }

// chunkSize reads size: a number of rows, or an object with a target.
func (b *block) chunkSize() chunk.Size {
	out := chunk.Size{Start: defaultChunk}
	g := b.get("size", cty.DynamicPseudoType)
	switch {
	case !g.ok:
	case g.v.Type().IsObjectType() || g.v.Type().IsMapType():
		return b.targetSize(g)
	default:
		v, err := convert.Convert(g.v, cty.Number)
		if err != nil {
			err = fmt.Errorf("it must be a number of rows, or an object as in %s, not %s", sizeExample, friendly(g.v))
		} else {
			out.Start, err = whole(v, 1, maxChunk)
		}
		if err != nil {
			b.invalid("size", g.expr.Range(), err)
		}
	}
	b.print("size", g, fmt.Sprint(out.Start))
	return out
}

// sizeMember is a member of size.
type sizeMember struct {
	given
	at hcl.Range
}

// targetSize reads a size that follows a target. What is not written follows what is, where its default is beyond that.
func (b *block) targetSize(g given) (s chunk.Size) {
	members := b.sizeObject(g)
	noted := len(b.l.diags)
	if m, ok := members["target"]; ok {
		d, err := lengthOf(m.v, minChunkTime, maxChunkTime)
		if err != nil {
			b.invalid("size", m.at, fmt.Errorf("target: %w", err))
		}
		s.Target = d
	} else {
		b.invalid("size", g.expr.Range(), errors.New("an object needs a target, how long a chunk should take, as in "+sizeExample+
			"; chunks of always the same size are size = 1000"))
	}
	s.Start, s.Min, s.Max = b.rows(members, "start"), b.rows(members, "min"), b.rows(members, "max")
	if len(b.l.diags) > noted {
		return s
	}
	start, lo, hi := s.Start, s.Min, s.Max // 0 where they are not written
	if s.Max == 0 {
		s.Max = max(defaultChunkMax, lo, start)
	}
	if s.Min == 0 {
		s.Min = min(defaultChunkMin, s.Max)
		if start > 0 {
			s.Min = min(s.Min, start)
		}
	}
	if s.Start == 0 {
		s.Start = max(min(defaultChunk, s.Max), s.Min)
	}
	switch {
	case lo > 0 && hi > 0 && lo > hi:
		b.invalid("size", members["min"].at, fmt.Errorf("min: it is more than max (%d)", hi))
	case s.Start < s.Min:
		b.invalid("size", members["start"].at, fmt.Errorf("start: it is less than min (%d)", s.Min))
	case s.Start > s.Max:
		b.invalid("size", members["start"].at, fmt.Errorf("start: it is more than max (%d)", s.Max))
	}
	b.printSize(g, members, s)
	return s
}

// lengthOf reads a duration from lo to hi.
func lengthOf(v cty.Value, lo, hi time.Duration) (time.Duration, error) {
	switch v.Type() {
	case cty.Number:
		return lo, noUnit(v)
	case cty.String:
		return parseLength(v.AsString(), lo, hi)
	}
	return lo, fmt.Errorf("it must be a string, not %s", friendly(v))
}

// rows reads a member that is a number of rows; 0 where it is not written, or has a mistake.
func (b *block) rows(members map[string]sizeMember, name string) (n int) {
	m, ok := members[name]
	if !ok {
		return 0
	}
	v, err := convert.Convert(m.v, cty.Number)
	if err != nil {
		err = fmt.Errorf("it must be a number of rows, not %s", friendly(m.v))
	} else {
		n, err = whole(v, 1, maxChunk)
	}
	if err != nil {
		b.invalid("size", m.at, fmt.Errorf("%s: %w", name, err))
		return 0 // so that it is compared with no other
	}
	return n
}

// sizeObject returns the members that are written and not null, and notes those that do not belong.
func (b *block) sizeObject(g given) map[string]sizeMember {
	members := make(map[string]sizeMember)
	var seen []string
	add := func(name string, at hcl.Range, m sizeMember) {
		switch {
		case !slices.Contains(sizeMembers(), name):
			b.invalid("size", at, fmt.Errorf("there is no %q in it.%s Allowed: %s", name, didYouMean(name, sizeMembers()),
				strings.Join(sizeMembers(), ", ")))
		case slices.Contains(seen, name):
			b.invalid("size", at, fmt.Errorf("%s is set twice", name))
		case !m.v.IsNull():
			members[name] = m
		}
		seen = append(seen, name)
	}
	items, written := object(g.expr)
	if !written {
		all := g.v.AsValueMap()
		for _, name := range slices.Sorted(maps.Keys(all)) {
			add(name, g.expr.Range(), sizeMember{given{checked: checked{expr: g.expr}, v: all[name], ok: true}, g.expr.Range()})
		}
		return members
	}
	for _, item := range items {
		k, _, ok := b.constant(item.KeyExpr)
		v, c, well := b.constant(item.ValueExpr)
		if !ok || !well {
			continue
		}
		name, err := stringOf(k)
		if err != nil {
			b.invalid("size", item.KeyExpr.Range(), err)
			continue
		}
		add(name, item.KeyExpr.Range(), sizeMember{given{checked: c, v: v, ok: true}, item.ValueExpr.Range()})
	}
	return members
}

// printSize prints each member as its source where it calls env or file, else as literal.
func (b *block) printSize(g given, members map[string]sizeMember, s chunk.Size) {
	literals := map[string]string{
		"target": quote(task.FormatDuration(s.Target)), "start": fmt.Sprint(s.Start), "min": fmt.Sprint(s.Min), "max": fmt.Sprint(s.Max),
	}
	var items [][2]string
	calls := 0
	for _, name := range sizeMembers() {
		m := members[name]
		calls += len(m.calls)
		if len(m.calls) > 0 {
			literals[name] = b.source(m.expr, m.checked, nil)
		}
		items = append(items, [2]string{name, literals[name]})
	}
	if calls < len(g.calls) { // others made the object or its names
		b.print("size", g, "")
		return
	}
	b.out.add("size", mapOf(items))
}
