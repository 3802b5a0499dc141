package storetest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	// released has a script for each version of the schema that was the newest of a release: what `leasehold migrate sql` printed then.
	released     = "testdata/released"
	releasedSums = released + "/SHA256SUMS"
	// recordReleased is the variable that has the newest version recorded: make record-migrations.
	recordReleased = "LEASEHOLD_RECORD_MIGRATIONS"
)

// Released is what a store's migrations are, as far as releases bind them. Paths are relative to the package's directory.
type Released struct {
	Newest int                    // the version that the files lead to
	Script func() (string, error) // what makes a new store of that version
}

// CheckReleased fails where the steps of a released version, or what is recorded of it, are no longer what was recorded: stores have gone through
// them and will not again.
func CheckReleased(t *testing.T, r Released) {
	t.Helper()
	if os.Getenv(recordReleased) != "" {
		record(t, r)
	}
	sums := read(t, releasedSums)
	require.NotEmpty(t, sums, "nothing is recorded: make record-migrations")
	for path, sum := range tagged(t) {
		require.Equal(t, sum, sums[path], "%s is in a release, and its line in %s has changed. Take it back: a version that was released stays "+
			"what it is", path, releasedSums)
	}
	for path, sum := range sums {
		require.Equal(t, sum, sumOf(t, path), "%s was recorded as released and has changed: stores have gone through it and will not again. "+
			"Take the change back, and add a new migration instead: see migrations/README.md%s", path, hint(t))
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(sums)), recordable(t, highest(sums)), "each released version is recorded, and nothing is missing")
}

// ReleasedScripts returns the scripts that made the stores of releases, by name.
func ReleasedScripts(t *testing.T) map[string]string {
	t.Helper()
	scripts := map[string]string{}
	for path := range read(t, releasedSums) {
		if filepath.Dir(path) == released {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			scripts[filepath.Base(path)] = string(text)
		}
	}
	require.NotEmpty(t, scripts)
	return scripts
}

// RequireMigrated fails unless a released store that has been migrated has what a new store has.
func RequireMigrated(t *testing.T, script string, fresh, migrated []string) {
	t.Helper()
	missing, extra := without(fresh, migrated), without(migrated, fresh)
	if len(missing)+len(extra) == 0 {
		return
	}
	t.Fatalf("a store of %s, which was released, is not what a new one is after `migrate up`. Stores get what has changed in schema.sql, "+
		"triggers.sql, functions or shared only by a new step: add one, which for functions alone may be its first line "+
		"(migrations/README.md)%s\nonly in a new store:\n%s\nonly in the migrated one:\n%s",
		script, hint(t), strings.Join(missing, "\n"), strings.Join(extra, "\n"))
}

// hint says what else may be done as long as nothing has been released.
func hint(t *testing.T) string {
	t.Helper()
	if len(tagged(t)) > 0 {
		return ""
	}
	return ". No tag has these versions yet; until one has, `make record-migrations` records them anew"
}

var (
	comment    = regexp.MustCompile(`--[^\n]*`)
	whitespace = regexp.MustCompile(`\s+`)
	aroundMark = regexp.MustCompile(` ?([(),;]) ?`)
)

// Normal is a definition without comments and layout, which stores do not have to agree on.
func Normal(sql string) string {
	return aroundMark.ReplaceAllString(whitespace.ReplaceAllString(comment.ReplaceAllString(sql, ""), " "), "$1")
}

func without(all, others []string) (rest []string) {
	for _, one := range all {
		if !slices.Contains(others, one) {
			rest = append(rest, one)
		}
	}
	return rest
}

// record records the newest version, in addition to those before it.
func record(t *testing.T, r Released) {
	t.Helper()
	script, err := r.Script()
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(released, 0o755))
	require.NoError(t, os.WriteFile(fmt.Sprintf("%s/%04d.sql", released, r.Newest), []byte(script), 0o644))
	sums := read(t, releasedSums)
	for _, path := range recordable(t, r.Newest) {
		if versionOf(path) > highest(sums) || versionOf(path) == r.Newest {
			sums[path] = sumOf(t, path)
		}
	}
	var lines strings.Builder
	for _, path := range slices.Sorted(maps.Keys(sums)) {
		lines.WriteString(sums[path] + "  " + path + "\n")
	}
	require.NoError(t, os.WriteFile(releasedSums, []byte(lines.String()), 0o644))
}

// recordable lists the files of all versions up to one.
func recordable(t *testing.T, upTo int) (paths []string) {
	t.Helper()
	for _, pattern := range []string{"migrations/*.sql", released + "/*.sql"} {
		found, err := filepath.Glob(pattern)
		require.NoError(t, err)
		paths = append(paths, found...)
	}
	return slices.DeleteFunc(paths, func(path string) bool { return versionOf(path) > upTo })
}

// versionOf is the number that a file's name begins with.
func versionOf(path string) (version int) {
	_, _ = fmt.Sscanf(filepath.Base(path), "%04d", &version) // 0 where there is none, which no version is
	return version
}

func highest(sums map[string]string) (version int) {
	for path := range sums {
		version = max(version, versionOf(path))
	}
	return version
}

func sumOf(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func read(t *testing.T, file string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	return parse(string(text))
}

func parse(text string) map[string]string {
	sums := map[string]string{}
	for line := range strings.Lines(text) {
		sum, path, _ := strings.Cut(strings.TrimSpace(line), "  ")
		sums[path] = sum
	}
	return sums
}

// tagged reads the sums as the newest release before this commit has them; none where git knows of no release.
func tagged(t *testing.T) map[string]string {
	t.Helper()
	tag, err := exec.CommandContext(t.Context(), "git", "describe", "--tags", "--abbrev=0", "--match", "v[0-9]*").Output()
	if err != nil {
		return nil
	}
	text, err := exec.CommandContext(t.Context(), "git", "show", strings.TrimSpace(string(tag))+":./"+releasedSums).Output()
	if err != nil {
		return nil
	}
	return parse(string(text))
}
