package task

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/agext/levenshtein"
)

// typeName is what types are called: it stands in URLs, headers, metrics and logs.
var typeName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$`)

// CheckTypeName returns an error where no configuration can declare a type of that name, nor an alias.
func CheckTypeName(s string) error {
	if !typeName.MatchString(s) {
		return fmt.Errorf("%q: the name of a type has at most 128 letters, digits and . _ - : /, "+
			"and starts with a letter or digit", s)
	}
	return nil
}

// Nearest returns the candidate that is nearest to a name; "" where none is near.
func Nearest(name string, candidates []string) string {
	best, distance := "", 1+len(name)/3
	for _, c := range candidates {
		if strings.EqualFold(c, name) {
			return c
		}
		// What has no character in common with a short name is not near.
		if d := levenshtein.Distance(name, c, nil); d <= distance && d < len(name) && (best == "" || d < distance) {
			best, distance = c, d
		}
	}
	return best
}
