package sqltext

import "fmt"

// Arg is an argument of a call.
type Arg struct {
	Name  string
	Value any
}

// A names a value for Args.
func A(name string, value any) Arg { return Arg{name, value} }

// Args puts the values in the order of the positions. Where they are listed in that order already, which they best are on
// a hot path, that takes one comparison of strings each. It panics unless each argument of the statement is given once and
// no other is: a call with other names is a mistake in the program that its first run shows.
func (q *Query) Args(args ...Arg) []any {
	if len(args) != len(q.Names) {
		panic(fmt.Sprintf("sqltext: query %s takes %d arguments %v, not %d", q.Name, len(q.Names), q.Names, len(args)))
	}
	values := make([]any, len(args))
	for i, name := range q.Names {
		if args[i].Name == name {
			values[i] = args[i].Value
			continue
		}
		values[i] = q.find(name, args)
	}
	return values
}

func (q *Query) find(name string, args []Arg) any {
	for i := range args {
		if args[i].Name == name {
			return args[i].Value
		}
	}
	panic(fmt.Sprintf("sqltext: query %s: @%s is not given", q.Name, name))
}
