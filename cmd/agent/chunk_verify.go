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

// Run verifies.
func (c chunksVerifyCmd) Run(a *app) error {
	if c.Timeout <= 0 {
		return usagef("--timeout %s: use a duration above 0", c.Timeout)
	}
	var v ops.ChunkVerdict
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
	v.Conclude()
	show := verdict{&v}.show
	if err := a.print(v, show); err != nil || len(v.Problems) == 0 {
		return err
	}
	return &failure{code: exitDiffers}
}

// count counts the rows that are left, where the rows say so.
func (c chunksVerifyCmd) count(a *app, v *ops.ChunkVerdict) error {
	at, err := a.sourceOf(v.ChunkProof)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.Timeout)
	defer cancel()
	v.ChunkLeft, err = countLeft(ctx, v.ChunkProof, at)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		return fmt.Errorf("the table %s was not read within %s: use a longer --timeout, or --no-count", v.Table, c.Timeout)
	}
	return err
}

// countLeft counts the rows of a table that are left, where the rows say so. With an error it returns what it has counted.
func countLeft(ctx context.Context, p *ops.ChunkProof, at config.ChunkSource) (ops.ChunkLeft, error) {
	if at.Where == "" || p.Through == nil {
		return ops.ChunkLeft{}, nil
	}
	src, err := openSource(&chunk.Spec{Name: p.Name, Table: p.Table, Key: p.Key}, at) //nolint:contextcheck // nothing is opened yet
	if err != nil {
		return ops.ChunkLeft{}, err
	}
	defer src.Close()
	if err := src.Check(ctx); err != nil {
		return ops.ChunkLeft{}, err
	}
	left, err := chunk.CountLeft(ctx, src, p.Through, ops.CountedLeft)
	return ops.ChunkLeft{Counted: err == nil, Left: left.Rows, First: left.First}, err
}

// countChunks is countLeft for the configuration that is in force in the agent.
func (a *agent) countChunks(ctx context.Context, p *ops.ChunkProof) (left ops.ChunkLeft, err error) {
	const instead = "ask an agent that declares the plan, or use count=false"
	c := declaredChunks(a.cfg.Load(), p.Name)
	switch {
	case c == nil:
		return left, &store.RefusedError{Text: fmt.Sprintf("the configuration of this agent has no chunks %q, so it cannot count its rows: %s",
			p.Name, instead)}
	case c.Spec.Table != p.Table || c.Spec.Key != p.Key:
		return left, &store.RefusedError{Text: fmt.Sprintf(
			"the plan %q has the table %s and the key %s, and the configuration of this agent has others: %s", p.Name, p.Table, p.Key, instead)}
	}
	at := c.Source
	if at.URL == "" {
		at.URL = a.at
	}
	left, err = countLeft(ctx, p, at)
	if err != nil && ctx.Err() == nil {
		return left, &store.RefusedError{Text: fmt.Sprintf("this agent cannot read the table of chunks %q: %s; %s",
			p.Name, config.RedactText(err.Error()), instead)}
	}
	return left, err
}

// declaredChunks returns the plan that a configuration has by that name; nil: it has none.
func declaredChunks(cfg *config.Config, name string) *config.Chunks {
	for i := range cfg.Chunks {
		if cfg.Chunks[i].Spec.Name == name {
			return &cfg.Chunks[i]
		}
	}
	return nil
}

// sourceOf returns where the configuration says that the table of a plan is.
func (a *app) sourceOf(p *ops.ChunkProof) (config.ChunkSource, error) {
	cfg, err := a.loadConfig(nil)
	if err != nil {
		return config.ChunkSource{}, fmt.Errorf("%w (--no-count needs no configuration)", err)
	}
	c := declaredChunks(cfg, p.Name)
	switch {
	case c == nil:
		return config.ChunkSource{}, usagef("the configuration has no chunks %q, so its rows cannot be counted: name the file that has it by "+
			"--config, or use --no-count", p.Name)
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

// verdict is a verdict on a terminal.
type verdict struct{ *ops.ChunkVerdict }

// show writes it for a terminal.
func (v verdict) show(w io.Writer) error {
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
func (v verdict) showPasses(w io.Writer) error {
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
