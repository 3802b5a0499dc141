package dashboard_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/harness"
)

// TestActions does what can be done, with scripts and without them.
func TestActions(t *testing.T) {
	onBoth(t, func(t *testing.T, store string) {
		for _, scripts := range []bool{true, false} {
			t.Run(fmt.Sprintf("scripts %t", scripts), func(t *testing.T) {
				url := store
				if !scripts {
					if url[:7] != "sqlite:" {
						return // the server does not know the difference
					}
					url = "sqlite:" + t.TempDir() + "/leasehold.db"
				}
				s := play(t, url, "")
				b := browse(t, s.base)
				b.scripts(scripts)
				act(s, b)
				b.quiet()
			})
		}
	})
}

// act goes through the pages and does what they offer.
func act(s *scene, b *tab) {
	b.open("/")
	b.do(chromedp.SetValue(chromedp.CSS(`footer input[name=name]`), "Grace"))
	b.submit("footer button")
	b.sees("Overview")

	b.open(s.task("orphan"))
	b.press("cancel")
	b.sees("Done: cancelled", "What happened")
	b.press("retry")
	b.sees("Why it does not run")
	b.press("cancel")
	b.sees("What happened")

	b.open(s.task("long"))
	b.press("cancel")
	b.sees("cancel")
	s.until("long", "cancelled")

	b.open("/batches/1")
	b.press("retry")
	b.sees("Batch 1")

	b.open("/types/paused")
	b.press("resume")
	b.sees("Done: resumed")
	s.until("paused", "succeeded")
	b.press("pause")
	b.sees("Paused", "by Grace (dashboard)")

	b.open("/schedules/yearly")
	b.press("fire")
	b.sees("Done: fired", "Task")
	b.press("pause")
	b.sees("Paused", "by Grace (dashboard)")

	b.open("/flow")
	b.press("skip")
	b.sees("Done: skipped")
	s.until("behind", "failed")

	b.open("/failures")
	b.submit(`a[href*="type=ledger"].button`)
	b.sees("tasks match now")
	b.submit(`form[action="/changes"] button`)
	harness.Until(s.t, seenWithin, "the change is to end", func() bool { // without scripts, a page stays as it is
		b.open("/changes/1")
		return strings.Contains(b.text(), "2 tasks changed")
	})
	b.sees("Grace (dashboard)")

	b.open("/agents")
	b.press("cordon")
	b.sees("Done: ordered", "cordoned")
	var audit struct {
		Agents []struct {
			By string `json:"ordered_by"`
		} `json:"agents"`
	}
	s.get("/api/v1/agents", &audit)
	require.Equal(s.t, "Grace (dashboard)", audit.Agents[0].By)
}

// TestTheme keeps what was chosen, whatever the browser prefers.
func TestTheme(t *testing.T) {
	s := play(t, "sqlite:"+t.TempDir()+"/leasehold.db", "")
	b := browse(t, s.base)
	ground := `getComputedStyle(document.body).backgroundColor`
	b.open("/")
	b.theme("light")
	light := eval[string](b, ground)
	b.theme("dark")
	dark := eval[string](b, ground)
	require.NotEqual(t, light, dark)
	b.do(chromedp.SetValue(chromedp.CSS(`footer select`), "light"))
	b.submit("footer button")
	b.sees("Overview")
	require.Equal(t, light, eval[string](b, ground), "light was chosen")
	b.theme("light")
	b.do(chromedp.SetValue(chromedp.CSS(`footer select`), "dark"))
	b.submit("footer button")
	b.sees("Overview")
	require.Equal(t, dark, eval[string](b, ground), "dark was chosen")
	b.looksRight()
}
