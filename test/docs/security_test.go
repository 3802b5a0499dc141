package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSecurityPointsHaveTests reads the tables of docs/security.md: each point says how it is kept, and names tests that are there.
func TestSecurityPointsHaveTests(t *testing.T) {
	declared := testsOfPackages(t)
	_, points, ok := strings.Cut(read(t, "docs/security.md"), "\n## The listener\n")
	require.True(t, ok)
	points, _, ok = strings.Cut(points, "\n## What is not defended\n")
	require.True(t, ok)
	named, cells := regexp.MustCompile("^`([a-z0-9]+)\\.((?:Test|Fuzz)\\w+)`$"), 0
	for line := range strings.Lines(points) {
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "| Point |") || strings.HasPrefix(line, "| --- |") {
			continue
		}
		cell := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		require.Len(t, cell, 3, line)
		for _, text := range cell {
			require.NotEmpty(t, strings.TrimSpace(text), line)
		}
		for name := range strings.SplitSeq(strings.TrimSpace(cell[2]), ", ") {
			m := named.FindStringSubmatch(name)
			require.NotNil(t, m, "%q is no package.TestName: %s", name, line)
			require.True(t, slices.Contains(declared[m[1]], m[2]), "package %s has no %s: %s", m[1], m[2], line)
		}
		cells++
	}
	require.Greater(t, cells, 60)
}

// testsOfPackages lists the tests of each package, by the last part of its path.
func testsOfPackages(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	declaration := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		dir := filepath.Base(filepath.Dir(path))
		for _, m := range declaration.FindAllSubmatch(text, -1) {
			found[dir] = append(found[dir], string(m[1]))
		}
		return err
	}))
	return found
}

// TestSecretsAreComparedInConstantTime reads the functions that compare a secret: time says too little in a test to measure it.
func TestSecretsAreComparedInConstantTime(t *testing.T) {
	for file, name := range map[string]string{
		"internal/api/access.go": "is", "internal/api/signin.go": "signedIn", "internal/exec/ping/token.go": "Parse",
	} {
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, 0)
		require.NoError(t, err)
		compared := false
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Name.Name != name {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.SelectorExpr:
					compared = compared || n.Sel.Name == "ConstantTimeCompare" || isHMAC(n)
				case *ast.BinaryExpr: // with a literal, or a length: not with what is secret
					if n.Op == token.EQL || n.Op == token.NEQ {
						require.True(t, isPublic(n.X) || isPublic(n.Y), "%s compares in %s", file, name)
					}
				}
				return true
			})
		}
		require.True(t, compared, "%s has no function %s that compares in constant time", file, name)
	}
}

// isHMAC reports whether that is hmac.Equal, which compares in constant time.
func isHMAC(s *ast.SelectorExpr) bool {
	from, ok := s.X.(*ast.Ident)
	return ok && from.Name == "hmac" && s.Sel.Name == "Equal"
}

// isPublic reports whether an operand is a literal, nil, or the length of something.
func isPublic(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.BasicLit:
		return true
	case *ast.Ident:
		return x.Name == "nil"
	case *ast.CallExpr:
		f, ok := x.Fun.(*ast.Ident)
		return ok && f.Name == "len"
	}
	return false
}
