package dashboard_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// TestReadersLook signs in with the read token, sees everything, and can change nothing: no page has a form, and one that was opened with the other
// token is refused.
func TestReadersLook(t *testing.T) {
	s := playOn(t, "sqlite:"+filepath.Join(t.TempDir(), "leasehold.db"), "0.0.0.0",
		"  token = \"a-token-of-some-length\"\n  read_token = \"a-token-to-read-with\"\n")
	signIn := func(b *tab, token string) {
		b.open("/sign-in?back=" + strings.ReplaceAll(s.task("orphan"), "/", "%2F"))
		b.do(chromedp.SendKeys(chromedp.CSS(`input[name=token]`), token))
		b.submit("main button")
		require.Equal(t, s.task("orphan"), b.at())
	}
	b := browse(t, s.base)
	signIn(b, "a-token-of-some-length")
	b.sees("Cancel")
	require.NotContains(t, strings.ToLower(b.text()), "read only")

	signIn(b, "a-token-to-read-with") // a page with the buttons was read a moment ago
	b.sees("read only", "Why it does not run", "Live")
	b.looksRight()
	for _, path := range []string{
		s.task("orphan"), "/", "/tasks?state=failed", "/batches/1", "/chunks/events", "/schedules/yearly", "/flow", "/failures", "/types/paused", "/agents",
	} {
		b.open(path)
		b.sees("read only")
		require.Empty(t, eval[[]string](b, `[...document.querySelectorAll('main form[method=post]')].map((f) => f.action)`), path)
		require.Zero(t, eval[int](b, `document.querySelectorAll('a.button, main button.danger, details.verb').length`), path)
	}

	// The page of another day, in a browser that may only read by now.
	b.open(s.task("orphan"))
	b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`void (document.querySelector('footer form').action = '%s/cancel')`, s.task("orphan"))))
	b.submit("footer button")
	b.sees("Read only", "for reading only")
	require.Equal(t, "pending", s.state("orphan"))
}
