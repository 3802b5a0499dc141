package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// functions are what templates call.
func functions() template.FuncMap {
	return template.FuncMap{
		"age":       ops.Age,
		"duration":  ops.Duration,
		"thousands": ops.Thousands,
		"tasks":     ops.Tasks,
		"percent":   ops.Percent,
		"speed":     ops.Speed,
		"ago":       ago,
		"full":      ops.Time,
		"words":     words,
		"tone":      tone,
		"line":      func(s string) string { return ops.OneLine(s, mostLine) },
		"text":      ops.Printable,
		"pretty":    pretty,
		"escape":    url.PathEscape,
		"shell":     ops.ShellQuote,
		"more":      more,
		"dict":      dict,
		"asset":     assetPath,
		"key":       chunkKey,
		"long":      func(n int) int64 { return int64(n) },
		"minus":     func(a, b float64) float64 { return a - b },
		"has":       slices.Contains[[]store.BatchState],
		// query is for what url.Values has encoded.
		"query": func(s string) template.URL { return template.URL(s) }, //nolint:gosec // see above
		// barwidth is the width of one of n bars beside each other, with a gap.
		"barwidth": func(n int) float64 { return lineWidth / float64(n) * 0.85 },
	}
}

const mostLine = 160 // characters of a line in a table

// ago is how long before or after now a time is: "3m ago", "in 5h". It takes a time, or what points to one.
func ago(now time.Time, at any) string {
	var t time.Time
	switch at := at.(type) {
	case time.Time:
		t = at
	case *time.Time:
		if at != nil {
			t = *at
		}
	}
	switch {
	case t.IsZero():
		return ""
	case t.After(now):
		return "in " + ops.Age(t.Sub(now))
	}
	return ops.Age(now.Sub(t)) + " ago"
}

// words is a state as people read it: "retry pending".
func words(state any) string { return strings.ReplaceAll(fmt.Sprint(state), "_", " ") }

// tone is the class of what shows a state.
func tone(state any) string {
	switch s := state.(type) {
	case task.State:
		return taskTone(s)
	case store.BatchState:
		return map[ops.Tone]string{ops.UnderWay: "busy", ops.Good: "good", ops.Bad: "bad"}[ops.BatchTone(s)]
	case task.Verdict:
		return outcomeTone(s)
	case store.AgentState:
		return map[store.AgentState]string{
			store.AgentWorking: "good", store.AgentAbsent: "bad", store.AgentCordoned: "warn", store.AgentDraining: "warn",
		}[s]
	case ops.Severity:
		return map[ops.Severity]string{ops.Problem: "bad", ops.Notice: "warn"}[s]
	case store.SequenceState:
		return map[store.SequenceState]string{store.SequenceRunning: "busy", store.SequenceBlocked: "bad"}[s]
	case store.ChunkPlanState:
		return map[store.ChunkPlanState]string{
			store.ChunksPlanning: "busy", store.ChunksStopped: "bad", store.ChunksPaused: "warn", store.ChunksParked: "warn",
		}[s]
	}
	return ""
}

func taskTone(s task.State) string {
	switch {
	case s == task.StateCancelled:
		return "warn"
	case s == task.StateRetryPending:
		return "warn"
	case s.Running():
		return "busy"
	case s.Waiting(), s == task.StateSplit:
		return "calm"
	}
	return map[ops.Tone]string{ops.Good: "good", ops.Bad: "bad"}[ops.ToneOf(s)]
}

func outcomeTone(v task.Verdict) string {
	switch {
	case v == task.Succeeded:
		return "good"
	case v.Releases():
		return "calm"
	}
	return "bad"
}

// pretty is a document with its members on lines of their own. What is no JSON stays as it is.
func pretty(doc json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, doc, "", "  ") != nil {
		return ops.Printable(string(doc))
	}
	return ops.Printable(b.String())
}

// more marks a count that is a lower bound.
func more(n int64, capped bool) string {
	if capped {
		return ops.Thousands(n) + "+"
	}
	return ops.Thousands(n)
}

// chunkKey is the end of a range; "" where it is open.
func chunkKey(k *store.ChunkKey) string {
	if k == nil {
		return ""
	}
	return ops.OneLine(string(*k), mostLine)
}

// dict makes a map of names and values in turn: templates take one argument.
func dict(pairs ...any) (map[string]any, error) {
	m := make(map[string]any, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("dict: %v is no name", pairs[i])
		}
		m[name] = pairs[i+1]
	}
	return m, nil
}

// share is a share of tasks, from the progress that a task has reported; ok is false where it is no share.
func share(doc json.RawMessage) (part float64, ok bool) {
	var count struct{ Done, Total float64 }
	switch {
	case len(doc) == 0:
		return 0, false
	case json.Unmarshal(doc, &part) == nil:
	case json.Unmarshal(doc, &count) == nil && count.Total > 0:
		part = count.Done / count.Total
	default:
		return 0, false
	}
	return min(max(part, 0), 1), true
}
