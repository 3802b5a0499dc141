package rig

import (
	"fmt"
	"slices"

	"github.com/leasehold/leasehold/bench/work"
)

// Measures are what a run gave, by name. Those with per_row in their name are divided by the number of rows.
type Measures map[string]float64

// Outcome is what came of a run.
type Outcome struct {
	Measures Measures
	Version  string
}

const us = 1e6 // microseconds in a second

// measures turns readings into what is reported.
func measures(run Run, result work.Result, u used, inserted, ran Counters) Measures {
	m := Measures{"seconds": result.Seconds, "rss_mb": float64(result.RSS) / 1e6}
	m["others_cpu_percent"] = 100 * max(u.busy-u.server-u.here-result.SelfCPU-result.ChildCPU, 0) / u.wall
	rows := float64(run.Job.Rows)
	m["agent_cpu_us_per_row"] = us * result.SelfCPU / rows
	m["child_cpu_us_per_row"] = us * result.ChildCPU / rows
	if !run.Contender.File {
		ofServer(m, rows, u, inserted, ran)
	}
	if run.Job.Kind == work.Latency {
		slices.Sort(result.Latencies)
		m["p50_ms"], m["p99_ms"] = percentile(result.Latencies, 50)/1000, percentile(result.Latencies, 99)/1000
	} else {
		m["rate"] = rows / result.Seconds
	}
	return m
}

// ofServer adds what the server says.
func ofServer(m Measures, rows float64, u used, inserted, ran Counters) {
	m["server_cpu_us_per_row"] = us * u.server / rows
	m["commits_per_row"] = float64(ran.Commits) / rows
	if ran.Statements >= 0 {
		m["statements_per_row"] = float64(ran.Statements) / rows
	}
	if ran.ClaimRows > 0 {
		m["claim_us_per_row"] = us * ran.ClaimTime / float64(ran.ClaimRows)
	}
	m["run_wal_bytes_per_row"] = float64(ran.WAL) / rows
	m["insert_wal_bytes_per_row"] = float64(inserted.WAL) / rows
	m["wal_bytes_per_row"] = m["run_wal_bytes_per_row"] + m["insert_wal_bytes_per_row"]
}

// percentile is the value below or at which p percent of the sorted values are (nearest rank).
func percentile(sorted []int64, p int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	rank := (len(sorted)*p + 99) / 100
	return float64(sorted[max(rank, 1)-1])
}

// Brief returns the most significant measure, for the progress output.
func (o Outcome) Brief() string {
	if rate, ok := o.Measures["rate"]; ok {
		return fmt.Sprintf("%.0f rows/s", rate)
	}
	if p50, ok := o.Measures["p50_ms"]; ok {
		return fmt.Sprintf("p50 %.2f ms, p99 %.2f ms", p50, o.Measures["p99_ms"])
	}
	if rate, ok := o.Measures["inserts_per_second"]; ok {
		return fmt.Sprintf("%.0f inserts/s", rate)
	}
	if samples, ok := o.Measures["samples"]; ok {
		return fmt.Sprintf("%.0f of %.0f samples differ; the view took %.2f ms (p99)",
			o.Measures["samples_that_differ"], samples, o.Measures["view_p99_ms"])
	}
	return fmt.Sprintf("agent CPU %.2f%%", o.Measures["agent_cpu_percent"])
}
