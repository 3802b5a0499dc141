package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Bounds on what is read, checked before anything is parsed.
const (
	maxFileSize = 1 << 20 // bytes of one file
	maxFiles    = 1000
	maxTotal    = 16 << 20 // bytes of all files together
)

// source is one file that was read and parsed.
type source struct {
	name string // as in messages
	dir  string // absolute; relative paths in the file resolve from it
	body *hclsyntax.Body
}

// baseDir is the directory that stands for the whole configuration: that of the first path.
func baseDir(paths []string) string {
	if len(paths) == 0 {
		return absolute(".")
	}
	if info, err := os.Stat(paths[0]); err == nil && info.IsDir() {
		return absolute(paths[0])
	}
	return filepath.Dir(absolute(paths[0]))
}

// absolute is filepath.Abs for paths whose working directory is there; else the path as it is.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// read finds, reads and parses all files. A file that is named twice is read once.
func (l *loader) read(paths []string) []*source {
	if len(paths) == 0 {
		paths = []string{DefaultPath}
	}
	var (
		sources []*source
		total   int
		seen    = make(map[string]bool)
	)
	for _, name := range l.find(paths) {
		if abs := absolute(name); seen[abs] {
			continue
		} else if seen[abs] = true; len(seen) > maxFiles {
			l.failNowhere("Too many files", "A configuration has at most %d files.", maxFiles)
			break
		}
		src, err := readBounded(name, maxFileSize)
		if err != nil {
			l.failNowhere("Cannot read the configuration", "Reading %s: %s.", name, reason(err))
			continue
		}
		if total += len(src); total > maxTotal {
			l.failNowhere("Configuration too large", "The files are larger than %d MiB in total.", maxTotal>>20)
			break
		}
		if body := l.parse(name, src); body != nil {
			sources = append(sources, &source{name: name, dir: filepath.Dir(absolute(name)), body: body})
		}
	}
	return sources
}

// find lists the files that paths stand for: directories stand for the *.hcl in them, sorted by name.
func (l *loader) find(paths []string) []string {
	var names []string
	for _, path := range paths {
		if path == "" { // as of a variable that is not set
			l.failNowhere("No configuration", "The path of a configuration is empty: name a file or a directory.")
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				l.failNowhere("No configuration", "%s does not exist. `leasehold init` writes an example leasehold.hcl; "+
					"`--config PATH` names another file or directory.", path)
			} else {
				l.failNowhere("Cannot read the configuration", "Reading %s: %s.", path, reason(err))
			}
			continue
		}
		if !info.IsDir() {
			names = append(names, path)
			continue
		}
		found, err := inDirectory(path)
		switch {
		case err != nil:
			l.failNowhere("Cannot read the configuration", "Reading the directory %s: %s.", path, reason(err))
		case len(found) == 0:
			l.failNowhere("No configuration", "The directory %s contains no *.hcl file. `leasehold init` writes one.", path)
		}
		names = append(names, found...)
	}
	return names
}

// inDirectory lists the *.hcl files in a directory, without hidden ones (editors keep theirs so).
func inDirectory(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		if !strings.HasSuffix(e.Name(), ".hcl") || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			continue
		}
		names = append(names, name)
	}
	return names, nil
}

// readBounded reads a file of at most limit bytes.
func readBounded(name string, limit int) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	src, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err != nil {
		return nil, err
	}
	if len(src) > limit {
		return nil, fmt.Errorf("larger than %d KiB", limit>>10)
	}
	return src, nil
}

// reason is the cause of a file error without the path, which the message names already.
func reason(err error) string {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err.Error()
	}
	return err.Error()
}

// parse checks the bounds of a file and parses it; nil where it cannot be used.
func (l *loader) parse(name string, src []byte) *hclsyntax.Body {
	l.text[name] = src
	l.order[name] = len(l.order)
	start := hcl.Range{Filename: name, Start: hcl.InitialPos, End: hcl.InitialPos}
	switch {
	case bytes.HasPrefix(src, []byte("\xef\xbb\xbf")):
		l.fail(start, "Byte order mark", "The file begins with a byte order mark. Save it as UTF-8 without one.")
		return nil
	case bytes.IndexByte(src, 0) >= 0:
		l.fail(at(name, src, bytes.IndexByte(src, 0)), "Not a text file", "The file contains a NUL byte. Save it as UTF-8 text.")
		return nil
	case !utf8.Valid(src):
		l.fail(at(name, src, firstInvalid(src)), "Not UTF-8",
			"The file contains bytes that are not UTF-8. Save it as UTF-8 text.")
		return nil
	}
	if d := checkBounds(name, src); d != nil {
		l.diags = append(l.diags, d)
		return nil
	}
	file, diags := hclsyntax.ParseConfig(src, name, hcl.InitialPos)
	if l.take(diags) {
		return nil
	}
	return file.Body.(*hclsyntax.Body) //nolint:forcetypeassert // what ParseConfig documents
}

// at is the range of one byte of a file.
func at(name string, src []byte, offset int) hcl.Range {
	pos := hcl.Pos{Byte: offset, Line: 1 + bytes.Count(src[:offset], []byte("\n")), Column: 1}
	end := pos
	end.Byte++
	end.Column++
	return hcl.Range{Filename: name, Start: pos, End: end}
}

// firstInvalid is the offset of the first byte that is not UTF-8.
func firstInvalid(src []byte) int {
	for i := 0; i < len(src); {
		r, n := utf8.DecodeRune(src[i:])
		if r == utf8.RuneError && n <= 1 {
			return i
		}
		i += n
	}
	return 0
}
