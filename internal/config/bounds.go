package config

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Bounds on the shape of a file. HCL's parser and evaluator recurse, and a stack that overflows ends the process
// (hashicorp/hcl#809): over brackets and templates, but also over operators ("!!!!a", "a ? b : c ? d : …", "a + b +
// …"), chains of indexes and splats, and template directives, none of which need a bracket to nest. Each of these takes
// at least one token, so bounding the tokens of one expression bounds them all. HCL's scanner does not recurse.
const (
	maxNesting      = 100  // brackets, braces, parentheses, template sequences
	maxExprTokens   = 8000 // of one attribute's value
	maxNumberLength = 100  // characters of a number
)

// checkBounds looks at the tokens of a file before it is parsed.
func checkBounds(name string, src []byte) *hcl.Diagnostic {
	// Its diagnostics come again from the parser.
	tokens, _ := hclsyntax.LexConfig(src, name, hcl.InitialPos)
	s := boundScanner{closers: closers()}
	for _, t := range tokens {
		if d := s.next(t); d != nil {
			return d
		}
	}
	return nil
}

// closers maps what opens a nesting to what closes it.
func closers() map[hclsyntax.TokenType]hclsyntax.TokenType {
	return map[hclsyntax.TokenType]hclsyntax.TokenType{
		hclsyntax.TokenOBrace:          hclsyntax.TokenCBrace,
		hclsyntax.TokenOBrack:          hclsyntax.TokenCBrack,
		hclsyntax.TokenOParen:          hclsyntax.TokenCParen,
		hclsyntax.TokenOQuote:          hclsyntax.TokenCQuote,
		hclsyntax.TokenOHeredoc:        hclsyntax.TokenCHeredoc,
		hclsyntax.TokenTemplateInterp:  hclsyntax.TokenTemplateSeqEnd,
		hclsyntax.TokenTemplateControl: hclsyntax.TokenTemplateSeqEnd,
	}
}

// boundScanner follows the nesting of tokens. A closer that does not match is passed over: the file is broken, and
// counting too much there is better than losing count.
type boundScanner struct {
	closers map[hclsyntax.TokenType]hclsyntax.TokenType
	open    []hclsyntax.TokenType // closers that are awaited
	inExpr  int                   // how much was open when the expression began
	tokens  int                   // of the expression so far; 0 outside
}

func (s *boundScanner) next(t hclsyntax.Token) *hcl.Diagnostic {
	if c, opens := s.closers[t.Type]; opens {
		if s.open = append(s.open, c); len(s.open) > maxNesting {
			return problem(t.Range, "Nested too deeply", "Brackets, braces and templates may be nested %d deep.",
				maxNesting)
		}
	} else if n := len(s.open); n > 0 && s.open[n-1] == t.Type {
		s.open = s.open[:n-1]
	}
	if t.Type == hclsyntax.TokenNumberLit && (len(t.Bytes) > maxNumberLength || !sane(string(t.Bytes))) {
		return problem(t.Range, "Number out of range", "A number has at most %d characters and an exponent of at most %d.",
			maxNumberLength, maxExponent)
	}
	return s.count(t)
}

// count follows where expressions begin and end: after "=" until the end of the line outside of all that was opened
// since. Whatever the parser makes of a file with mistakes in it, it never reads past these ends as one expression.
func (s *boundScanner) count(t hclsyntax.Token) *hcl.Diagnostic {
	switch {
	case s.tokens == 0 && t.Type == hclsyntax.TokenEqual:
		s.tokens, s.inExpr = 1, len(s.open)
	case s.tokens == 0:
	case len(s.open) < s.inExpr, len(s.open) == s.inExpr && t.Type == hclsyntax.TokenNewline:
		s.tokens = 0
	default:
		if s.tokens++; s.tokens > maxExprTokens {
			return problem(t.Range, "Expression too long", "One value has at most %d tokens.", maxExprTokens)
		}
	}
	return nil
}
