// Package quickstarts_test plays the pages of docs/quickstarts, each with its framework, an agent and a database of its own.
package quickstarts_test

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/console"
	"github.com/leasehold/leasehold/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// TestQuickstarts plays each page as a reader does, who has set DATABASE_URL and WEBHOOK_SECRET.
func TestQuickstarts(t *testing.T) {
	for _, name := range names(t) {
		if !usable(name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait, most of the time
			env := []string{
				"DATABASE_URL=" + harness.EmptyDatabase(t),
				"WEBHOOK_SECRET=whsec_" + base64.StdEncoding.EncodeToString([]byte("the test's own secret, 32 bytes!")),
				// Agents are built with these, too, so most of a page in Go is there already.
				"CGO_ENABLED=0", "GOFLAGS=-trimpath -buildvcs=false",
			}
			if runtime.GOOS == "linux" { // as prepare has it
				env = append(env, "PATH=/usr/bin:/bin:"+os.Getenv("PATH"))
			}
			console.Play(t, filepath.Join(harness.Root(), "docs/quickstarts", name+".md"), console.Setting{
				Binary: harness.Binary(t), Env: env, Install: filepath.Join(harness.Root(), "test/quickstarts/prepare") + " --place " + name,
			})
		})
	}
}

// TestEveryQuickstartHasNeeds: prepare knows what each page needs, and names no page that is not there.
func TestEveryQuickstartHasNeeds(t *testing.T) {
	needs, err := filepath.Glob("needs/*")
	require.NoError(t, err)
	for i := range needs {
		needs[i] = filepath.Base(needs[i])
	}
	require.Equal(t, names(t), needs)
}

// names lists the pages, sorted.
func names(t *testing.T) (found []string) {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join(harness.Root(), "docs/quickstarts/*.md"))
	require.NoError(t, err)
	require.NotEmpty(t, pages)
	for _, page := range pages {
		found = append(found, strings.TrimSuffix(filepath.Base(page), ".md"))
	}
	return found
}

// usable reports whether a page can be played here: prepare finds out, and test/all names those that cannot.
func usable(name string) bool {
	all, limited := os.LookupEnv("LEASEHOLD_QUICKSTARTS")
	return !limited || strings.Contains(" "+all+" ", " "+name+" ")
}
