package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Bounds of redact.
const (
	maxRedacted     = 100 // names
	maxRedactedName = 255 // bytes
)

// redact reads the names of the members that are masked where tasks of a type are shown.
func (b *block) redact() []string {
	if b.attr("redact") == nil {
		return nil
	}
	var seen []string
	names := b.strs("redact", []string{}, func(name string) error {
		seen = append(seen, name)
		switch {
		case name == "":
			return errors.New(`a name is empty: write the name of a member of the payload, as in redact = ["card"]`)
		case len(name) > maxRedactedName:
			return fmt.Errorf("%q: a name has at most %d bytes", shorten(name, 40), maxRedactedName)
		case !utf8.ValidString(name) || strings.Contains(name, "\x00"):
			return fmt.Errorf("%q: a name must not contain NUL", name)
		case slices.Contains(seen[:len(seen)-1], name):
			return fmt.Errorf("%q is there twice", name)
		}
		return nil
	})
	if len(names) > maxRedacted {
		b.invalid("redact", b.at("redact"), fmt.Errorf("%d names: at most %d are allowed", len(names), maxRedacted))
	}
	return names
}

// isHidden reports whether literals in a member are not shown: its name says that it is secret, or tasks of the type redact it.
func (b *block) isHidden(member string) bool {
	return isSecretName(member) || slices.Contains(b.redacted, member)
}

// memberName is the name of a member as it is written out, as far as it is.
func (s *scope) memberName(item hclsyntax.ObjectConsItem) string {
	if v, diags := item.KeyExpr.Value(nil); !diags.HasErrors() {
		if name, err := stringOf(v); err == nil {
			return name
		}
	}
	return strings.Trim(s.text(item.KeyExpr.Range()), `"`)
}
