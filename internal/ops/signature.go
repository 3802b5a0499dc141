package ops

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/leasehold/leasehold/internal/task"
)

// maxSignature is how many characters of an error are read: what follows distinguishes failures of one kind, not kinds.
const maxSignature = 240

// Signature returns what errors of one kind have in common: the error on one line, without what differs from task to task.
// Numbers and ids become "#", text in quotes "…", and the number of attempts is left out. What distinguishes kinds stays: the
// status of a response, an exit code, the names of a JSON document's members and its words.
func Signature(text string) string {
	text = dropAttempt(OneLine(text, maxSignature))
	s := signature{text: text, json: len(text)}
	if i := strings.IndexAny(text, "{["); i >= 0 && i+1 < len(text) && strings.ContainsRune(`"{[`, rune(text[i+1])) {
		s.json = i
	}
	for s.at < len(s.text) {
		s.next()
	}
	return OneLine(s.out.String(), maxSignature)
}

// NamedSignature is Signature, and "no reason given" where that is empty.
func NamedSignature(text string) string { return cmp.Or(Signature(text), "no reason given") }

// dropAttempt leaves out how often a task was tried: "attempt 3 of 3 failed: no such host" and "no such host" are alike.
// Any other end than a plain failure stays.
func dropAttempt(text string) string {
	what, rest := "", text
	if after, ok := strings.CutPrefix(rest, "rollback attempt "); ok {
		what, rest = "rollback ", "attempt "+after
	}
	words := strings.SplitN(rest, " ", 5) // attempt 3 of 3 failed: …
	if len(words) < 5 || words[0] != "attempt" || words[2] != "of" || !isNumber(words[1]) || !isNumber(words[3]) {
		return text
	}
	if reason, ok := strings.CutPrefix(words[4], "failed: "); ok {
		return what + reason
	}
	return what + words[4]
}

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// signature reads a text from left to right.
type signature struct {
	text string
	at   int // the next byte
	json int // where a JSON document begins: quotes are its own from there on
	out  strings.Builder
	last string // the word before, for those numbers that mean something
}

// next takes in a word, a quoted part, or one other character.
func (s *signature) next() {
	rest := s.text[s.at:]
	if isUUID(rest) {
		s.at += uuidLength
		s.put("#")
		return
	}
	if n := wordLength(rest); n > 0 {
		word := rest[:n]
		s.at += n
		if s.meant() {
			s.out.WriteString(word)
		} else {
			s.put(shape(word))
		}
		s.last = word
		return
	}
	r, size := utf8.DecodeRuneInString(rest)
	if n := s.quoted(r, rest[size:]); n > 0 {
		s.at += size + n
		s.out.WriteString(string(r) + "…" + string(r))
		return
	}
	s.at += size
	s.out.WriteRune(r)
}

// meant reports whether the number that follows says what went wrong.
func (s *signature) meant() bool {
	switch s.last {
	case "answered", "code", "signal", "status", "HTTP", "SQLSTATE":
		return true
	}
	return false
}

// quoted is the length of what stands in quotes after the quote r, the closing one with it; 0: it does not quote. An
// apostrophe within a word does not.
func (s *signature) quoted(r rune, rest string) int {
	if r != '"' && r != '\'' && r != '`' || s.at >= s.json {
		return 0
	}
	if before, _ := utf8.DecodeLastRuneInString(s.text[:s.at]); isWord(before) {
		return 0
	}
	for from := 0; ; {
		i := strings.IndexRune(rest[from:], r)
		if i < 0 {
			return 0
		}
		end := from + i + 1
		if after, _ := utf8.DecodeRuneInString(rest[end:]); !isWord(after) && !strings.HasSuffix(rest[:end-1], `\`) {
			return end
		}
		from = end
	}
}

// put writes part of a signature; numbers that only a sign parts, as in 10.0.0.1:80 or 2026-11-20, are one.
func (s *signature) put(part string) {
	if strings.HasPrefix(part, "#") {
		if b := s.out.String(); len(b) > 1 && b[len(b)-2] == '#' && strings.IndexByte(".,:-/", b[len(b)-1]) >= 0 {
			s.out.Reset()
			s.out.WriteString(b[:len(b)-2])
		}
	}
	s.out.WriteString(part)
}

// shape is a word without its numbers; ids, which are all number, are "#".
func shape(word string) string {
	const hexID, mixedID, mixedDigits = 8, 16, 3 // as 3f2a9c1b; as 01JD2XK7V9QWERTY, or base64
	digits := strings.Count(strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return '0'
		}
		return r
	}, word), "0")
	switch {
	case digits == 0:
		return word
	case len(word) >= hexID && strings.Trim(word, "0123456789abcdefABCDEFx") == "", len(word) >= mixedID && digits >= mixedDigits:
		return "#"
	}
	var b strings.Builder
	var number bool
	for _, r := range word {
		if is := unicode.IsDigit(r); !is {
			b.WriteRune(r)
			number = false
		} else if !number {
			b.WriteByte('#')
			number = true
		}
	}
	return b.String()
}

// wordLength is how many bytes of s are letters, digits and underscores.
func wordLength(s string) int {
	for i, r := range s {
		if !isWord(r) {
			return i
		}
	}
	return len(s)
}

func isWord(r rune) bool {
	return r != utf8.RuneError && (r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r))
}

const uuidLength = 36

func isUUID(s string) bool {
	if len(s) < uuidLength || wordLength(s) != len("3f2a9c1b") || wordLength(s[24:]) != len("9c1b3f2a9c1b") {
		return false
	}
	for i, c := range []byte(s[:uuidLength]) {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		if dash != (c == '-') || !dash && strings.IndexByte("0123456789abcdefABCDEF", c) < 0 {
			return false
		}
	}
	return true
}

// FailureGroup is how many tasks of a batch went wrong in one way.
type FailureGroup struct {
	Signature string  `json:"signature"` // the error, numbers and quoted parts left out
	N         int64   `json:"n"`
	Example   task.ID `json:"example"` // one of them
	Error     string  `json:"error"`   // that task's error
}

// Failures groups what went wrong by its Signature. The zero value is empty.
type Failures struct {
	groups map[string]*FailureGroup
	order  []string
}

// Add counts the failure of one task. The first of each kind is its example.
func (f *Failures) Add(id task.ID, text string) {
	sign := NamedSignature(text)
	if f.groups == nil {
		f.groups = make(map[string]*FailureGroup)
	}
	g := f.groups[sign]
	if g == nil {
		g = &FailureGroup{Signature: sign, Example: id, Error: text}
		f.groups[sign], f.order = g, append(f.order, sign)
	}
	g.N++
}

// Groups gives at most limit kinds, the commonest first; of those alike, the one that was added first.
func (f *Failures) Groups(limit int) []FailureGroup {
	groups := make([]FailureGroup, 0, len(f.order))
	for _, sign := range f.order {
		groups = append(groups, *f.groups[sign])
	}
	slices.SortStableFunc(groups, func(a, b FailureGroup) int { return cmp.Compare(b.N, a.N) })
	return groups[:min(max(limit, 0), len(groups))]
}
