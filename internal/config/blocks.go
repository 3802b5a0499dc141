package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// mostOfField bounds what is shown of one attribute; the rest is a digest of all of it.
const mostOfField = 4 << 10

// Block is a block as others see it: each attribute by its path, as an expression of HCL.
type Block struct {
	Kind, Name string // as in: task "mail"
	Fields     map[string]string
}

// Blocks returns the task, schedule and chunks blocks as they are shown: with their defaults, and without secrets.
func (c *Config) Blocks() []Block {
	var list []Block
	for _, p := range c.printed {
		kind, label, labelled := strings.Cut(p.header, " ")
		if !labelled {
			continue // agent, store
		}
		b := Block{Kind: kind, Name: labelOf(label), Fields: map[string]string{}}
		p.flatten("", b.Fields)
		list = append(list, b)
	}
	return list
}

// labelOf is the string that quote has written.
func labelOf(label string) string {
	expr, diags := hclsyntax.ParseExpression([]byte(label), "", hcl.InitialPos)
	if diags.HasErrors() {
		return label
	}
	text, _ := literal(expr)
	return text
}

// ofAgent notes of an attribute whose default is the agent's number of workers that it is not part of what is declared, unless it is set: agents of
// different sizes, and observers, declare the same.
func (b *block) ofAgent(name string) {
	if b.attr(name) != nil {
		return
	}
	if b.out.agents == nil {
		b.out.agents = map[string]bool{}
	}
	b.out.agents[name] = true
}

// flatten adds the attributes by their paths.
func (p *printed) flatten(path string, into map[string]string) {
	for _, a := range p.attrs {
		if p.agents[a[0]] {
			continue
		}
		into[path+a[0]] = shortened(a[1])
	}
	for _, sub := range p.blocks {
		sub.flatten(path+sub.header+".", into)
	}
}

// shortened cuts an expression that is too long to be kept, so that it still differs from others.
func shortened(expr string) string {
	if len(expr) <= mostOfField {
		return expr
	}
	end := mostOfField
	for end > 0 && !utf8.RuneStart(expr[end]) {
		end--
	}
	sum := sha256.Sum256([]byte(expr))
	return fmt.Sprintf("%s… (%d bytes, sha256 %s)", expr[:end], len(expr), hex.EncodeToString(sum[:6]))
}
