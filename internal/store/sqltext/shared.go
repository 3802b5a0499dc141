package sqltext

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// Shared are pieces of SQL that several texts have in common, by name. A text includes one by {name}, or by {name x=y z=w}
// if the piece has parameters: {x} and {z} in the piece become y and w. So a rule that a hot statement has to spell out is
// written once, in a file of its own, and so is the list of columns that several statements move.
type Shared map[string]string

// LoadShared reads the files that match the pattern. Each is one piece, which has the file's name. Lines that are comments
// alone explain the file, and are left out.
func LoadShared(files fs.FS, pattern string) (Shared, error) {
	found, err := fs.Glob(files, pattern)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no file matches %s", pattern)
	}
	s := Shared{}
	for _, file := range found {
		text, err := fs.ReadFile(files, file)
		if err != nil {
			return nil, err
		}
		s[strings.TrimSuffix(path.Base(file), ".sql")] = strings.TrimSpace(commentLine.ReplaceAllString(string(text), ""))
	}
	return s, nil
}

var (
	commentLine = regexp.MustCompile(`(?m)^\s*--.*\n`)
	inclusion   = regexp.MustCompile(`\{(\w+)((?: \w+=[^\s{}]+)*)\}`)
	parameter   = regexp.MustCompile(`(\w+)=(\S+)`)
)

// Expand returns the text with all pieces that it includes, and that those include, but none itself. Names in braces that are no
// pieces stay.
func (s Shared) Expand(text string) string {
	return inclusion.ReplaceAllStringFunc(text, func(found string) string {
		parts := inclusion.FindStringSubmatch(found)
		piece, ok := s[parts[1]]
		if !ok {
			return found
		}
		for _, p := range parameter.FindAllStringSubmatch(parts[2], -1) {
			piece = strings.ReplaceAll(piece, "{"+p[1]+"}", p[2])
		}
		return s.Expand(piece)
	})
}
