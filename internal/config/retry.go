package config

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/leasehold/leasehold/internal/task"
)

// Bounds of the retry block.
const (
	maxRetries    = 1000
	maxBackoff    = 30 * task.Day
	mostDeferrals = 1_000_000
)

func retryShape() *shape {
	return &shape{
		name:  "retry",
		attrs: []string{"limit", "backoff", "min", "max", "on", "after", "max_deferrals"}, called: calledInRetry(),
	}
}

// retry decodes the retry block in b, which has that shape, or its defaults.
func (b *block) retry(shape *shape) task.Retry {
	hb := b.child("retry")
	sub := b.block(hb, shape)
	b.out.blocks = append(b.out.blocks, sub.out)
	r := task.Retry{
		Limit: sub.num("limit", task.DefaultRetryLimit, 0, maxRetries),
		Backoff: task.Backoff(sub.choice("backoff", string(task.Exponential), string(task.Exponential),
			string(task.Constant))),
	}
	r.Min, r.Max = sub.delays()
	if slices.Contains(shape.attrs, "on") {
		r.On = sub.retryOn()
	}
	r.After = sub.retryAfter(r.On)
	r.MaxDeferrals = sub.num("max_deferrals", task.DefaultMaxDeferrals, 0, mostDeferrals)
	return r
}

// delays reads min and max. Where one is declared beyond the other's default, the other follows it.
func (b *block) delays() (lo, hi time.Duration) {
	lo, given := b.maybeLength("min", task.DefaultRetryMin, 0, maxBackoff)
	hi, bounded := b.maybeLength("max", task.DefaultRetryMax, 0, maxBackoff)
	switch {
	case lo <= hi:
	case !given:
		lo = hi
		b.out.set("min", quote(task.FormatDuration(lo)))
	case !bounded:
		hi = lo
		b.out.set("max", quote(task.FormatDuration(hi)))
	case b.sound("min", "max"):
		b.l.fail(b.at("min"), "Invalid min", "min: it is longer than max (%s).", task.FormatDuration(hi))
	}
	return lo, hi
}

// retryOn reads which verdicts are retried.
func (b *block) retryOn() []task.Verdict {
	allowed := words(task.DefaultOn())
	on := b.strs("on", allowed, func(s string) error {
		if slices.Contains(allowed, s) {
			return nil
		}
		return notOneOf(s, allowed)
	})
	out := make([]task.Verdict, 0, len(on))
	for _, s := range on {
		if v := task.Verdict(s); !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// retryAfter reads the delays of endings that have their own. on is what is retried; nil: all that the attribute may name.
func (b *block) retryAfter(on []task.Verdict) map[task.Verdict]time.Duration {
	if !b.sound("on") {
		on = nil
	}
	g := b.get("after", cty.Map(cty.String))
	out := map[task.Verdict]time.Duration{}
	var items [][2]string
	if g.ok {
		waits := g.v.AsValueMap()
		for _, name := range slices.Sorted(maps.Keys(waits)) {
			wait, err := retryWait(task.Verdict(name), waits[name], on)
			if err != nil {
				b.invalid("after", g.expr.Range(), err)
				continue
			}
			out[task.Verdict(name)] = wait
			items = append(items, [2]string{name, quote(task.FormatDuration(wait))})
		}
	}
	b.print("after", g, mapOf(items))
	if len(out) == 0 {
		return nil
	}
	return out
}

// retryWait reads one of these delays.
func retryWait(v task.Verdict, wait cty.Value, on []task.Verdict) (time.Duration, error) {
	switch allowed := words(task.DefaultOn()); {
	case !slices.Contains(allowed, string(v)):
		return 0, notOneOf(string(v), allowed)
	case on != nil && !slices.Contains(on, v):
		return 0, fmt.Errorf("%s is not retried: add it to on, or remove it here", v)
	case wait.IsNull():
		return 0, fmt.Errorf("%s has no duration: write a string with a unit (ms, s, m, h, d)", v)
	}
	d, err := parseLength(wait.AsString(), 0, maxBackoff)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", v, err)
	}
	return d, nil
}

func words[S ~string](list []S) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = string(s)
	}
	return out
}
