package web

import (
	"net/http"
	"strconv"
	"time"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

const listSequences = 50

// flow shows what holds tasks back: pauses, breakers, types whose slots are all in use, limits, rates, tenants, locks and sequences.
func (d *Dashboard) flow(r *request) (*view, error) {
	var all typeRows
	var seqs store.SequenceList
	var bounds store.Flow
	if err := atOnce(
		func() (err error) { all, err = d.readTypes(r); return err },
		func() (err error) {
			seqs, err = d.Store.ListSequences(r.ctx, store.SequenceFilter{Limit: listSequences})
			return err
		},
		func() (err error) { bounds, err = d.Store.Flow(r.ctx); return err },
	); err != nil {
		return nil, err
	}
	ops.AddDue(&bounds, &all.stats)
	data := struct {
		Now time.Time
		*waiting
		Held      []typeRow // paused, or with an open breaker
		Full      map[string][]string
		Sequences []store.SequenceInfo
		Most      int
		Said      string
	}{Now: r.now, waiting: waitingOf(&bounds), Full: map[string][]string{}, Sequences: seqs.List, Most: listSequences, Said: r.said()}
	for _, t := range all.list {
		if t.Pause != nil || t.Breaker != nil || t.Orphans {
			data.Held = append(data.Held, t)
		}
	}
	for _, a := range all.agents {
		if a.Condition == nil {
			continue
		}
		for _, f := range a.Condition.Full {
			data.Full[a.Name] = append(data.Full[a.Name], f.Types...)
		}
	}
	return &view{Title: "Flow", Place: "flow", Name: "flow", Data: data, Live: events}, nil
}

// changeSequence resolves the failure that blocks a sequence.
func (d *Dashboard) changeSequence(_ http.ResponseWriter, r *request) (string, error) {
	typ, err := r.name("type")
	if err != nil {
		return "", err
	}
	name, err := r.name("name")
	if err != nil {
		return "", err
	}
	id, err := strconv.ParseInt(r.PostForm.Get("task"), 10, 64)
	if err != nil || id < 1 {
		return "", &mistaken{"which task is meant is missing"}
	}
	verb := r.PathValue("verb")
	if verb != "skip" && verb != "retry" {
		return "", &missing{"a sequence is skipped or retried"}
	}
	if _, err := ops.ResolveSequence(r.ctx, d.Store, typ, name, task.ID(id), verb == "retry", r.by()); err != nil {
		return "", err
	}
	said := "skipped"
	if verb == "retry" {
		said = "retrying"
	}
	return "/flow?said=" + said, nil
}
