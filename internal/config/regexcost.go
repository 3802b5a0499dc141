package config

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/zclconf/go-cty/cty"
)

// Bounds on what a regular expression may cost. Go's matcher is linear in the text, but each character may cost as much
// as the compiled pattern is long, and to look for all matches may be quadratic; nothing can interrupt it. So the work is
// bounded before it begins, and the same row always ends the same: 16 million steps take about half a second.
const (
	maxPattern = 2 << 10 // bytes
	maxSteps   = 16 << 20
)

var errSteps = fmt.Errorf("this text is too long for this pattern: matching it could take more than %d million steps",
	maxSteps>>20)

// pattern is a regular expression and what it costs.
type pattern struct {
	re     *syntax.Regexp
	weight int // steps for each character
}

// newPattern looks at a pattern. One that is wrong costs nothing: the function itself says what is wrong with it.
func newPattern(text string) (p pattern, ok bool, err error) {
	if len(text) > maxPattern {
		return p, false, fmt.Errorf("a pattern has at most %d bytes", maxPattern)
	}
	re, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return p, false, nil //nolint:nilerr // see above
	}
	captures := re.MaxCap()
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		return p, false, nil //nolint:nilerr // see above
	}
	return pattern{re: re, weight: len(prog.Inst) * (1 + captures/4)}, true, nil
}

// regexCost bounds the search for one match.
func regexCost(args []cty.Value) (int, error) {
	p, ok, err := newPattern(stringAt(args, 0))
	if err != nil || !ok {
		return 0, err
	}
	if n := len(stringAt(args, 1)) + 1; n > maxSteps/p.weight {
		return 0, errSteps
	}
	return 0, nil
}

// regexReplaceCost counts every match, and the whole string once for each group that is mentioned: matches do not
// overlap. How many matches there are is found out within the bound.
func regexReplaceCost(args []cty.Value) (int, error) {
	s, text, repl := stringAt(args, 0), stringAt(args, 1), stringAt(args, 2)
	p, ok, err := newPattern(text)
	if err != nil || !ok {
		return 0, err
	}
	n := len(s) + 1
	left := maxSteps/p.weight - n // characters that may be read more than once
	if left < 0 {
		return 0, errSteps
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return 0, errors.New("the pattern is not a regular expression")
	}
	most := min(left/max(min(lookahead(p.re, true), n), 1), maxValueElements*100)
	matches := len(re.FindAllStringIndex(s, most+1))
	if matches > most {
		return 0, errSteps
	}
	return len(s)*(1+strings.Count(repl, "$")) + matches*len(repl), nil
}

// lookahead is how many characters after the start of a match may be read before it is certain; whole: re is all of the
// pattern, and a repetition of single characters ends with the first that does not fit.
func lookahead(re *syntax.Regexp, whole bool) int {
	const endless = math.MaxInt32
	one := func(re *syntax.Regexp) bool {
		return re.Op == syntax.OpCharClass || re.Op == syntax.OpAnyChar || re.Op == syntax.OpAnyCharNotNL ||
			re.Op == syntax.OpLiteral && len(re.Rune) == 1
	}
	sum, longest := 1, 0
	for _, sub := range re.Sub {
		n := lookahead(sub, false)
		sum, longest = min(sum+n, endless), max(longest, n)
	}
	switch re.Op {
	case syntax.OpLiteral:
		return len(re.Rune) + 1
	case syntax.OpConcat:
		return sum
	case syntax.OpAlternate, syntax.OpCapture, syntax.OpQuest:
		return longest
	case syntax.OpRepeat:
		if re.Max >= 0 {
			return min(longest*re.Max+1, endless)
		}
		return endless
	case syntax.OpStar, syntax.OpPlus:
		if whole && one(re.Sub[0]) {
			return 2
		}
		return endless
	}
	return 2
}
