package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/leasehold/leasehold/examples/internal/stage"
)

// hang has a task hang that may take ten minutes, and shows that it is caught by its silence.
func (d *demo) hang(ctx context.Context) error {
	d.Say("Progress. photos.scan may take ten minutes, but has to report progress every second:")
	id, err := d.enqueue(ctx, "photos.scan", "will report 2 photos, and hang at the third")
	if err != nil {
		return err
	}
	d.want(id, "failed", 1, "stalled")
	if err := d.awaitAll(ctx); err != nil {
		return err
	}
	t, err := d.task(ctx, id)
	if err != nil {
		return err
	}
	took := t.FinishedAt.Sub(t.ClaimedAt)
	d.Line("It reported %d of %d, and then nothing: it was stopped %.1f s after its start.",
		t.Progress.Done, t.Progress.Total, took.Seconds())
	if took > 10*time.Second {
		return fmt.Errorf("a task that hung was caught only after %s", took)
	}
	return nil
}

const pages = 40 // of files/import.sh

// cutOff kills the agent while it runs a task half-way, and shows that the next attempt goes on from there.
func (d *demo) cutOff(ctx context.Context) error {
	d.Say("A longer task keeps a checkpoint, and is cut off:")
	id, err := d.enqueue(ctx, "book.import", fmt.Sprintf("will import %d pages, and report each", pages))
	if err != nil {
		return err
	}
	d.want(id, "succeeded", 2, "lost", "succeeded")
	if err := stage.Until(ctx, "some pages were noted", func() bool {
		at, err := d.task(ctx, id)
		return err == nil && at.Checkpoint >= pages/4
	}); err != nil {
		return err
	}
	killed := time.Now()
	if err := d.agent.Kill(ctx); err != nil {
		return err
	}
	if err := d.outlived(ctx, killed); err != nil {
		return err
	}
	if err := d.startAgent(ctx); err != nil {
		return err
	}
	if err := d.awaitAll(ctx); err != nil {
		return err
	}
	return d.showResumed()
}

// outlived waits until no process of the task is left, which no agent stops any more.
func (d *demo) outlived(ctx context.Context, killed time.Time) error {
	pids, err := readPids(filepath.Join(d.Dir, "import.pids"))
	if err != nil {
		return err
	}
	if err := stage.Until(ctx, "the task's process was gone", func() bool { return !slices.ContainsFunc(pids, alive) }); err != nil {
		return err
	}
	d.Line("kill -9 of the agent. Its task, process %s, was gone %.1f s later.", join(pids), time.Since(killed).Seconds())
	return nil
}

// showResumed shows that the second attempt has begun where the first one was noted, and has done the rest once.
func (d *demo) showResumed() error {
	log, err := os.ReadFile(filepath.Join(d.Dir, "import.log"))
	if err != nil {
		return err
	}
	done := make(map[int][]int) // the pages of each attempt
	for line := range strings.Lines(string(log)) {
		var attempt, page int
		if _, err := fmt.Sscanf(line, "attempt %d page %d", &attempt, &page); err != nil {
			return fmt.Errorf("read import.log: %w", err)
		}
		done[attempt] = append(done[attempt], page)
	}
	first, second := done[1], done[2]
	if len(first) == 0 || len(second) == 0 || len(done) != 2 {
		return errors.New("book.import was not done by two attempts")
	}
	d.Line("The first attempt did pages 1 to %d, the second one went on after the checkpoint: %d to %d.",
		first[len(first)-1], second[0], second[len(second)-1])
	if again := first[len(first)-1] - second[0] + 1; again > 0 {
		d.Line("(%d came again: done, and not noted yet when the agent was killed.)", again)
	}
	for i, page := range second {
		if page != second[0]+i {
			return fmt.Errorf("the second attempt did page %d after page %d", page, second[i-1])
		}
	}
	if second[0] == 1 || second[0] > first[len(first)-1]+1 || second[len(second)-1] != pages {
		return errors.New("book.import did not go on from where it was")
	}
	return nil
}
