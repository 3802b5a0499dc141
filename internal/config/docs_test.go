package config

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

// documented answers env(…) in examples: what a variable of that name would hold.
func documented(name string) (string, bool) {
	switch {
	case strings.Contains(name, "READ_TOKEN"):
		return "another text", true
	case strings.Contains(name, "SECRET"):
		return secret, true
	case strings.Contains(name, "LISTEN"):
		return "127.0.0.1:0", true
	case strings.HasSuffix(name, "_URL") && !strings.Contains(name, "DATABASE"):
		return "http://127.0.0.1:8080", true
	case strings.Contains(name, "URL"):
		return "postgres://leasehold@127.0.0.1/leasehold", true
	}
	return "text", true
}

var hclBlock = regexp.MustCompile("(?ms)^[ \t]*```hcl\n(.*?)^[ \t]*```")

// TestDocumentation loads every HCL block of the documentation, each alone as a file.
func TestDocumentation(t *testing.T) {
	blocks := 0
	for _, page := range pages(t, ".md", "README.md", "CONTRIBUTING.md", "docs", "examples") {
		text, err := os.ReadFile(filepath.Join(root, page))
		require.NoError(t, err)
		for _, m := range hclBlock.FindAllSubmatchIndex(text, -1) {
			blocks++
			line := 1 + strings.Count(string(text[:m[2]]), "\n")
			t.Run(fmt.Sprintf("%s:%d", page, line), func(t *testing.T) {
				dir := write(t, map[string]string{"leasehold.hcl": string(text[m[2]:m[3]])})
				_, err := Load([]string{dir}, Options{LookupEnv: documented})
				require.NoError(t, err, report(err))
			})
		}
	}
	require.NotZero(t, blocks, "no block was found at all")
}

// TestExamples loads every configuration in examples/ and what `leasehold init` writes, and shows that it prints as what
// it is.
func TestExamples(t *testing.T) {
	files := pages(t, ".hcl", "examples", "cmd")
	require.NotEmpty(t, files)
	env := make(map[string]string)
	for _, name := range files {
		t.Run(name, func(t *testing.T) {
			opts := Options{LookupEnv: func(name string) (string, bool) {
				env[name], _ = documented(name)
				return env[name], true
			}}
			cfg, err := Load([]string{filepath.Join(root, name)}, opts)
			require.NoError(t, err, report(err))
			require.NotEmpty(t, cfg.Tasks)
			again(t, cfg, env)
		})
	}
}

// TestFunctionsAreDocumented wants every function, as it is called and what it does, in docs/configuration.md.
func TestFunctionsAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs/configuration.md"))
	require.NoError(t, err)
	for _, f := range Functions() {
		require.Contains(t, string(page), "`"+f.Usage+"`", "%s is missing: %s", f.Name, f.Does)
	}
}

// pages lists the files with a suffix at and below some paths of the repository.
func pages(t *testing.T, suffix string, paths ...string) []string {
	t.Helper()
	var out []string
	for _, path := range paths {
		err := filepath.WalkDir(filepath.Join(root, path), func(name string, d fs.DirEntry, err error) error {
			switch {
			case os.IsNotExist(err):
				return nil
			case err != nil:
				return err
			case d.IsDir() && d.Name() == "node_modules":
				return filepath.SkipDir
			case !d.IsDir() && strings.HasSuffix(name, suffix):
				rel, err := filepath.Rel(root, name)
				out = append(out, rel)
				return err
			}
			return nil
		})
		require.NoError(t, err)
	}
	return out
}

// TestAttributesAreDocumented wants every attribute and block that a file may have in the section of its block in docs/configuration.md.
func TestAttributesAreDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/configuration.md"))
	require.NoError(t, err)
	for _, s := range []*shape{
		agentShape(), storeShape(), taskShape(), retryShape(), checkShape(), rollbackShape(), webhookShape(), batchShape(), commandShape(), workerShape(), scheduleShape(),
		chunksShape(), sourceShape(), throttleShape(),
	} {
		_, section, found := strings.Cut(string(text), "# "+s.name+"\n")
		require.True(t, found, "%s has no section", s.name)
		section, _, _ = strings.Cut(section, "\n#")
		for _, name := range s.attrs {
			require.Regexp(t, "(?m)^\\| [^|]*`"+name+"`[^|]* \\|", section, "%s in %s is missing", name, s.name)
		}
	}
}
