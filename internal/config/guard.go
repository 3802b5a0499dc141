package config

import (
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// Bounds on every value that an expression computes. A row's data is written by others, so no expression may turn a
// small row into a large amount of work or memory.
const (
	maxValueSize     = 1 << 20 // bytes of all strings in a value
	maxValueElements = 2000    // items and attributes in a value: HCL compares the types of some lists each with each
	maxArguments     = 1000    // of one call: some functions compare each with each
	maxComparisons   = 100_000 // items of a list, times items of what is looked for
	maxCharacters    = 256 << 10
)

var errValueSize = fmt.Errorf("the value would be larger than %d KiB or have more than %d items",
	maxValueSize>>10, maxValueElements)

// guard bounds a function: what it would produce, by cost before it is called (nil: it cannot produce more than a few
// times what it gets), and by size after.
func guard(f function.Function, cost func(args []cty.Value) (int, error)) function.Function {
	check := func(args []cty.Value) error {
		for _, a := range args {
			if !a.IsWhollyKnown() {
				return nil
			}
		}
		if len(args) > maxArguments {
			return fmt.Errorf("a function takes at most %d values", maxArguments)
		}
		for _, a := range args { // an argument may have become a number just now, of a string in the row
			if a.Type() == cty.Number && !a.IsNull() && !saneFloat(a.AsBigFloat()) {
				return errNumber
			}
		}
		if cost == nil {
			return nil
		}
		n, err := cost(args)
		if err == nil && n > maxValueSize {
			err = errValueSize
		}
		return err
	}
	return function.New(&function.Spec{
		Params:   f.Params(),
		VarParam: f.VarParam(),
		Type: func(args []cty.Value) (cty.Type, error) {
			if err := check(args); err != nil {
				return cty.NilType, err
			}
			return f.ReturnTypeForValues(args)
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { // Type has been called with these
			v, err := f.Call(args)
			if err != nil {
				return cty.NilVal, err
			}
			return v, bounded(v)
		},
	})
}

// bounded reports whether a value is within bounds.
func bounded(v cty.Value) error {
	size, items := 0, 0
	return measure(v, &size, &items)
}

// measure adds up a value and stops as soon as it is past the bounds.
func measure(v cty.Value, size, items *int) error {
	*items++
	switch {
	case *items > maxValueElements:
		return errValueSize
	case !v.IsKnown() || v.IsNull():
	case v.Type() == cty.String:
		*size += len(v.AsString())
	case v.Type() == cty.Number && !saneFloat(v.AsBigFloat()):
		return errNumber
	case v.CanIterateElements():
		for it := v.ElementIterator(); it.Next(); {
			k, e := it.Element()
			if k.Type() == cty.String && k.IsKnown() {
				*size += len(k.AsString())
			}
			if err := measure(e, size, items); err != nil {
				return err
			}
		}
	}
	if *size > maxValueSize {
		return errValueSize
	}
	return nil
}

// saneFloat reports whether a number can be printed in few digits.
func saneFloat(f *big.Float) bool {
	const binary = 4 * maxExponent // 2^4 > 10
	exp := f.MantExp(nil)
	return !f.IsInf() && exp <= binary && exp >= -binary
}

// stringAt is the string that stands at an index, "" where another value does; the function itself will refuse that.
func stringAt(args []cty.Value, i int) string {
	if i < len(args) && args[i].Type() == cty.String && !args[i].IsNull() {
		return args[i].AsString()
	}
	return ""
}

func replaceCost(args []cty.Value) (int, error) {
	s, old := stringAt(args, 0), stringAt(args, 1)
	return len(s) + strings.Count(s, old)*len(stringAt(args, 2)), nil
}

func splitCost(args []cty.Value) (int, error) {
	s := stringAt(args, 1)
	if strings.Count(s, stringAt(args, 0)) >= maxValueElements {
		return 0, errValueSize
	}
	return len(s), nil
}

func joinCost(args []cty.Value) (int, error) {
	size, items := 0, 0
	for _, a := range args[1:] {
		if err := measure(a, &size, &items); err != nil {
			return 0, err
		}
	}
	return size + items*len(stringAt(args, 0)), nil
}

// Widths and precisions become as many blanks or zeros.
var (
	wide   = regexp.MustCompile(`%[^a-zA-Z%]*[0-9]{5}`)
	number = regexp.MustCompile(`[0-9]{1,4}`)
)

// formatCost counts every value once, or once for each verb where a pattern picks values by number, and every number in
// the pattern as a width.
func formatCost(args []cty.Value) (int, error) {
	pattern := stringAt(args, 0)
	if wide.MatchString(pattern) {
		return 0, errors.New("a width in a pattern has at most four digits")
	}
	size, items := 0, 0
	for _, a := range args[1:] {
		if err := measure(a, &size, &items); err != nil {
			return 0, err
		}
	}
	if strings.Contains(pattern, "[") {
		size *= max(strings.Count(pattern, "%"), 1)
	}
	for _, n := range number.FindAllString(pattern, -1) {
		width, err := strconv.Atoi(n)
		if err != nil {
			return 0, err
		}
		size += width
	}
	return len(pattern) + size, nil
}

// formatListCost is the sum of what each format costs, with the items that go into it.
func formatListCost(args []cty.Value) (int, error) {
	times := 1
	lists := make([][]cty.Value, len(args))
	for i, a := range args {
		if t := a.Type(); i > 0 && (t.IsListType() || t.IsTupleType() || t.IsSetType()) && !a.IsNull() {
			lists[i] = a.AsValueSlice()
			times = max(times, len(lists[i]))
		}
	}
	if times > maxValueElements {
		return 0, errValueSize
	}
	total, one := 0, make([]cty.Value, 0, len(args))
	for n := range times {
		one = one[:0]
		for i, a := range args {
			switch {
			case lists[i] == nil:
				one = append(one, a)
			case n < len(lists[i]):
				one = append(one, lists[i][n])
			}
		}
		cost, err := formatCost(one)
		if err != nil {
			return 0, err
		}
		if total += cost; total > maxValueSize {
			return 0, errValueSize
		}
	}
	return total, nil
}

// containsCost bounds the search for a list in a list: each comparison looks at all of what is looked for.
func containsCost(args []cty.Value) (int, error) {
	size, items := 0, 0
	if err := measure(args[1], &size, &items); err != nil {
		return 0, err
	}
	if t := args[0].Type(); (t.IsListType() || t.IsTupleType() || t.IsSetType()) && !args[0].IsNull() &&
		args[0].LengthInt()*items > maxComparisons {
		return 0, errors.New("the list is too long to search it for so large a value")
	}
	return 0, nil
}

// charactersCost bounds the counting of characters, which costs a hundred times as much as that of bytes.
func charactersCost(args []cty.Value) (int, error) {
	if len(stringAt(args, 0)) > maxCharacters {
		return 0, fmt.Errorf("characters are counted in texts of at most %d KiB", maxCharacters>>10)
	}
	return 0, nil
}

// trimCost bounds the search for each character at the ends among those that are to go.
func trimCost(args []cty.Value) (int, error) {
	if len(stringAt(args, 0))*len(stringAt(args, 1)) > maxSteps {
		return 0, errors.New("these texts are too long for this function")
	}
	return 0, nil
}
