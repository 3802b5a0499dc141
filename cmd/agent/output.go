package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// print writes one thing: as JSON, or in words by people.
func (a *app) print(v any, people func(io.Writer) error) error {
	switch a.cli.Output {
	case "json":
		return a.writeJSON(v, "  ")
	case "jsonl":
		return a.writeJSON(v, "")
	}
	return a.people(people)
}

// printList writes many things: as one JSON array, as a line of JSON each, or as a table.
func printList[T any](a *app, list []T, header table.Row, row func(T) table.Row) error {
	switch a.cli.Output {
	case "json":
		if list == nil {
			list = []T{}
		}
		return a.writeJSON(list, "  ")
	case "jsonl":
		for _, v := range list {
			if err := a.writeJSON(v, ""); err != nil {
				return err
			}
		}
		return nil
	}
	t := newTable(header)
	for _, v := range list {
		t.AppendRow(row(v))
	}
	return a.people(func(w io.Writer) error { return writeTable(w, t) })
}

func (a *app) writeJSON(v any, indent string) error {
	var out io.Writer = a.out
	var buffered bytes.Buffer
	if a.terminal {
		out = &buffered
	}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	err := encoder.Encode(v)
	if err == nil && a.terminal {
		_, err = a.out.Write(terminalJSON(buffered.Bytes()))
	}
	if err != nil {
		return fmt.Errorf("write the output: %w", err)
	}
	return nil
}

// terminalJSON escapes what a terminal would obey or reorder: DEL, the C1 control characters, and those that set the
// direction of text or cannot be seen. In JSON they stand in strings only, so it means the same.
func terminalJSON(doc []byte) []byte {
	var b bytes.Buffer
	for len(doc) > 0 {
		r, size := utf8.DecodeRune(doc)
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteString(`\ufffd`)
		case r == '\n' || r == ' ' || unicode.IsPrint(r):
			b.Write(doc[:size])
		default:
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\u%04x`, unit)
			}
		}
		doc = doc[size:]
	}
	return b.Bytes()
}

// state writes a task's state, in its colour where there is colour.
func (a *app) state(s task.State) string { return a.toned(string(s), ops.ToneOf(s)) }

// batchState writes a batch's state, or what else a verb has answered, in its colour where there is colour.
func (a *app) batchState(s store.BatchState) string { return a.toned(string(s), ops.BatchTone(s)) }

func (a *app) toned(s string, t ops.Tone) string {
	if !a.colour {
		return s
	}
	code := "33" // yellow
	switch t {
	case ops.Good:
		code = "32"
	case ops.Bad:
		code = "31"
	case ops.UnderWay:
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// compactJSON shows a document on one line.
func compactJSON(doc json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Compact(&b, doc); err != nil {
		return ops.Printable(string(doc))
	}
	return ops.Printable(b.String())
}
