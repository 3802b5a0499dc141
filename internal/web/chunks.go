package web

import (
	"net/http"
	"net/url"
	"time"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
)

// Bounds of what is shown of plans of chunks.
const (
	listPlans  = 100
	listPasses = 20
)

// chunkList shows the plans.
func (d *Dashboard) chunkList(r *request) (*view, error) {
	list, err := d.Store.ListChunks(r.ctx, store.ChunkPlanFilter{Limit: listPlans})
	if err != nil {
		return nil, err
	}
	data := struct {
		Now  time.Time
		List []store.ChunkPlanInfo
		Most int
	}{r.now, list, listPlans}
	return &view{Title: "Chunks", Place: "chunks", Name: "chunks", Data: data, Live: events}, nil
}

// passRow is a pass of a plan, as a strip: of all that it planned, what is done, what failed, and what is under way.
type passRow struct {
	ops.ChunkPass
	Segments []segment
	Share    float64
	Sizes    []bar // of chunks, as they changed
	Took     time.Duration
}

func passOf(p ops.ChunkPass, now time.Time) passRow {
	row := passRow{ChunkPass: p, Sizes: sizeBars(p.Sizes)}
	end := now
	if !p.EndedAt.IsZero() {
		end = p.EndedAt
	}
	row.Took = max(end.Sub(p.BeganAt), 0).Round(time.Second)
	if p.Total == 0 {
		return row
	}
	row.Share = float64(p.Total-p.Live) / float64(p.Total)
	at := 0.0
	other := p.Total - p.Succeeded - p.Failed - p.Live
	for _, s := range []segment{
		{Name: "succeeded", N: p.Succeeded, Tone: "good"}, {Name: "failed", N: p.Failed, Tone: "bad"}, {Name: "split or cancelled", N: other, Tone: "warn"},
		{Name: "waiting or running", N: p.Live, Tone: "calm"},
	} {
		if s.N <= 0 {
			continue
		}
		s.X, s.Width = at, float64(s.N)/float64(p.Total)*lineWidth
		at += s.Width
		row.Segments = append(row.Segments, s)
	}
	return row
}

// sizeBars draw the sizes of chunks over time, the newest on the right. Of a bar, Width is the height: a part of 100.
func sizeBars(sizes []int) []bar {
	most := 0
	for _, n := range sizes {
		most = max(most, n)
	}
	if most == 0 || len(sizes) < 2 {
		return nil
	}
	bars := make([]bar, 0, len(sizes))
	for i, n := range sizes {
		bars = append(bars, bar{
			X: float64(i) / float64(len(sizes)) * lineWidth, Width: max(float64(n)/float64(most)*100, 1), Title: ops.Thousands(int64(n)) + " rows",
		})
	}
	return bars
}

// chunkPage shows one plan.
func (d *Dashboard) chunkPage(r *request) (*view, error) {
	name, err := r.name("name")
	if err != nil {
		return nil, err
	}
	c, err := ops.ShowChunks(r.ctx, d.Store, name, listPasses)
	if err != nil {
		return nil, err
	}
	data := struct {
		Now    time.Time
		Plan   *store.ChunkPlanInfo
		Failed []ops.FailedRange
		Passes []passRow
		Pace   []string
		Proof  *proof
		Verbs  []verb
		Said   string
	}{Now: r.now, Plan: c.ChunkPlanInfo, Failed: c.Failed, Pace: paceOf(c.ChunkPlanInfo, c.Waits), Said: r.said()}
	if data.Proof, err = d.prove(r, c.ChunkPlanInfo); err != nil {
		return nil, err
	}
	for _, p := range c.Passes {
		data.Passes = append(data.Passes, passOf(p, r.now))
	}
	data.Verbs = []verb{{"pause", "Pause", "No further chunks are planned. Those that are go on.", false}}
	if c.State == store.ChunksPaused || c.State == store.ChunksStopped {
		data.Verbs = []verb{{"resume", "Resume", "Agents plan on from where they stopped.", false}}
	}
	return &view{Title: name, Place: "chunks", Name: "chunk", Data: data, Live: events}, nil
}

// changeChunks pauses a plan, or resumes it.
func (d *Dashboard) changeChunks(_ http.ResponseWriter, r *request) (string, error) {
	name, err := r.name("name")
	if err != nil {
		return "", err
	}
	verb := r.PathValue("verb")
	if verb != "pause" && verb != "resume" {
		return "", &missing{"a plan is paused or resumed"}
	}
	if _, err := ops.PauseChunks(r.ctx, d.Store, name, verb == "pause", r.by()); err != nil {
		return "", err
	}
	return "/chunks/" + url.PathEscape(name) + "?said=" + verb + "d", nil
}
