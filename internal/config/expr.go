package config

import (
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// scope is what the expressions of one file may use.
type scope struct {
	l   *loader
	src *source
	ctx *hcl.EvalContext // functions, no variables
}

func (l *loader) scope(src *source) *scope {
	functions := make(map[string]function.Function)
	for _, f := range pureFunctions() {
		functions[f.Name] = f.fn
	}
	functions[operandName] = operandFunction()
	functions["env"] = l.outside.envFunction()
	functions["file"] = l.outside.fileFunction(src.dir)
	return &scope{l: l, src: src, ctx: &hcl.EvalContext{Functions: functions}}
}

// text is the source of a range.
func (s *scope) text(r hcl.Range) string { return string(r.SliceBytes(s.l.text[s.src.name])) }

// checked is an expression that has been looked through: what it mentions is there, what it calls outside is read.
type checked struct {
	expr  hclsyntax.Expression
	row   bool                          // mentions task.…
	calls []*hclsyntax.FunctionCallExpr // of env and file
}

// check looks through an expression and guards its arithmetic. ok is false where problems were noted.
func (s *scope) check(expr hclsyntax.Expression) (c checked, ok bool) {
	c.expr, ok = expr, true
	_ = hclsyntax.VisitAll(expr, func(n hclsyntax.Node) hcl.Diagnostics {
		switch n := n.(type) {
		case *hclsyntax.ForExpr, *hclsyntax.TemplateJoinExpr:
			s.l.fail(n.Range(), "No loops", "There are no loops in expressions. A list of one field of each item is "+
				"list[*].field; join(…) and jsonencode(…) make one string of it.")
			ok = false
		case *hclsyntax.BinaryOpExpr:
			if n.Op.Type == cty.Number || comparesNumbers(n.Op) {
				n.LHS, n.RHS = operand(n.LHS), operand(n.RHS)
			}
		case *hclsyntax.IndexExpr:
			n.Key = operand(n.Key)
		case *hclsyntax.UnaryOpExpr:
			if n.Op.Type == cty.Number {
				n.Val = operand(n.Val)
			}
		case *hclsyntax.FunctionCallExpr:
			if n.Name == "env" || n.Name == "file" {
				c.calls = append(c.calls, n)
			}
			s.guardNumbers(n)
		}
		return nil
	})
	ok = s.checkTries(expr) && ok
	for _, tr := range expr.Variables() {
		c.row = true
		ok = s.checkMention(tr) && ok
	}
	for _, call := range c.calls {
		ok = s.readOutside(call) && ok
	}
	return c, ok
}

// comparesNumbers reports whether an operator makes numbers of its operands, and a boolean of them.
func comparesNumbers(op *hclsyntax.Operation) bool {
	return op == hclsyntax.OpGreaterThan || op == hclsyntax.OpGreaterThanOrEqual ||
		op == hclsyntax.OpLessThan || op == hclsyntax.OpLessThanOrEqual
}

// guardNumbers guards the arguments of which a function makes numbers.
func (s *scope) guardNumbers(call *hclsyntax.FunctionCallExpr) {
	f, known := s.ctx.Functions[call.Name]
	if !known || call.Name == operandName {
		return
	}
	params := f.Params()
	for i, arg := range call.Args {
		param := f.VarParam()
		if i < len(params) {
			param = &params[i]
		}
		if param != nil && param.Type == cty.Number {
			call.Args[i] = operand(arg)
		}
	}
}

// maxTries bounds how deep try may stand in itself: each evaluates its arguments twice.
const maxTries = 4

// tries counts how deep in calls of try a walk is.
type tries struct{ depth, deepest int }

// Enter is called before the children of a node.
func (t *tries) Enter(n hclsyntax.Node) hcl.Diagnostics {
	if call, ok := n.(*hclsyntax.FunctionCallExpr); ok && call.Name == "try" {
		t.depth++
		t.deepest = max(t.deepest, t.depth)
	}
	return nil
}

// Exit is called after them.
func (t *tries) Exit(n hclsyntax.Node) hcl.Diagnostics {
	if call, ok := n.(*hclsyntax.FunctionCallExpr); ok && call.Name == "try" {
		t.depth--
	}
	return nil
}

func (s *scope) checkTries(expr hclsyntax.Expression) bool {
	var t tries
	_ = hclsyntax.Walk(expr, &t)
	if t.deepest > maxTries {
		s.l.fail(expr.Range(), "Nested too deeply", "Calls of try may be nested %d deep; try takes several expressions.",
			maxTries)
	}
	return t.deepest <= maxTries
}

// checkMention refuses names other than task.… and fields that no row has.
func (s *scope) checkMention(tr hcl.Traversal) bool {
	if root := tr.RootName(); root != "task" {
		meant := ""
		if slices.Contains(rowFields(), root) {
			meant = " Did you mean task." + s.text(tr.SourceRange()) + "?"
		}
		s.l.fail(tr.SourceRange(), "Unknown name", "There is no %q here.%s Text stands in quotes; a row's fields are task.%s; "+
			"the environment is env(%q).", root, meant, strings.Join(rowFields(), ", task."), root)
		return false
	}
	name := ""
	if len(tr) > 1 {
		name, _ = stepName(tr[1])
	}
	if slices.Contains(rowFields(), name) {
		return true
	}
	what := "task stands for a row."
	if name != "" {
		what = "A row has no task." + name + "." + didYouMean(name, rowFields())
	}
	s.l.fail(tr.SourceRange(), "Unknown field of a row", "%s Its fields are task.%s.", what,
		strings.Join(rowFields(), ", task."))
	return false
}

// readOutside makes a call of env or file now, so that a template never makes it for a row.
func (s *scope) readOutside(call *hclsyntax.FunctionCallExpr) bool {
	for _, arg := range call.Args {
		if len(arg.Variables()) > 0 {
			s.l.fail(arg.Range(), "A row cannot choose what is read",
				"%s is read once, at load; what it reads must not depend on task.…",
				call.Name)
			return false
		}
	}
	_, diags := call.Value(s.ctx)
	return !s.l.take(diags)
}

// constant evaluates an expression that may not mention rows.
func (s *scope) constant(expr hclsyntax.Expression) (v cty.Value, c checked, ok bool) {
	c, ok = s.check(expr)
	if !ok {
		return cty.NilVal, c, false
	}
	if c.row {
		s.l.fail(expr.Range(), "No row data here",
			"This is evaluated once, at load. Templates that mention task.… may stand in a "+
				"webhook's url and headers and in a command's argv and env.")
		return cty.NilVal, c, false
	}
	v, diags := expr.Value(s.ctx)
	if s.l.take(diags) {
		return cty.NilVal, c, false
	}
	if !v.IsWhollyKnown() || bounded(v) != nil {
		s.l.fail(expr.Range(), "Value out of bounds", "The value is too large.")
		return cty.NilVal, c, false
	}
	return v, c, true
}

// operandName cannot be written in HCL, so no file can call the function by it.
const operandName = "arithmetic operand"

// operand puts an operand of arithmetic into a call that refuses numbers out of bounds, so that no chain of operations
// can make one with millions of digits: a row's data decides the numbers. (HCL walks into calls, not into expressions
// of foreign types.)
func operand(e hclsyntax.Expression) hclsyntax.Expression {
	if call, ok := e.(*hclsyntax.FunctionCallExpr); ok && call.Name == operandName {
		return e
	}
	r := e.Range()
	return &hclsyntax.FunctionCallExpr{
		Name: operandName, Args: []hclsyntax.Expression{e}, NameRange: r, OpenParenRange: r, CloseParenRange: r,
	}
}

func operandFunction() function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "number", Type: cty.DynamicPseudoType, AllowNull: true}},
		Type:   func(args []cty.Value) (cty.Type, error) { return args[0].Type(), nil },
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			v := args[0]
			if t := v.Type(); !v.IsNull() && (t.IsTupleType() || t.IsListType()) { // as of max(list...)
				for _, e := range v.AsValueSlice() {
					if !saneOperand(e) {
						return cty.NilVal, errNumber
					}
				}
			}
			if !saneOperand(v) {
				return cty.NilVal, errNumber
			}
			return v, nil
		},
	})
}

// saneOperand reports whether a value can be made a number at little cost.
func saneOperand(v cty.Value) bool {
	switch {
	case !v.IsKnown() || v.IsNull():
	case v.Type() == cty.String:
		return sane(v.AsString())
	case v.Type() == cty.Number:
		return saneFloat(v.AsBigFloat())
	}
	return true
}
