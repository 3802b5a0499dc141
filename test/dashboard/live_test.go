package dashboard_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/harness"
)

// TestLive sees a page change under it, and leave alone what its user does.
func TestLive(t *testing.T) {
	s := play(t, "sqlite:"+t.TempDir()+"/leasehold.db", "")
	b := browse(t, s.base)
	b.open(s.task("long"))
	b.do(chromedp.Evaluate[chromedp.Void](`void (window.same = true, document.querySelector('.verb').open = true)`))
	message := func() string { return eval[string](b, `document.querySelector('.big').innerText`) }
	first := message()
	harness.Until(t, seenWithin, "the progress is to change", func() bool { return message() != first })
	require.True(t, eval[bool](b, `window.same === true`), "the page was not loaded again")
	require.True(t, eval[bool](b, `document.querySelector('.verb').open`), "what the user has opened stays open")

	b.do(chromedp.KeyEvent("p"))
	b.sees("Paused")
	paused := message()
	s.leasehold("task", "cancel", fmt.Sprint(s.ids["long"]))
	s.until("long", "cancelled")
	require.Equal(t, paused, message(), "updates are paused")
	b.do(chromedp.KeyEvent("p"))
	b.sees("What happened")
	b.quiet()

	b.do(chromedp.KeyEvent("g"), chromedp.KeyEvent("t"))
	b.sees("Go to task")
	b.do(chromedp.KeyEvent("j"), chromedp.KeyEvent("j"), chromedp.KeyEvent(kb.Enter))
	b.sees("Task ")
	b.do(chromedp.KeyEvent("?"))
	b.sees("next and previous row")
}

// TestAgentGoes says that nothing answers, and goes on when something does.
func TestAgentGoes(t *testing.T) {
	s := play(t, "sqlite:"+t.TempDir()+"/leasehold.db", "")
	b := browse(t, s.base)
	b.open("/")
	b.sees("Live")
	s.agent.Kill(t)
	b.sees("No answer")
}
