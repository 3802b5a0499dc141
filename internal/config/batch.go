package config

import (
	"errors"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// manyTasks is how many tasks in one request are so many that the first one's heartbeat may well be over before a handler that
// works on them one after another gets to the last.
const manyTasks = 10

func batchShape() *shape {
	return &shape{name: "batch", attrs: []string{"max", "wait"}, called: synonyms(map[string]string{
		"size limit count max_size batch_size rows tasks": "it is max = 100",
		"delay linger timeout interval max_wait":          `it is wait = "10ms"`,
	})}
}

// batch decodes the batch block in b, whose other attributes are in w; nil where there is none.
func (b *block) batch(w *task.Webhook) *task.Batch {
	hb := b.child("batch")
	if hb == nil {
		return nil
	}
	sub := b.block(hb, batchShape())
	b.out.blocks = append(b.out.blocks, sub.out)
	refuse := func(not bool, name, reason string) {
		if not {
			b.invalid(name, b.at(name), errors.New("not allowed beside a batch block: "+reason))
		}
	}
	refuse(w.Body == task.BodyPayload, "body", "only the envelope says which data belongs to which task")
	refuse(w.IdempotencyKey, "idempotency_key", "one request has many tasks; the webhook-id of each is in the envelope")
	refuse(w.Async, "async", "the tasks of a request end with its response")
	return &task.Batch{
		Max:  sub.num("max", task.DefaultBatch, 1, task.MaxBatch),
		Wait: sub.length("wait", task.DefaultBatchWait, 0, task.MaxBatchWait),
	}
}

// errBatchRow refuses row data in what is the same for all tasks of a request.
var errBatchRow = errors.New("row data is not allowed beside a batch block, because one request has many tasks; " +
	"the handler reads each row's data in the envelope, or leave the block out to send a request for each task")

// withoutBatch is the shape of a webhook without a batch block, for that reason.
func (s *shape) withoutBatch(reason string) {
	s.blocks = slices.DeleteFunc(s.blocks, func(name string) bool { return name == "batch" })
	if s.never == nil {
		s.never = make(map[string]string)
	}
	s.never["batch"] = reason
}

// warnOfBatch warns of a heartbeat, declared in b, a task or a rollback, beside a batch block with many tasks.
func (b *block) warnOfBatch(target task.Target, heartbeat time.Duration) {
	w, ok := target.(*task.Webhook)
	if !ok || w.Batch == nil || w.Batch.Max <= manyTasks || heartbeat <= 0 {
		return
	}
	b.l.warn(b.at("heartbeat"), "A request has up to %d tasks here. Its timeout is for all of them together, and the first window of each opens "+
		"when it is sent: a handler that works on one after another must ping for those that still wait. Declare a smaller max in the batch block, "+
		"or no heartbeat.", w.Batch.Max)
}
