package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/leasehold/leasehold/internal/schedule"
	"github.com/leasehold/leasehold/internal/task"
)

func scheduleShape() *shape {
	return &shape{
		name: "schedule", label: "a name",
		attrs: []string{
			"task", "cron", "every", "after", "timezone", "payload", "jitter", "from", "until", "missed", "catch_up", "overlap",
		},
		called: calledInSchedule(),
	}
}

// schedules decodes the schedule blocks. cfg has its tasks already.
func (l *loader) schedules(all []found, cfg *Config) {
	names := make(map[string]hcl.Range)
	for _, f := range all {
		b := f.scope.block(f.block, scheduleShape())
		s, ok := b.schedule(cfg)
		if !ok {
			continue
		}
		at := f.block.DefRange()
		if other, taken := names[s.Name]; taken {
			l.fail(at, "Duplicate schedule", "The schedule %q is already declared at %s.", s.Name, place(other))
		} else {
			names[s.Name] = at
		}
		if cfg.Type(s.Task) == nil {
			b.warnOfUndeclared("The schedule", s.Name, s.Task, cfg)
		}
		cfg.Schedules = append(cfg.Schedules, s)
		cfg.places[b.out.header] = place(at)
		cfg.printed = append(cfg.printed, b.out)
	}
}

// warnOfUndeclared: agents with another configuration may run the type, so it is a warning.
func (b *block) warnOfUndeclared(what, name, typ string, cfg *Config) {
	b.l.warn(b.at("task"), "%s %q inserts tasks of the type %q, which no task block of this configuration declares, so its agents "+
		"will not run them.%s Declare task %q { … }, unless agents with another configuration do.",
		what, name, typ, didYouMean(typ, cfg.typeNames()), typ)
}

// scheduleText is an attribute of a schedule that is a string.
type scheduleText struct {
	text    *string
	standIn string // for one whose mistake is noted already: nothing else is wrong because of it
}

func scheduleTexts(s *schedule.Spec) map[string]scheduleText {
	return map[string]scheduleText{
		"task": {&s.Task, "x"}, "cron": {&s.Cron, "@daily"}, "every": {&s.Every, "366d"}, "after": {&s.After, "366d"},
		"timezone": {&s.Timezone, ""}, "jitter": {&s.Jitter, ""}, "from": {&s.From, ""}, "until": {&s.Until, ""},
		"missed": {&s.Missed, ""}, "catch_up": {&s.CatchUp, ""}, "overlap": {&s.Overlap, ""},
	}
}

// schedule decodes a schedule block; false where it has no name. Package schedule checks what the texts say.
func (b *block) schedule(cfg *Config) (s schedule.Spec, ok bool) {
	if len(b.label) != 1 {
		return s, false
	}
	s.Name = b.label[0]
	b.out.header = header("schedule", s.Name)
	texts, read := scheduleTexts(&s), make(map[string]given)
	for _, name := range b.shape.attrs {
		f, isText := texts[name]
		if !isText {
			continue
		}
		g, well := b.once(name, cty.String)
		switch {
		case !well:
			*f.text = f.standIn
		case g.ok:
			*f.text = g.v.AsString()
		}
		read[name] = g
	}
	if s.Task == "" {
		b.l.fail(b.at("task"), "Missing task", "A schedule needs a task, the type of the tasks that it inserts, as in task = \"report.build\".")
		s.Task = texts["task"].standIn
	} else if err := task.CheckTypeName(s.Task); err != nil {
		b.invalid("task", b.at("task"), err)
		s.Task = texts["task"].standIn
	}
	if t := cfg.Type(s.Task); t != nil {
		b.redacted = t.Redact
	}
	var payload string
	s.Payload, payload = b.payload()
	plan, err := schedule.New(s)
	if bad, wrong := errors.AsType[*schedule.SpecError](err); wrong {
		for _, p := range bad.Problems {
			b.invalid(p.Field, b.at(p.Field), errors.New(p.Text))
		}
		return s, true
	}
	s = plan.Filled()
	for _, name := range b.shape.attrs {
		f, isText := texts[name]
		switch {
		case !isText:
			b.out.add(name, payload)
		case *f.text == "":
			b.print(name, read[name], "null")
		default:
			b.print(name, read[name], quote(*f.text))
		}
	}
	return s, true
}

// once is get for what is evaluated when no row exists. well is false where a problem was noted.
func (b *block) once(name string, want cty.Type) (g given, well bool) {
	if a := b.attr(name); a != nil && b.mentionsRow(name, a.Expr) {
		return g, false
	}
	noted := len(b.l.diags)
	g = b.get(name, want)
	return g, len(b.l.diags) == noted
}

// mentionsRow refuses each mention of task.… in an expression.
func (b *block) mentionsRow(name string, expr hclsyntax.Expression) (found bool) {
	for _, tr := range expr.Variables() {
		if tr.RootName() != "task" {
			continue
		}
		found = true
		b.l.fail(tr.SourceRange(), "No row data here", "The %s of a schedule is evaluated once, at load, before there is a row that task.… could "+
			"refer to. Templates in the task block may use task.…: there, task.data is the payload, and task.data.slot the time of the slot.", name)
	}
	return found
}

// payload evaluates the payload; {} where it is not written, nil where a problem was noted. shown is how it is printed.
func (b *block) payload() (doc json.RawMessage, shown string) {
	a := b.attr("payload")
	if a == nil {
		return json.RawMessage("{}"), "{}"
	}
	b.hideMembers(a.Expr)
	if b.mentionsRow("payload", a.Expr) {
		return nil, ""
	}
	v, _, ok := b.constant(a.Expr)
	switch {
	case !ok:
		return nil, ""
	case v.IsNull():
		return json.RawMessage("{}"), "{}"
	case !v.Type().IsObjectType() && !v.Type().IsMapType():
		b.invalid("payload", a.Expr.Range(), fmt.Errorf("it must be an object, as in payload = { kind = \"daily\" }, not %s; jsondecode(…) makes an "+
			"object of JSON text", friendly(v)))
		return nil, ""
	}
	noted := len(b.l.diags)
	shown = b.data(a.Expr, "payload", false)
	if v.Type().IsObjectType() && v.Type().HasAttribute("slot") || v.Type().IsMapType() && v.HasIndex(cty.StringVal("slot")).True() {
		b.invalid("payload", b.memberAt(a.Expr, "slot"), errors.New("slot is set by the agent: it is the time that a task stands for; leave it out"))
	}
	doc, err := ctyjson.Marshal(v, v.Type())
	if err != nil {
		b.invalid("payload", a.Expr.Range(), err)
	}
	b.notRedacted(a.Expr.Range(), string(doc))
	if len(b.l.diags) > noted {
		return nil, ""
	}
	return doc, shown
}

// memberAt is the place of a member's name; the object's where it is not written out.
func (b *block) memberAt(expr hclsyntax.Expression, name string) hcl.Range {
	items, _ := object(expr)
	for _, item := range items {
		if strings.Trim(b.text(item.KeyExpr.Range()), `"`) == name {
			return item.KeyExpr.Range()
		}
	}
	return expr.Range()
}

// hideMembers masks literal secrets: what looks like one, and all text in members that are hidden.
func (b *block) hideMembers(expr hclsyntax.Expression) {
	b.hide(expr, false)
	_ = hclsyntax.VisitAll(expr, func(n hclsyntax.Node) hcl.Diagnostics {
		if o, ok := n.(*hclsyntax.ObjectConsExpr); ok {
			for _, item := range o.Items {
				if b.isHidden(b.memberName(item)) {
					b.hide(item.ValueExpr, true)
				}
			}
		}
		return nil
	})
}

// data prints an expression that has been evaluated well and becomes JSON: objects, lists and strings that are written out as
// literals, all else as it was written, and of secrets only calls of env and file.
func (b *block) data(expr hclsyntax.Expression, attr string, secret bool) string {
	e := unwrap(expr)
	if o, ok := e.(*hclsyntax.ObjectConsExpr); ok {
		return b.members(o, attr, secret)
	}
	if list, ok := e.(*hclsyntax.TupleConsExpr); ok {
		items := make([]string, len(list.Exprs))
		for i, one := range list.Exprs {
			items[i] = b.data(one, attr, secret)
		}
		return listOf(items)
	}
	v, c, ok := b.constant(expr)
	if !ok || v.IsNull() {
		return "null"
	}
	text, plain := literal(e)
	if !plain && len(c.calls) == 0 && v.Type() == cty.String { // it may compute what looks like a secret
		text, plain = v.AsString(), RedactText(v.AsString()) != v.AsString()
	}
	switch {
	case secret && (plain || len(c.calls) == 0 || b.hasOtherText(expr)):
		if plain {
			return quote(redact(text))
		}
		return quote(Redacted)
	case secret:
		return b.source(expr, c, redact)
	case plain:
		return quote(RedactText(text))
	}
	return b.source(expr, c, RedactText)
}

// members prints an object that is written out. A name that stands there twice is a mistake.
func (b *block) members(o *hclsyntax.ObjectConsExpr, attr string, secret bool) string {
	var shown [][2]string
	var names []string
	for _, item := range o.Items {
		v, c, ok := b.constant(item.KeyExpr)
		if !ok {
			continue
		}
		name, err := stringOf(v)
		if err == nil && slices.Contains(names, name) {
			err = fmt.Errorf("%s is set twice", name)
		}
		if err != nil {
			b.invalid(attr, item.KeyExpr.Range(), err)
			continue
		}
		names = append(names, name)
		printed := key(name)
		if len(c.calls) > 0 {
			printed = b.source(item.KeyExpr, c, RedactText)
		}
		shown = append(shown, [2]string{printed, b.data(item.ValueExpr, attr, secret || b.isHidden(name))})
	}
	return mapOf(shown)
}
