package config

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/leasehold/leasehold/internal/task"
)

// maxGrace bounds cancel_grace and stop_grace.
const maxGrace = time.Hour

func webhookShape() *shape {
	return &shape{
		name: "webhook",
		attrs: []string{
			"url", "method", "headers", "secret", "body", "idempotency_key", "permanent", "async", "cancel_grace",
		},
		blocks: []string{"batch"},
		called: calledInWebhook(),
	}
}

func (b *block) webhook() *task.Webhook {
	target, host := b.webhookURL()
	w := &task.Webhook{
		URL:    target,
		Method: b.choice("method", "POST", "POST", "PUT", "PATCH"),
	}
	b.l.hosts[w] = host
	w.Headers = b.headers()
	w.Secrets = b.signingSecrets("secret")
	w.Body = task.Body(b.choice("body", string(task.BodyEnvelope), string(task.BodyEnvelope), string(task.BodyPayload)))
	w.IdempotencyKey = b.boolean("idempotency_key", false)
	for name := range w.Headers {
		if w.IdempotencyKey && strings.EqualFold(name, "Idempotency-Key") {
			b.invalid("headers", b.at("headers"), errors.New("idempotency_key = true already sends Idempotency-Key"))
		}
	}
	w.Permanent = b.statuses()
	if slices.Contains(b.shape.attrs, "async") {
		w.Async = b.boolean("async", false)
	}
	w.CancelGrace = b.length("cancel_grace", task.DefaultGrace, 0, maxGrace)
	w.Batch = b.batch(w)
	return w
}

// webhookURL compiles the URL; nil where problems were noted. host is where it leads.
func (b *block) webhookURL() (_ task.Template, host string) {
	a := b.attr("url")
	if a == nil {
		b.l.fail(b.rng, "Missing url", "A webhook needs a url, as in url = \"http://127.0.0.1:8080/tasks\".")
		return nil, ""
	}
	b.hide(a.Expr, false)
	t, c, ok := b.template(a.Expr)
	if !ok {
		return nil, ""
	}
	out, ok := b.urlTemplate(t)
	if !ok {
		return nil, ""
	}
	if !t.isFixed() && b.child("batch") != nil {
		b.invalid("url", a.Expr.Range(), errBatchRow)
	}
	b.out.add("url", b.templateSource(a.Expr, c, t, "url"))
	if u, err := url.Parse(t.prefix()); err == nil {
		host = u.Hostname()
	}
	return out, host
}

// headers compiles the declared headers.
func (b *block) headers() map[string]task.Template {
	return b.templates(rowStrings{
		name: "headers", limit: maxHeader, checkKey: checkHeaderName, checkValue: checkHeaderValue, same: strings.ToLower,
		checkRow: func(string) error {
			if b.child("batch") != nil {
				return errBatchRow
			}
			return nil
		},
	})
}

var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$") // token of RFC 9110

// ours are the headers that the agent or HTTP itself sets; so are those that begin with webhook- and leasehold-.
func ours() []string {
	return []string{
		"content-type", "content-length", "content-encoding", "transfer-encoding", "host", "connection", "keep-alive",
		"proxy-connection", "te", "trailer", "upgrade", "expect", "traceparent", "tracestate",
	}
}

func checkHeaderName(name string) error {
	lower := strings.ToLower(name)
	switch {
	case !headerName.MatchString(name):
		return fmt.Errorf("%q is not a valid name of a header", name)
	case slices.Contains(ours(), lower), strings.HasPrefix(lower, "webhook-"), strings.HasPrefix(lower, "leasehold-"):
		return fmt.Errorf("%s is set by the agent and cannot be declared", name)
	}
	return nil
}

// checkHeaderValue refuses what would end the header's line.
func checkHeaderValue(s string) error {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return errors.New("a header's value must not contain line breaks or control characters")
		}
	}
	return nil
}

// statuses reads the statuses that are rejected rather than failed.
func (b *block) statuses() []int {
	g := b.get("permanent", cty.List(cty.Number))
	out, items := []int{}, []string{}
	if g.ok {
		for _, v := range g.v.AsValueSlice() {
			n, err := 0, errors.New("an item is null")
			if !v.IsNull() {
				if n, err = whole(v, 300, 599); err != nil {
					err = errors.New("it must be a status from 300 to 599")
				}
			}
			if err != nil {
				b.invalid("permanent", g.expr.Range(), err)
				continue
			}
			out = append(out, n)
			items = append(items, strconv.Itoa(n))
		}
	}
	b.print("permanent", g, listOf(items))
	return out
}

// object takes an attribute's object apart; ok is false where it is none.
func object(expr hclsyntax.Expression) (items []hclsyntax.ObjectConsItem, ok bool) {
	o, ok := unwrap(expr).(*hclsyntax.ObjectConsExpr)
	if !ok {
		return nil, false
	}
	return o.Items, true
}
