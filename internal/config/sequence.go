package config

import "github.com/leasehold/leasehold/internal/task"

func sequenceShape() *shape {
	return &shape{name: "sequence", attrs: []string{"on_failure"}, called: synonyms(map[string]string{
		"on_fail on_error failure fail if_failed": `it is on_failure = "block" or "continue"`,
	})}
}

// sequence decodes the sequence block of a task: what a failure does to the rows behind it. A type without the block declares nothing.
func (b *block) sequence(t *task.Type) {
	hb := b.child("sequence")
	if hb == nil {
		return
	}
	sub := b.block(hb, sequenceShape())
	b.out.blocks = append(b.out.blocks, sub.out)
	t.OnFailure = sub.choice("on_failure", task.SequenceBlocks, task.SequenceBlocks, task.SequenceContinues)
}
