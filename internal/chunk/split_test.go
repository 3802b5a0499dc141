package chunk_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/chunk"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// oneChunk knows one chunk.
type oneChunk struct {
	c   *store.ChunkTask
	err error
}

func (o oneChunk) ChunkTask(context.Context, task.ID) (*store.ChunkTask, error) { return o.c, o.err }

func TestASplitterSplitsWhatItsPlansCut(t *testing.T) {
	src := &ints{todo: map[int]bool{}}
	for k := range 100 {
		src.todo[k] = true
	}
	opened := 0
	var openErr error
	plan := chunk.Plan{
		Declaration: store.ChunkDeclaration{Spec: store.ChunkSpec{Name: "p", Task: "a", Table: "event", Key: "id"}},
		Open: func() (chunk.Source, error) {
			opened++
			return src, openErr
		},
	}
	through := chunk.Key("49")
	about := func(change func(*store.ChunkTask)) *store.ChunkTask {
		c := &store.ChunkTask{Plan: "p", Table: "event", Key: "id", Range: chunk.Range{Through: &through}, Rows: 51, Stuck: 1}
		change(c)
		return c
	}
	split := func(o oneChunk) *task.Split {
		s := chunk.NewSplitter(o, []chunk.Plan{plan}, slog.New(slog.DiscardHandler))
		require.True(t, s.MaySplit("a"))
		require.False(t, s.MaySplit("b"))
		return s.Split(t.Context(), &task.Task{ID: 1, Type: "a"})
	}
	require.Equal(t, &task.Split{At: "24", Rows: [2]int{25, 26}}, split(oneChunk{c: about(func(*store.ChunkTask) {})}))
	require.Equal(t, 1, opened)
	for name, o := range map[string]oneChunk{
		"no chunk":         {err: store.ErrNoChunk},
		"the first time":   {c: about(func(c *store.ChunkTask) { c.Stuck = 0 })},
		"of another agent": {c: about(func(c *store.ChunkTask) { c.Plan = "q" })},
		"of another table": {c: about(func(c *store.ChunkTask) { c.Table = "other" })},
		"of another key":   {c: about(func(c *store.ChunkTask) { c.Key = "at" })},
		"out of reach":     {err: errors.New("no answer")},
	} {
		require.Nil(t, split(o), name)
	}
	require.Equal(t, 1, opened, "no connection without need")
	one := chunk.Key("0")
	require.Nil(t, split(oneChunk{c: about(func(c *store.ChunkTask) { c.Range.Through = &one })}), "one row")
	openErr = errors.New("no such host")
	require.Nil(t, split(oneChunk{c: about(func(*store.ChunkTask) {})}), "the source is out of reach")
}
