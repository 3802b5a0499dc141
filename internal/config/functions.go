package config

import (
	"encoding/base64"
	"errors"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// Function is a function that expressions may call. None of them reads a clock or a random number, and none but env
// and file looks outside; those two are read once, at load.
type Function struct {
	Name  string
	Usage string // with its parameters
	Does  string // one line for the documentation

	fn function.Function
}

// Functions lists every function, for the documentation. The ones that look outside work only within Load.
func Functions() []Function {
	return append([]Function{
		{Name: "env", Usage: "env(name, default)",
			Does: "the value of an environment variable, read at load; an unset variable without a default is an error"},
		{Name: "file", Usage: "file(path)",
			Does: "the text of a file of at most 1 MiB, read at load; relative to the file that names it"},
	}, pureFunctions()...)
}

func functionNames() []string {
	var names []string
	for _, f := range Functions() {
		names = append(names, f.Name)
	}
	slices.Sort(names)
	return names
}

// pureFunctions are all but env and file. Each is bounded: see guard.
func pureFunctions() []Function {
	return append(append(stringFunctions(), encodingFunctions()...), valueFunctions()...)
}

func stringFunctions() []Function {
	return []Function{
		{"upper", "upper(s)", "s in capitals", guard(stdlib.UpperFunc, nil)},
		{"lower", "lower(s)", "s in small letters", guard(stdlib.LowerFunc, nil)},
		{"trim", "trim(s, chars)", "s without any of chars at both ends", guard(stdlib.TrimFunc, trimCost)},
		{"trimprefix", "trimprefix(s, prefix)", "s without the prefix", guard(stdlib.TrimPrefixFunc, nil)},
		{"trimsuffix", "trimsuffix(s, suffix)", "s without the suffix", guard(stdlib.TrimSuffixFunc, nil)},
		{"trimspace", "trimspace(s)", "s without white space at both ends", guard(stdlib.TrimSpaceFunc, nil)},
		{"startswith", "startswith(s, prefix)", "whether s starts with the prefix", predicate(strings.HasPrefix)},
		{"endswith", "endswith(s, suffix)", "whether s ends with the suffix", predicate(strings.HasSuffix)},
		{"replace", "replace(s, old, new)", "s with every old replaced by new", guard(stdlib.ReplaceFunc, replaceCost)},
		{"regex", "regex(pattern, s)", "the first match, or its groups; no match is an error", guard(stdlib.RegexFunc, regexCost)},
		{"regexreplace", "regexreplace(s, pattern, new)", "s with every match replaced; $1 is a group",
			guard(stdlib.RegexReplaceFunc, regexReplaceCost)},
		{"substr", "substr(s, offset, length)", "part of s, counted in characters", guard(stdlib.SubstrFunc, charactersCost)},
		{"strlen", "strlen(s)", "how many characters s has", guard(stdlib.StrlenFunc, charactersCost)},
		{"split", "split(separator, s)", "the parts of s as a list", guard(stdlib.SplitFunc, splitCost)},
		{"join", "join(separator, list)", "the list as one string", guard(stdlib.JoinFunc, joinCost)},
		{"format", "format(pattern, values...)", "values put into a pattern with %s, %d, %05d, %q …",
			guard(stdlib.FormatFunc, formatCost)},
		{"formatlist", "formatlist(pattern, lists...)", "format for each item of the lists",
			guard(stdlib.FormatListFunc, formatListCost)},
	}
}

func encodingFunctions() []Function {
	return []Function{
		{"jsonencode", "jsonencode(value)", "the value as JSON", guard(stdlib.JSONEncodeFunc, nil)},
		{"jsondecode", "jsondecode(s)", "the value that the JSON text s stands for", guard(jsonDecode(), nil)},
		{"base64encode", "base64encode(s)", "s in base64", guard(text(func(s string) (string, error) {
			return base64.StdEncoding.EncodeToString([]byte(s)), nil
		}), nil)},
		{"base64decode", "base64decode(s)", "the UTF-8 text that the base64 s stands for", guard(text(decodeBase64), nil)},
		{"urlencode", "urlencode(s)", "s escaped for a URL's query", guard(text(func(s string) (string, error) {
			return url.QueryEscape(s), nil
		}), nil)},
	}
}

func valueFunctions() []Function {
	return []Function{
		{"length", "length(list)", "how many items a list or map has", guard(stdlib.LengthFunc, nil)},
		{"concat", "concat(lists...)", "the lists one after the other", guard(stdlib.ConcatFunc, nil)},
		{"contains", "contains(list, value)", "whether the value is in the list", guard(stdlib.ContainsFunc, containsCost)},
		{"element", "element(list, index)", "one item; the index wraps around", guard(stdlib.ElementFunc, nil)},
		{"slice", "slice(list, from, to)", "the items from one index up to before the other", guard(stdlib.SliceFunc, nil)},
		{"sort", "sort(list)", "the strings in order", guard(stdlib.SortFunc, nil)},
		{"keys", "keys(map)", "the names in a map, sorted", guard(stdlib.KeysFunc, nil)},
		{"values", "values(map)", "the values in a map, in the order of their names", guard(stdlib.ValuesFunc, nil)},
		{"merge", "merge(maps...)", "one map of all; later ones win", guard(stdlib.MergeFunc, nil)},
		{"lookup", "lookup(map, name, default)", "the value of that name, or the default", guard(stdlib.LookupFunc, nil)},
		{"coalesce", "coalesce(values...)", "the first value that is not null", guard(stdlib.CoalesceFunc, nil)},
		{"try", "try(expressions...)", "the first expression that works", tryfunc.TryFunc},
		{"max", "max(numbers...)", "the largest", guard(stdlib.MaxFunc, nil)},
		{"min", "min(numbers...)", "the smallest", guard(stdlib.MinFunc, nil)},
		{"abs", "abs(number)", "the number without its sign", guard(stdlib.AbsoluteFunc, nil)},
		{"ceil", "ceil(number)", "rounded up", guard(stdlib.CeilFunc, nil)},
		{"floor", "floor(number)", "rounded down", guard(stdlib.FloorFunc, nil)},
		{"tostring", "tostring(value)", "a number or boolean as a string", guard(conversion(cty.String), nil)},
		{"tonumber", "tonumber(value)", "a string as a number", guard(conversion(cty.Number), nil)},
		{"tobool", "tobool(value)", "\"true\" or \"false\" as a boolean", guard(conversion(cty.Bool), nil)},
	}
}

// text makes a function of a string.
func text(f func(string) (string, error)) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "s", Type: cty.String}},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			s, err := f(args[0].AsString())
			return cty.StringVal(s), err
		},
	})
}

// predicate makes a function that asks something of two strings.
func predicate(f func(s, part string) bool) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "s", Type: cty.String}, {Name: "part", Type: cty.String}},
		Type:   function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			return cty.BoolVal(f(args[0].AsString(), args[1].AsString())), nil
		},
	})
}

// conversion makes a function that converts to a type.
func conversion(want cty.Type) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "value", Type: cty.DynamicPseudoType, AllowNull: true}},
		Type:   function.StaticReturnType(want),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			if v := args[0]; want == cty.Number && !v.IsNull() && v.Type() == cty.String && !sane(v.AsString()) {
				return cty.NilVal, errNumber
			}
			return convert.Convert(args[0], want)
		},
	})
}

func decodeBase64(s string) (string, error) {
	out, err := base64.StdEncoding.DecodeString(s)
	switch {
	case err != nil:
		return "", errors.New("not valid base64")
	case !utf8.Valid(out):
		return "", errors.New("the decoded value is not UTF-8 text")
	}
	return string(out), nil
}

// jsonDecode reads JSON within the bounds of row data.
func jsonDecode() function.Function {
	decode := func(s cty.Value) (cty.Value, error) { return decodeJSON([]byte(s.AsString())) }
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "s", Type: cty.String}},
		Type: func(args []cty.Value) (cty.Type, error) {
			if !args[0].IsKnown() {
				return cty.DynamicPseudoType, nil
			}
			v, err := decode(args[0])
			if err != nil {
				return cty.NilType, err
			}
			return v.Type(), nil
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return decode(args[0]) },
	})
}
