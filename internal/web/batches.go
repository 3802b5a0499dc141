package web

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

const listBatches = 50

// segment is a part of a stacked bar: the tasks of a batch in one group of states. X and Width are parts of 1000.
type segment struct {
	Name     string
	N        int64
	X, Width float64
	Tone     string
}

// groupTones are how the groups of a batch are coloured.
var groupTones = map[string]string{ //nolint:gochecknoglobals // a table
	"waiting": "calm", "running": "busy", "rolling_back": "busy", "succeeded": "good", "failed": "bad", "cancelled": "warn",
	"rolled back": "undone", "rollback failed": "bad",
}

// segments draw a batch, what is done first.
func segments(b *store.BatchInfo) []segment {
	if b.Total == 0 {
		return nil
	}
	var list []segment
	at := 0.0
	counts := ops.BatchCounts(b)
	slices.Reverse(counts)
	// What is done stands on the left, and what waits on the right.
	slices.SortStableFunc(counts, func(a, b ops.BatchCount) int { return doneFirst(a.Name) - doneFirst(b.Name) })
	for _, c := range counts {
		if c.N == 0 {
			continue
		}
		width := float64(c.N) / float64(b.Total) * lineWidth
		list = append(list, segment{words(c.Name), c.N, at, width, groupTones[c.Name]})
		at += width
	}
	return list
}

func doneFirst(group string) int {
	order := []string{"succeeded", "rolled back", "cancelled", "failed", "rollback failed", "rolling_back", "running", "waiting"}
	return slices.Index(order, group)
}

// batchRow is a batch in a list.
type batchRow struct {
	*store.BatchInfo
	Segments []segment
	Share    float64
}

func rowsOfBatches(list []store.BatchInfo) []batchRow {
	rows := make([]batchRow, 0, len(list))
	for i := range list {
		rows = append(rows, batchRow{&list[i], segments(&list[i]), ops.BatchShare(&list[i])})
	}
	return rows
}

// batchList shows batches.
func (d *Dashboard) batchList(r *request) (*view, error) {
	states, err := ops.ParseBatchStates(r.list("state"))
	if err != nil {
		return nil, err
	}
	name, err := r.text("name")
	if err != nil {
		return nil, err
	}
	before, err := r.id("before")
	if err != nil {
		return nil, err
	}
	list, err := d.Store.ListBatches(r.ctx, store.BatchFilter{States: states, Name: name, Before: task.BatchID(before), Limit: listBatches + 1})
	if err != nil {
		return nil, err
	}
	data := struct {
		Now         time.Time
		List        []batchRow
		States      []store.BatchState
		Chosen      []store.BatchState
		Name        string
		Next, First string
	}{Now: r.now, States: store.BatchStates(), Chosen: states, Name: name}
	again := url.Values{}
	for _, s := range states {
		again.Add("state", string(s))
	}
	if name != "" {
		again.Set("name", name)
	}
	if before > 0 {
		data.First = "/batches?" + again.Encode()
	}
	if len(list) > listBatches {
		list = list[:listBatches]
		again.Set("before", strconv.FormatInt(int64(list[listBatches-1].ID), 10))
		data.Next = "/batches?" + again.Encode()
	}
	data.List = rowsOfBatches(list)
	return &view{Title: "Batches", Place: "batches", Name: "batches", Data: data, Live: events}, nil
}

// batchPage shows one batch.
func (d *Dashboard) batchPage(r *request) (*view, error) {
	id, err := r.number("batch")
	if err != nil {
		return nil, err
	}
	b, err := ops.ReadBatch(r.ctx, d.Store, task.BatchID(id))
	if err != nil {
		return nil, err
	}
	data := struct {
		Now      time.Time
		Batch    batchRow
		Counts   []ops.BatchCount
		Failures []ops.FailureGroup
		Capped   bool // there are more failures than were looked at
		Rate     float64
		HasRate  bool
		Left     time.Duration
		HasLeft  bool
		Recent   []taskRow
		Verbs    []verb
		Labels   string
		Said     string
	}{Now: r.now, Counts: ops.BatchCounts(b.BatchInfo), Failures: b.Failures, Capped: b.FailuresCapped, Verbs: batchVerbs(b.BatchInfo), Said: r.said()}
	can, err := d.Store.BatchCanRollBack(r.ctx, b.ID)
	if err != nil {
		return nil, err
	}
	if !can {
		barRollback(data.Verbs, "the types of its tasks declare no rollback")
	}
	data.Batch = batchRow{b.BatchInfo, segments(b.BatchInfo), ops.BatchShare(b.BatchInfo)}
	if len(b.Labels) > 0 && string(b.Labels) != "{}" {
		data.Labels = pretty(b.Labels)
	}
	data.Rate, data.HasRate, data.Left, data.HasLeft = d.paces.of(b.BatchInfo, r.now)
	data.Recent, err = d.taskRows(r, store.TaskFilter{Batch: b.ID, Limit: overviewTasks})
	if err != nil {
		return nil, err
	}
	live := events
	if b.EndedAt != nil {
		live = ""
	}
	return &view{Title: fmt.Sprintf("Batch %d", b.ID), Place: "batches", Name: "batch", Data: data, Live: live}, nil
}

// batchVerbs are what can be asked of a batch.
func batchVerbs(b *store.BatchInfo) []verb {
	var list []verb
	add := func(v ops.Verb, label, help string, bad bool) {
		if n := (ops.BatchChange{Verb: v}).Affects(b); n > 0 {
			list = append(list, verb{string(v), label + " " + ops.Tasks(n), help, bad})
		}
	}
	if ops.BatchOpen(b) {
		list = append(list, verb{"seal", "Seal", "No further tasks may be added: so the batch can end.", false})
	}
	add(ops.VerbRetry, "Retry", "What has failed or was rolled back waits again.", false)
	if b.EndedAt == nil {
		add(ops.VerbCancel, "Cancel", "What waits never starts. What runs is asked to stop.", true)
	}
	add(ops.VerbRollback, "Roll back", "What waits is cancelled, what runs is stopped, and what was done is rolled back.", true)
	return list
}

// changeBatch changes one batch.
func (d *Dashboard) changeBatch(_ http.ResponseWriter, r *request) (string, error) {
	n, err := r.number("batch")
	if err != nil {
		return "", err
	}
	var became string
	if id := task.BatchID(n); r.PathValue("verb") == "seal" {
		became, err = ops.SealBatch(r.ctx, d.Store, id)
	} else {
		became, err = ops.ChangeBatch(r.ctx, d.Store, id, ops.BatchChange{Verb: ops.Verb(r.PathValue("verb")), By: r.by()})
	}
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("/batches/%d?said=%s", n, url.QueryEscape(became)), nil
}
