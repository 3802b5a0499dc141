package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/harness"
)

// TestALongTaskThatPingsIsLeftAlone runs a task for many times its heartbeat, through a restart of the server that is
// shorter than its window, and than presence less stop and one session heartbeat.
func TestALongTaskThatPingsIsLeftAlone(t *testing.T) {
	const (
		heartbeat = 12 * time.Second
		down      = 2 * time.Second // beside what stopping and starting take
	)
	length := harness.Sized(38, 50) // seconds, and pings
	t.Parallel()
	c := harness.NewCluster(t)
	h := &house{t: t, url: c.URL}
	h.admin = h.pool(c.URL)
	harness.StartAgent(t, harness.AgentOptions{
		Name: "agent", Store: c.URL, Agent: "  presence = \"20s\"",
		Config: fmt.Sprintf("task \"long\" {\n  timeout = \"2m\"\n  heartbeat = %q\n  require_progress = true\n  command {\n"+
			"    argv = [\"sh\", \"-c\", \"n=0; while [ $n -lt %d ]; do sleep 1; n=$((n+1)); echo $n >&3; done\"]\n    stop_grace = \"0s\"\n  }\n}",
			heartbeat, length),
	})
	h.exec(`INSERT INTO leasehold.task (type) VALUES ('long')`)
	harness.Until(t, 30*time.Second, "it runs", func() bool {
		return h.number(`SELECT count(*) FROM leasehold.task WHERE state = 'running' AND progress IS NOT NULL`) == 1
	})
	for range 2 {
		c.Stop(t)
		timer := time.NewTimer(down)
		<-timer.C
		c.Start(t)
		h.admin.Reset()
		harness.Until(t, 30*time.Second, "its lease has been renewed since", func() bool {
			return h.number(`SELECT count(*) FROM leasehold.task WHERE state = 'running' AND fence = 1
				AND lease_until > pg_postmaster_start_time() + interval '12 seconds'`) == 1
		})
	}
	harness.Until(t, 2*time.Minute, "it is done", func() bool {
		return h.number(`SELECT count(*) FROM leasehold.task_archive WHERE state = 'succeeded'`) == 1
	})
	require.EqualValues(t, 2, h.number(`SELECT fence FROM leasehold.task_archive`), "claimed once, settled once")
	require.EqualValues(t, length, h.number(`SELECT (progress #>> '{}')::bigint FROM leasehold.task_archive`), "the last word is kept")
}
