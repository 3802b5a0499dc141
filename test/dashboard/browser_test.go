// Package dashboard_test looks at the dashboard of a real agent in a real browser: Chromium, whose program LEASEHOLD_TEST_BROWSER names (test/all
// finds or installs it).
package dashboard_test

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.MainBeside(m, 1)) }

const (
	browseWithin = 10 * time.Minute // a test
	seenWithin   = 90 * time.Second // what a page is waited for, on a busy machine
)

// tab is a page of the browser.
type tab struct {
	t    *testing.T
	ctx  context.Context //nolint:containedctx // chromedp's
	base string

	mu  sync.Mutex
	bad []string // what the console said
}

// browse starts a browser, with a profile of its own.
func browse(t *testing.T, base string) *tab {
	t.Helper()
	program := os.Getenv("LEASEHOLD_TEST_BROWSER")
	require.NotEmpty(t, program, "LEASEHOLD_TEST_BROWSER is not set: run make test, which finds or installs Chromium")
	ctx, cancel := context.WithTimeout(t.Context(), browseWithin)
	t.Cleanup(cancel)
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()), chromedp.Flag("disable-dev-shm-usage", true))
	ctx, stop := chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(stop)
	ctx, end := chromedp.NewContext(ctx)
	t.Cleanup(end)
	b := &tab{t: t, ctx: ctx, base: base}
	messages := chromedp.Console(ctx)
	var reading sync.WaitGroup
	reading.Go(func() { // ends with the context
		for m, err := range messages {
			if err != nil {
				return
			}
			b.mu.Lock()
			b.bad = append(b.bad, m.String())
			b.mu.Unlock()
		}
	})
	t.Cleanup(func() { end(); reading.Wait() })
	b.size(1280, 900)
	return b
}

// do acts.
func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, seenWithin)
	defer cancel()
	require.NoError(b.t, chromedp.Do(ctx, steps...), "at %s", b.at())
}

// eval has the page compute something.
func eval[T any](b *tab, script string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, seenWithin)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](script))
	require.NoError(b.t, err, script)
	return v
}

// at is where the browser is.
func (b *tab) at() string {
	at, _ := chromedp.Run(b.ctx, chromedp.Location())
	return strings.TrimPrefix(at, b.base)
}

// open goes to a path.
func (b *tab) open(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.base + path))
}

// text is all that can be read.
func (b *tab) text() string {
	b.t.Helper()
	return eval[string](b, `document.body.innerText`)
}

// sees waits until a text can be read.
func (b *tab) sees(texts ...string) {
	b.t.Helper()
	for _, text := range texts {
		harness.Until(b.t, seenWithin, fmt.Sprintf("%q is to be seen at %s", text, b.at()), func() bool {
			all, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`document.body ? document.body.innerText : ""`))
			return err == nil && strings.Contains(strings.ToLower(all), strings.ToLower(text))
		})
	}
}

// click clicks what a selector of CSS finds first.
func (b *tab) click(css string) {
	b.t.Helper()
	b.do(chromedp.Click(chromedp.CSS(css)))
}

// press opens a button's confirmation, and confirms.
func (b *tab) press(verb string) {
	b.t.Helper()
	b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(
		`void (document.querySelector('form[action$="/%s"]').closest('details')?.setAttribute('open', ''))`, verb)))
	b.submit(fmt.Sprintf(`form[action$="/%s"] button`, verb))
}

// submit clicks what leads to another page, and waits until that is there.
func (b *tab) submit(css string) {
	b.t.Helper()
	before := eval[float64](b, `performance.timeOrigin`)
	b.click(css)
	harness.Until(b.t, seenWithin, "another page is to be there", func() bool {
		at, err := chromedp.Run(b.ctx, chromedp.Evaluate[float64](`document.readyState === "complete" ? performance.timeOrigin : 0`))
		return err == nil && at > before
	})
}

func (b *tab) size(width, height int64) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, height))
}

// theme has the browser prefer light or dark.
func (b *tab) theme(scheme string) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	require.NoError(b.t, err)
}

// scripts has the browser run scripts, or not.
func (b *tab) scripts(run bool) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !run})
	require.NoError(b.t, err)
}

// quiet checks that the console has said nothing so far: no error, and nothing that the policy of the page forbids.
func (b *tab) quiet() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Empty(b.t, b.bad, "at %s", b.at())
}

//go:embed contrast.js
var contrast string

// looksRight checks what can be checked of a page's looks: it does not overflow, and its text can be read.
func (b *tab) looksRight() {
	b.t.Helper()
	wide := eval[[]string](b, `[...document.querySelectorAll('body *')].filter(e => document.documentElement.scrollWidth > innerWidth &&
		e.getBoundingClientRect().right > innerWidth + 1).slice(0, 3).map(e => e.outerHTML.slice(0, 200))`)
	require.LessOrEqual(b.t, eval[int](b, `document.documentElement.scrollWidth`), eval[int](b, `innerWidth`), "%s overflows by %v", b.at(), wide)
	require.Empty(b.t, eval[[]string](b, contrast), "text of too little contrast at %s", b.at())
}

// shoot keeps a picture of the page where LEASEHOLD_SCREENSHOTS names a directory.
func (b *tab) shoot(name string) {
	b.t.Helper()
	dir := os.Getenv("LEASEHOLD_SCREENSHOTS")
	if dir == "" {
		return
	}
	// The path of a test's file means nothing to those who see the picture.
	b.do(chromedp.Evaluate[chromedp.Void](`void (document.querySelector('footer p').textContent = 'Agent billing-1 · sqlite:leasehold.db')`))
	picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	require.NoError(b.t, err)
	require.NoError(b.t, os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o644))
}
