package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/leasehold/leasehold/internal/chunk"
	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
)

type chunksVerifyCmd struct {
	Name    string        `arg:"" help:"Name of the plan."`
	NoCount bool          `help:"Do not read the table: the configuration need not have the plan."`
	Timeout time.Duration `help:"How long to read the ledger, and then the table, at the longest; 10m by default." default:"10m" placeholder:"DURATION"`
}

// Help gives examples.
func (chunksVerifyCmd) Help() string {
	return `Passes that are planned to their end prove that the table was cut from its begin to the highest key without a gap or an
overlap. Then the rows up to that key are counted that the plan's where still finds; a plan without where is judged by its tasks.
Exits with 3 where a part of the table is not proven to be cut, or something is left to do.

Examples:

    leasehold chunks verify events
    leasehold chunks verify events --no-count -o json`
}

// countedLeft is the most rows that are counted.
const countedLeft = 1_000_000

// verified is what came of it, as JSON.
type verified struct {
	*ops.ChunkProof

	Counted  bool            `json:"counted"` // whether the table was read
	Left     int             `json:"left"`    // rows that where still finds, at most countedLeft
	First    *store.ChunkKey `json:"first_left"`
	Problems []string        `json:"problems"`
}

// Run verifies.
func (c chunksVerifyCmd) Run(a *app) error {
	if c.Timeout <= 0 {
		return usagef("--timeout %s: use a duration above 0", c.Timeout)
	}
	v := verified{Problems: []string{}}
	err := a.withTables(func(ctx context.Context, s dataStore) (err error) {
		call, cancel := context.WithTimeout(ctx, c.Timeout)
		defer cancel()
		v.ChunkProof, err = ops.ProveChunks(call, s, c.Name)
		return err
	})
	if err == nil && !c.NoCount {
		err = c.count(a, &v)
	}
	if err != nil {
		return err
	}
	v.conclude()
	if err := a.print(v, v.show); err != nil || len(v.Problems) == 0 {
		return err
	}
	return &failure{code: exitDiffers}
}

// count counts the rows that are left, where the rows say so.
func (c chunksVerifyCmd) count(a *app, v *verified) error {
	at, err := a.sourceOf(v.ChunkProof)
	if err != nil || at.Where == "" || v.Through == nil {
		return err
	}
	src, err := openSource(&chunk.Spec{Name: v.Name, Table: v.Table, Key: v.Key}, at)
	if err != nil {
		return err
	}
	defer src.Close()
	ctx, cancel := context.WithTimeout(context.Background(), c.Timeout)
	defer cancel()
	err = src.Check(ctx)
	if err == nil {
		var left chunk.Left
		left, err = chunk.CountLeft(ctx, src, v.Through, countedLeft)
		v.Counted, v.Left, v.First = true, left.Rows, left.First
	}
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		return fmt.Errorf("the table %s was not read within %s: use a longer --timeout, or --no-count", v.Table, c.Timeout)
	}
	return err
}

// sourceOf returns where the configuration says that the table of a plan is.
func (a *app) sourceOf(p *ops.ChunkProof) (config.ChunkSource, error) {
	cfg, err := a.loadConfig(nil)
	if err != nil {
		return config.ChunkSource{}, fmt.Errorf("%w (--no-count needs no configuration)", err)
	}
	for i := range cfg.Chunks {
		c := &cfg.Chunks[i]
		switch {
		case c.Spec.Name != p.Name:
			continue
		case c.Spec.Table != p.Table || c.Spec.Key != p.Key:
			return config.ChunkSource{}, usagef("%s: the plan %q has the table %s and the key %s, and the configuration has others",
				cfg.Place("chunks", p.Name), p.Name, p.Table, p.Key)
		}
		at := c.Source
		if at.URL == "" {
			stored, err := a.placeFor(cfg)
			if err != nil {
				return at, err
			}
			at.URL = stored.URL
		}
		return at, nil
	}
	return config.ChunkSource{}, usagef("the configuration has no chunks %q, so its rows cannot be counted: name the file that has it by "+
		"--config, or use --no-count", p.Name)
}

// conclude lists what is not as it should be. Rows that say whether they are done decide; else the tasks do.
func (v *verified) conclude() {
	v.Problems = append(v.Problems, v.ChunkProof.Problems()...)
	switch {
	case !v.Counted:
		v.Problems = append(v.Problems, v.Unfinished()...)
	case v.Left >= countedLeft:
		v.Problems = append(v.Problems, fmt.Sprintf("rows left: %d or more, from the key %s on", v.Left, keyOr(v.First, "")))
	case v.Left > 0:
		v.Problems = append(v.Problems, fmt.Sprintf("rows left: %d, from the key %s on", v.Left, keyOr(v.First, "")))
	}
}

// show writes it for a terminal.
func (v *verified) show(w io.Writer) error {
	if v.Covered {
		const most = 80
		what := "there was nothing to cut"
		if v.Through != nil {
			what = fmt.Sprintf("%s was cut from its begin to the %s %s, without a gap or an overlap",
				ops.OneLine(v.Table, most), ops.OneLine(v.Key, most), keyOr(v.Through, ""))
		}
		if _, err := fmt.Fprintf(w, "chunks %s: %s\n", ops.OneLine(v.Name, most), what); err != nil {
			return err
		}
	}
	if err := v.showPasses(w); err != nil {
		return err
	}
	t := newTable(nil)
	left := "not counted"
	if v.Counted {
		left = fmt.Sprint(v.Left)
	}
	t.AppendRow(table.Row{"rows left", left})
	t.AppendRow(table.Row{"live chunks", v.Live})
	t.AppendRow(table.Row{"failed ranges", len(v.Failed)})
	if err := writeTable(w, t); err != nil || len(v.Problems) == 0 {
		return err
	}
	_, err := fmt.Fprintf(w, "\nNot verified:\n  %s\n", ops.Printable(strings.Join(v.Problems, "\n  ")))
	return err
}

// showPasses lists what the passes prove.
func (v *verified) showPasses(w io.Writer) error {
	if len(v.Passes) == 0 {
		return nil
	}
	const most = 20
	list := newTable(table.Row{"PASS", "FROM", "THROUGH", "RANGES", "CHUNKS", "PROVEN"})
	for n := range v.Passes[:min(len(v.Passes), most)] {
		p := &v.Passes[n]
		proven := "no: it is being planned"
		if !p.SealedAt.IsZero() {
			proven = ops.Time(p.SealedAt)
		}
		list.AppendRow(table.Row{p.Pass, keyOr(p.From, "its begin"), keyOr(p.Through, ""), p.Ranges, p.Chunks, proven})
	}
	if err := writeTable(w, list); err != nil {
		return err
	}
	more := ""
	if n := len(v.Passes) - most; n > 0 {
		more = fmt.Sprintf("and %d before\n", n)
	}
	_, err := fmt.Fprintln(w, more)
	return err
}
