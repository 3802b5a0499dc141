package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unicode/utf8"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// outside is what env and file have read. Everything is read while loading; afterwards templates that mention env or
// file find it here, and nothing is written any more, so they may run at the same time.
type outside struct {
	lookup func(string) (string, bool)
	env    map[string]*string // nil: not set
	files  map[string]string  // by absolute path
	sealed bool
}

var errSealed = errors.New("env and file are read once, at load")

func (o *outside) variable(name string) (*string, error) {
	if v, ok := o.env[name]; ok {
		return v, nil
	}
	if o.sealed {
		return nil, errSealed
	}
	var found *string
	if v, ok := o.lookup(name); ok {
		if !utf8.ValidString(v) {
			return nil, fmt.Errorf("the environment variable %s is not UTF-8 text", name)
		}
		found = &v
	}
	o.env[name] = found
	return found, nil
}

func (o *outside) content(path string) (string, error) {
	if s, ok := o.files[path]; ok {
		return s, nil
	}
	if o.sealed {
		return "", errSealed
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("reading %s: %s", path, reason(err))
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("reading %s: not a regular file", path)
	}
	src, err := readBounded(path, maxFileSize)
	switch {
	case err != nil:
		return "", fmt.Errorf("reading %s: %s", path, reason(err))
	case !utf8.Valid(src):
		return "", fmt.Errorf("reading %s: not UTF-8 text", path)
	}
	o.files[path] = string(src)
	return string(src), nil
}

// envFunction is env(name) and env(name, default).
func (o *outside) envFunction() function.Function {
	value := func(args []cty.Value) (cty.Value, error) {
		if len(args) > 2 {
			return cty.NilVal, errors.New("env takes a name and at most one default")
		}
		name := args[0].AsString()
		if name == "" {
			return cty.NilVal, errors.New("env needs the name of a variable")
		}
		v, err := o.variable(name)
		switch {
		case err != nil:
			return cty.NilVal, err
		case v != nil:
			return cty.StringVal(*v), nil
		case len(args) == 2 && args[1].IsNull():
			return cty.NullVal(cty.String), nil
		case len(args) == 2:
			return args[1], nil
		}
		return cty.NilVal, fmt.Errorf(
			"the environment variable %s is not set: set it, or give a default, as in env(%q, \"…\")", name, name)
	}
	return function.New(&function.Spec{
		Params:   []function.Parameter{{Name: "name", Type: cty.String}},
		VarParam: &function.Parameter{Name: "default", Type: cty.DynamicPseudoType, AllowNull: true, AllowDynamicType: true},
		Type: func(args []cty.Value) (cty.Type, error) {
			if !args[0].IsKnown() || len(args) > 1 && !args[1].IsKnown() {
				return cty.DynamicPseudoType, nil
			}
			v, err := value(args)
			if err != nil {
				return cty.NilType, err
			}
			return v.Type(), nil
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return value(args) },
	})
}

// fileFunction is file(path), with relative paths resolved from dir.
func (o *outside) fileFunction(dir string) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "path", Type: cty.String}},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			s, err := o.content(resolve(dir, args[0].AsString()))
			return cty.StringVal(s), err
		},
	})
}

// resolve is a path as seen from dir.
func resolve(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}
