package dashboard_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/harness"
)

// TestSignIn asks for the token where the listener is open to others, and remembers that it was given.
func TestSignIn(t *testing.T) {
	s := playOpen(t)
	b := browse(t, s.base)
	b.open("/tasks?state=failed")
	b.sees("Sign in", "token")
	b.looksRight()
	b.do(chromedp.SendKeys(chromedp.CSS(`input[name=token]`), "wrong"))
	b.submit("main button")
	b.sees("not the token")
	harness.Until(t, seenWithin, "the right token is to be taken", func() bool { // a moment after a wrong one
		if strings.HasPrefix(b.at(), "/tasks") {
			return true
		}
		b.open("/sign-in?back=%2Ftasks%3Fstate%3Dfailed")
		b.do(chromedp.SendKeys(chromedp.CSS(`input[name=token]`), "a-token-of-some-length"))
		b.submit("main button")
		return strings.HasPrefix(b.at(), "/tasks")
	})
	require.Equal(t, "/tasks?state=failed", b.at(), "where it was going")
	b.sees("exit code")
	require.Empty(t, eval[string](b, `document.cookie`), "no script sees the cookie")
	require.Equal(t, 401, eval[int](b, `(() => { const r = new XMLHttpRequest(); r.open('GET', '/api/v1/tasks', false); r.send(); return r.status; })()`),
		"the cookie is for pages, not for the API")
	b.open("/")
	b.sees("Live")
}
