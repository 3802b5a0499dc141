package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/sys/unix"
)

// info is what the demo reads of `leasehold task show -o json`.
type info struct {
	ID      int64  `json:"id"`
	Type    string `json:"type"`
	State   string `json:"state"`
	Outcome string `json:"outcome"` // of the last attempt
	Error   string `json:"error"`
	Attempt int    `json:"attempt"`

	ClaimedAt  time.Time `json:"claimed_at"`
	FinishedAt time.Time `json:"finished_at"`

	Progress struct {
		Done, Total int
	} `json:"progress"`
	Checkpoint int `json:"checkpoint"`

	History []attempt `json:"history"` // without a success at the first try
}

type attempt struct {
	Outcome string `json:"outcome"`
	Error   string `json:"error"`
	State   string `json:"state"` // what the task became
}

// attempts lists all attempts of a task that has finished.
func (t info) attempts() []attempt {
	if n := len(t.History); n > 0 && t.History[n-1].State == t.State {
		return t.History
	}
	return append(slices.Clone(t.History), attempt{t.Outcome, t.Error, t.State})
}

// task reads one task.
func (d *demo) task(ctx context.Context, id int64) (info, error) {
	var t info
	out, err := d.Leasehold(ctx, "task", "show", fmt.Sprint(id), "-o", "json")
	if err != nil {
		return t, err
	}
	err = json.Unmarshal([]byte(out), &t)
	return t, err
}

// tasks reads all that are there. None may be there but those that the demo knows of.
func (d *demo) tasks(ctx context.Context) ([]info, error) {
	out, err := d.Leasehold(ctx, "task", "list", "-o", "json")
	if err != nil {
		return nil, err
	}
	var listed, tasks []info
	if err := json.Unmarshal([]byte(out), &listed); err != nil {
		return nil, err
	}
	if len(listed) != len(d.wanted) {
		return nil, fmt.Errorf("%d tasks are there, and should be %d", len(listed), len(d.wanted))
	}
	for _, w := range d.wanted {
		t, err := d.task(ctx, w.id)
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, t)
	}
	return tasks, nil
}

// report prints the table, and fails where something is not as it should be.
func (d *demo) report(out io.Writer, tasks []info) error {
	t := table.NewWriter()
	style := table.StyleLight
	style.Options.SeparateRows, style.Format.Header = false, text.FormatDefault
	t.SetStyle(style)
	t.AppendHeader(table.Row{"", "task", "type", "state", "attempts", "how they ended"})
	wrong := 0
	for i, task := range tasks {
		mark, how := d.Mark(true), summary(task)
		if problem := d.wanted[i].compare(task); problem != "" {
			mark, how = d.Mark(false), how+"\n"+d.Paint(text.FgRed, problem)
			wrong++
		}
		colour := text.FgGreen
		if task.State != "succeeded" {
			colour = text.FgRed
		}
		t.AppendRow(table.Row{mark, task.ID, task.Type, d.Paint(colour, task.State), task.Attempt, how})
	}
	if _, err := fmt.Fprintf(out, "\n%s\n\n", t.Render()); err != nil {
		return err
	}
	if wrong > 0 {
		return fmt.Errorf("%d of %d tasks did not go as they should", wrong, len(tasks))
	}
	d.Say("All %d tasks went as they should, in %s. To try it yourself:", len(tasks), d.Took())
	d.Line("bin/leasehold init && bin/leasehold dev     and, in another terminal:")
	d.Line("bin/leasehold enqueue hello --wait")
	return nil
}

// compare says what is not as it should be; "" where all is.
func (w wanted) compare(t info) string {
	var ends []string
	for _, a := range t.attempts() {
		if a.Outcome != "undelivered" { // however often that was: it costs nothing
			ends = append(ends, a.Outcome)
		}
	}
	if t.State != w.state || t.Attempt != w.attempt || !slices.Equal(ends, w.ends) {
		return fmt.Sprintf("should be %s after %d: %s", w.state, w.attempt, strings.Join(w.ends, ", "))
	}
	return ""
}

// summary returns how a task's attempts ended, in a few words each.
func summary(t info) string {
	width := summaryWidth()
	var lines []string
	for _, a := range t.attempts() {
		line := a.Outcome
		switch {
		case strings.HasPrefix(a.Error, "attempt "): // a task that has failed says itself how that came
			line = a.Error
		case a.Error != "":
			line += ": " + a.Error
		}
		line = text.WrapSoft(text.Snip(line, longestSummary, "…"), width)
		if len(lines) == 0 || lines[len(lines)-1] != line {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

const longestSummary = 66 // columns

// summaryWidth is how many columns the terminal leaves for a story beside the rest of the table.
func summaryWidth() int {
	const others, least = 56, 20
	size, err := unix.IoctlGetWinsize(int(os.Stdout.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 { // none, or it does not say
		return longestSummary
	}
	return min(max(int(size.Col)-others, least), longestSummary)
}

func join(numbers []int) string {
	var parts []string
	for _, n := range numbers {
		parts = append(parts, fmt.Sprint(n))
	}
	return strings.Join(parts, ", ")
}
