package web

import (
	"errors"
	"slices"
	"strconv"

	"github.com/leasehold/leasehold/internal/api"
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// name reads a name in the path.
func (r *request) name(param string) (string, error) {
	name := r.PathValue(param)
	if !store.Storable(name) {
		return "", &mistaken{"the name in the path is not UTF-8, or has a NUL"}
	}
	return name, nil
}

// number reads a number in the path.
func (r *request) number(what string) (int64, error) {
	n, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil || n < 1 {
		return 0, &mistaken{"invalid " + what + " " + api.Quote(r.PathValue("id"))}
	}
	return n, nil
}

// text reads a parameter of the query, or of the form; "" where there is none.
func (r *request) text(name string) (string, error) {
	text := r.URL.Query().Get(name)
	if r.PostForm != nil {
		text = r.PostForm.Get(name)
	}
	if !store.Storable(text) || len(text) > store.MaxReason {
		return "", &mistaken{name + ": text must be UTF-8 without NUL, of 512 bytes at most"}
	}
	return text, nil
}

// list reads a parameter that may be repeated, without what is empty.
func (r *request) list(name string) []string {
	list := slices.Clone(r.URL.Query()[name])
	if r.PostForm != nil {
		list = slices.Clone(r.PostForm[name])
	}
	return slices.DeleteFunc(list, func(s string) bool { return s == "" })
}

// id reads a number of the query; 0 where there is none.
func (r *request) id(name string) (int64, error) {
	text, err := r.text(name)
	if err != nil || text == "" {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, &mistaken{name + " " + api.Quote(text) + ": use a whole number from 1 on"}
	}
	return n, nil
}

// said is what became of what was just asked for, which the address has after a change.
func (r *request) said() string {
	said := r.URL.Query().Get("said")
	known := []string{
		"unchanged", "paused", "resumed", "cancelling", "retrying", "sealed", "fired", "skipped", "ordered", "stopped", "removed",
	}
	if slices.Contains(known, said) || slices.Contains(task.States(), task.State(said)) ||
		slices.Contains(store.BatchStates(), store.BatchState(said)) {
		return words(said)
	}
	return ""
}

// isMissing reports whether an error says that there is no such thing.
func isMissing(err error) bool {
	return errors.Is(err, ops.ErrNoDeclaration) || errors.Is(err, store.ErrNoTask)
}
