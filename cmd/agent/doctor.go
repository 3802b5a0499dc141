package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/leasehold/leasehold/internal/ops"
)

// Bounds of the command: all that it reads, and its widest column, so that the table has 80 columns.
const (
	doctorTimeout = 90 * time.Second
	doctorWidth   = 50
)

type doctorCmd struct {
	OldestTransaction time.Duration `help:"On PostgreSQL: how long a transaction may be open." default:"10m" placeholder:"DURATION"`
}

// Help says what it does, and gives examples.
func (doctorCmd) Help() string {
	return `Examines the store and the agents on it, and lists what is not as it should be, each with its remedy: a command or a setting. A problem
needs an operator, and makes the command exit with 3. A notice was meant, ends without an operator, or says what the role may not
see. Without findings it says what was checked. It changes nothing, and no row is locked.

Examples:

    leasehold doctor
    leasehold doctor -o json
    leasehold doctor --oldest-transaction 1h`
}

// Run examines the store.
func (c doctorCmd) Run(a *app) error {
	if c.OldestTransaction <= 0 {
		return usagef("--oldest-transaction: %s: it must be more than 0", c.OldestTransaction)
	}
	found, err := c.examine(a)
	if err != nil {
		return err
	}
	if err := a.print(found, func(w io.Writer) error { return writeCheckup(w, found) }); err != nil {
		return err
	}
	if !found.Healthy {
		return &failure{code: exitDiffers}
	}
	return nil
}

// examine opens the store and examines it. That it cannot be opened is a finding; that its URL or the configuration is wrong is an error.
func (c doctorCmd) examine(a *app) (*ops.Checkup, error) {
	p, err := a.findPlace()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), doctorTimeout)
	defer cancel()
	s, err := p.open(ctx, false, a.log())
	var wrong *failure
	switch {
	case errors.As(err, &wrong):
		return nil, err
	case err != nil:
		found := ops.Unusable(err)
		return &found, nil
	}
	found := ops.Doctor(ctx, s, ops.DoctorOptions{OldestTransaction: c.OldestTransaction}, time.Now)
	return &found, closeStore(s)
}

// writeCheckup writes what was found as a table of 80 columns.
func writeCheckup(w io.Writer, c *ops.Checkup) error {
	if len(c.Findings) == 0 {
		_, err := fmt.Fprintf(w, "healthy: nothing found by %d checks\n%s\n", len(c.Checked), text.WrapSoft(strings.Join(c.Checked, ", "), 80))
		return err
	}
	t := newTable(table.Row{"SEVERITY", "FINDING", "WHAT, AND THE REMEDY"})
	for i, f := range c.Findings {
		if i > 0 {
			t.AppendRow(table.Row{"", "", ""})
		}
		t.AppendRow(table.Row{f.Severity, f.Name, inColumn(f.What)})
		if f.Remedy != "" {
			t.AppendRow(table.Row{"", "", inColumn("remedy: " + f.Remedy)})
		}
	}
	return writeTable(w, t)
}

// inColumn breaks a text between its words into lines of doctorWidth.
func inColumn(s string) string {
	const most = 2000
	return text.WrapSoft(ops.OneLine(s, most), doctorWidth)
}
