package config

import (
	"cmp"
	"maps"
	"slices"
)

// Problem is one of Problems.
type Problem struct {
	Place string `json:"place,omitempty"` // file:line; "": it stands in no file
	Text  string `json:"text"`            // what is wrong, with the remedy
}

// List returns the problems that are shown, in the order of files and lines.
func (p *Problems) List() []Problem {
	list := make([]Problem, len(p.diags))
	for i, d := range p.diags {
		list[i].Text = d.Summary + "; " + d.Detail
		if d.Subject != nil {
			list[i].Place = place(*d.Subject)
		}
	}
	return list
}

// At returns where an attribute of the agent or the store block stands, as "file:line": the block, where it is left out, and the first file,
// where there is no block.
func (c *Config) At(block, attr string) string {
	return cmp.Or(c.places[block+"."+attr], c.places[block], c.first())
}

func (c *Config) first() string {
	if len(c.Files) == 0 {
		return ""
	}
	return c.Files[0]
}

// Settings returns the agent and the store block as Blocks returns others. Their names are empty.
func (c *Config) Settings() []Block {
	var list []Block
	for _, p := range c.printed {
		if p.header == agentShape().name || p.header == storeShape().name {
			b := Block{Kind: p.header, Fields: map[string]string{}}
			p.flatten("", b.Fields)
			list = append(list, b)
		}
	}
	return list
}

// site notes where the attributes of a block stand that has no label.
func (c *Config) site(b *block) {
	if b.body == nil {
		return
	}
	c.places[b.shape.name] = place(b.rng)
	for name, a := range b.body.Attributes {
		c.places[b.shape.name+"."+name] = place(a.NameRange)
	}
}

// inputs lists all files that were read, those of file(…) last.
func (l *loader) inputs(sources []*source) []string {
	var names []string
	for _, s := range sources {
		names = append(names, absolute(s.name))
	}
	return slices.Concat(names, slices.Sorted(maps.Keys(l.outside.files)))
}

// Inputs lists the files that a configuration at these paths would be read from now, without reading them: what is not there is left out.
func Inputs(paths []string) []string {
	l := newLoader(Options{})
	if len(paths) == 0 {
		paths = []string{DefaultPath}
	}
	var names []string
	for _, name := range l.find(paths) {
		names = append(names, absolute(name))
	}
	return names
}
