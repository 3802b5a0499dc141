package telemetry

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// StoreStats is the whole store at a glance, in plain values.
type StoreStats struct {
	Waiting       []WaitingCount
	OldestDue     map[string]time.Duration // by type: how long the longest overdue row has been due
	Orphans       map[string]int64         // waiting rows, by type, of types that no present agent with workers declares
	RegionOrphans map[string]int64         // due rows, by region, of types that no present agent with workers of the region declares
	AgentsPresent int                      // with workers: observers do not count
	BatchTasks    map[string]int64         // tasks of batches that have not ended, by state

	ParkedSchedules  int              // which no present agent declares; 101: as many or more
	BlockedSequences map[string]int64 // by a failure, by type; 101 of all types together: as many or more
}

// WaitingCount counts the waiting rows of one type in one state.
type WaitingCount struct {
	Type, State string
	N           int64
}

// Bounds of a StoreCollector.
const (
	statsEvery    = 5 * time.Second        // the store is asked no more often than this,
	statsShare    = 100                    // nor more often than this many times what it took: a hundredth of a core's time
	statsTimeout  = 10 * time.Second       // one query of the store
	statsFailed   = time.Minute            // the longest pause after a failure
	statsKept     = 30 * time.Second       // figures that are overdue for longer than this are not shown
	scrapeWait    = 500 * time.Millisecond // how long a scrape waits for fresh figures
	orphansShown  = 20                     // types without an agent that get a label of their own, and regions
	orphansFolded = "other"                // the label of the rest
)

// StoreCollector exports metrics of the whole store to Prometheus. To count many rows costs the store, so it asks only when it is scraped,
// every 5 s at most and the less often the longer that takes, in the goroutine that calls Run; all scrapes until then get the same
// figures, and one that says when they were counted. A scrape never waits longer than half a second.
type StoreCollector struct {
	read   func(context.Context) (StoreStats, error)
	errors prometheus.Counter
	log    *slog.Logger
	outage *Outage
	wanted chan struct{} // holds at most one request for a query

	mu       sync.Mutex
	stats    *StoreStats   // nil: never read, or the last query failed
	asked    time.Time     // when the last query began
	answered time.Time     // when it returned, with or without an error
	every    time.Duration // from then until the next
	fresh    chan struct{} // closed with the next answer

	waiting, oldest, orphans, regions, agents, batches, parked, blocked, counted *prometheus.Desc
}

// NewStoreCollector makes a collector that reads the store with read, counts read's failures in errors, and reports them to
// outage (nil: to none). Nothing is read until Run is called.
func NewStoreCollector(
	read func(context.Context) (StoreStats, error), errors prometheus.Counter, outage *Outage, log *slog.Logger,
) *StoreCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("leasehold_store_"+name, help+" Every agent reports the same value.", labels, nil)
	}
	return &StoreCollector{
		read: read, errors: errors, outage: outage, log: log,
		wanted:  make(chan struct{}, 1),
		fresh:   make(chan struct{}),
		waiting: desc("waiting", "Number of waiting rows in the store.", "type", "state"),
		oldest:  desc("oldest_due_seconds", "Seconds for which the most overdue row has been due.", "type"),
		orphans: desc("orphans", "Number of waiting rows of types that no present agent with workers declares.", "type"),
		regions: desc("region_orphans",
			"Number of due rows of a region in which no present agent with workers declares their type.", "region"),
		agents:  desc("agents_present", "Number of present agents that have workers."),
		batches: desc("batch_tasks", "Number of tasks of batches that have not ended.", "state"),
		parked:  desc("schedules_parked", "Number of schedules that fire nothing because no present agent declares them, 101 at most."),
		blocked: desc("sequences_blocked", "Number of sequences that a failed task blocks, 101 at most of all types.", "type"),
		counted: prometheus.NewDesc("leasehold_store_counted_timestamp_seconds",
			"Unix time at which this agent read the figures of the whole store that it reports.", nil, nil),
	}
}

// Run answers scrapes until ctx ends, and returns nil then.
func (c *StoreCollector) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.wanted:
		}
		c.refresh(ctx)
	}
}

func (c *StoreCollector) refresh(ctx context.Context) {
	if due, _ := c.due(); !due {
		return
	}
	asked := time.Now()
	timed, cancel := context.WithTimeout(ctx, statsTimeout)
	defer cancel()
	stats, err := c.read(timed)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked, c.answered, c.stats = asked, time.Now(), &stats
	c.every = max(statsEvery, statsShare*c.answered.Sub(asked))
	switch {
	case err == nil:
		c.outage.Worked(c.log, "stats")
	case ctx.Err() == nil:
		c.stats, c.every = nil, min(c.every, statsFailed)
		c.errors.Inc()
		c.outage.Failed(c.log, "stats", err)
	}
	close(c.fresh)
	c.fresh = make(chan struct{})
}

// due reports whether the store may be asked again, and returns a channel that is closed when it answers next.
func (c *StoreCollector) due() (bool, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answered.IsZero() || time.Since(c.answered) >= c.every, c.fresh
}

// Describe implements prometheus.Collector.
func (c *StoreCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.waiting, c.oldest, c.orphans, c.regions, c.agents, c.batches, c.parked, c.blocked, c.counted} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. Figures that cannot be had are left out.
func (c *StoreCollector) Collect(ch chan<- prometheus.Metric) {
	stats, asked := c.latest()
	if stats == nil {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	label := foldTypes(stats.Orphans)
	waiting := map[[2]string]int64{}
	for _, w := range stats.Waiting {
		waiting[[2]string{label(w.Type), w.State}] += w.N
	}
	for k, n := range waiting {
		gauge(c.waiting, float64(n), k[0], k[1])
	}
	oldest := map[string]time.Duration{}
	for name, d := range stats.OldestDue {
		oldest[label(name)] = max(oldest[label(name)], d)
	}
	for name, d := range oldest {
		gauge(c.oldest, d.Seconds(), name)
	}
	orphans := map[string]int64{}
	for name, n := range stats.Orphans {
		orphans[label(name)] += n
	}
	for name, n := range orphans {
		gauge(c.orphans, float64(n), name)
	}
	region := foldTypes(stats.RegionOrphans)
	regions := map[string]int64{}
	for name, n := range stats.RegionOrphans {
		regions[region(name)] += n
	}
	for name, n := range regions {
		gauge(c.regions, float64(n), name)
	}
	gauge(c.agents, float64(stats.AgentsPresent))
	for state, n := range stats.BatchTasks {
		gauge(c.batches, float64(n), state)
	}
	gauge(c.parked, float64(stats.ParkedSchedules))
	for name, n := range stats.BlockedSequences {
		gauge(c.blocked, float64(n), name)
	}
	gauge(c.counted, float64(asked.UnixMilli())/1000)
}

// latest gives figures that are as fresh as can be had without making the scrape wait, and when they were asked for; nil: none.
func (c *StoreCollector) latest() (*StoreStats, time.Time) {
	if due, fresh := c.due(); due {
		select {
		case c.wanted <- struct{}{}:
		default: // a question is waiting already
		}
		wait := time.NewTimer(scrapeWait)
		defer wait.Stop()
		select {
		case <-fresh:
		case <-wait.C:
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.answered) > c.every+statsKept {
		return nil, time.Time{}
	}
	return c.stats, c.asked
}

// foldTypes maps a row type, or a region, to its label. Declared types keep their names: there are as many as were declared. Of
// the others, which any INSERT can make up, the twenty with most rows keep theirs.
func foldTypes(orphans map[string]int64) func(string) string {
	names := make([]string, 0, len(orphans))
	for name := range orphans {
		names = append(names, name)
	}
	if len(names) <= orphansShown {
		return func(name string) string { return name }
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(orphans[b], orphans[a]), cmp.Compare(a, b))
	})
	folded := map[string]bool{}
	for _, name := range names[orphansShown:] {
		folded[name] = true
	}
	return func(name string) string {
		if folded[name] {
			return orphansFolded
		}
		return name
	}
}
