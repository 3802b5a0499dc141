package answer

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/leasehold/leasehold/internal/task"
)

// Bounds of what is read and kept of a page, in bytes.
const (
	mostPage  = 64 << 10
	mostTitle = 160
)

const byteOrderMark = "\ufeff" // before UTF-8

// Words says on one line, of at most MaxLine bytes, what a body says about an error. media is its type, without parameters and in lower case.
// Of a page of HTML, as applications and proxies answer with to a browser, that is the title and the beginning of the text.
func Words(media string, body []byte) string {
	if isPage(media, body) {
		return page(bytes.TrimPrefix(body, []byte(byteOrderMark)))
	}
	return Line(string(body))
}

// isPage reports whether a body is a page of HTML, by its type or by how it begins.
func isPage(media string, body []byte) bool {
	if media == "text/html" || media == "application/xhtml+xml" {
		return true
	}
	body = bytes.TrimLeft(bytes.TrimPrefix(body, []byte(byteOrderMark)), " \t\r\n\f")
	for _, start := range []string{"<!doctype", "<html"} {
		if len(body) >= len(start) && strings.EqualFold(string(body[:len(start)]), start) {
			return true
		}
	}
	return false
}

// page is what a page says: its title, and its text unless that begins with it.
func page(body []byte) string {
	r := reading{title: collector{most: mostTitle}, text: collector{most: MaxLine}}
	r.read(html.NewTokenizer(bytes.NewReader(body[:min(len(body), mostPage)])))
	title, text := r.title.text(), r.text.text()
	switch {
	case title == "" || strings.HasPrefix(text, title):
		return Line(text)
	case text == "":
		return Line(title)
	}
	return Line(title + ": " + text)
}

// reading reads the tags of a page one after another, and builds no tree: neither nesting nor tags that are not closed matter.
type reading struct {
	title, text collector

	within atom.Atom // the element whose tag came last
	hidden atom.Atom // an element of which nothing is shown
	depth  int       // of hidden within itself; 0: not in it
}

func (r *reading) read(z *html.Tokenizer) {
	for !r.text.full() {
		switch z.Next() {
		case html.ErrorToken: // its end
			return
		case html.TextToken:
			r.add(z)
		case html.StartTagToken:
			r.begin(tagOf(z))
		case html.EndTagToken:
			r.end(tagOf(z))
		case html.SelfClosingTagToken:
			r.tag(tagOf(z))
		}
	}
}

func tagOf(z *html.Tokenizer) atom.Atom {
	name, _ := z.TagName()
	return atom.Lookup(name)
}

// add takes in a text.
func (r *reading) add(z *html.Tokenizer) {
	switch {
	case r.depth > 0 || isSilent(r.within):
	case r.within == atom.Title:
		r.title.add(z.Text())
	default:
		r.text.add(z.Text())
	}
}

func (r *reading) tag(tag atom.Atom) {
	r.within = 0
	if !isInline(tag) {
		r.text.gap = true
	}
}

func (r *reading) begin(tag atom.Atom) {
	r.tag(tag)
	r.within = tag
	switch {
	case r.depth > 0 && tag == r.hidden:
		r.depth++
	case r.depth == 0 && (tag == atom.Svg || tag == atom.Template):
		r.hidden, r.depth = tag, 1
	}
}

func (r *reading) end(tag atom.Atom) {
	r.tag(tag)
	if r.depth > 0 && tag == r.hidden {
		r.depth--
	}
}

// isSilent reports whether an element's text is not shown.
func isSilent(tag atom.Atom) bool {
	switch tag {
	case atom.Script, atom.Style, atom.Noscript, atom.Iframe, atom.Noembed, atom.Noframes:
		return true
	}
	return false
}

// isInline reports whether an element is within a word or a line: its tags do not separate words.
func isInline(tag atom.Atom) bool {
	switch tag {
	case atom.A, atom.Abbr, atom.B, atom.Bdi, atom.Bdo, atom.Cite, atom.Code, atom.Em, atom.Font, atom.I, atom.Kbd, atom.Mark, atom.Q, atom.S,
		atom.Samp, atom.Small, atom.Span, atom.Strong, atom.Sub, atom.Sup, atom.U, atom.Var, atom.Wbr:
		return true
	}
	return false
}

// collector collects text with one space between words, until it has a little more than most bytes.
type collector struct {
	most int
	gap  bool
	kept []byte
}

func (c *collector) full() bool { return len(c.kept) > c.most }

func (c *collector) add(text []byte) {
	for len(text) > 0 && !c.full() {
		r, n := utf8.DecodeRune(text)
		text = text[n:]
		if unicode.IsSpace(r) || unicode.IsControl(r) {
			c.gap = true
			continue
		}
		if c.gap && len(c.kept) > 0 {
			c.kept = append(c.kept, ' ')
		}
		c.gap = false
		c.kept = utf8.AppendRune(c.kept, r)
	}
}

// text is what was collected, cut to most bytes.
func (c *collector) text() string { return task.Text(string(c.kept), c.most) }
