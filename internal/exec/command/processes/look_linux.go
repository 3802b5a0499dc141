package processes

import (
	"bytes"
	"os"
	"strconv"

	"github.com/leasehold/leasehold/internal/store"
)

// mostThreads bounds the threads of a process whose children are looked for.
const mostThreads = 64

// Look looks at a process and its descendants, so many processes at most; ok is false if there is none. It takes about 50 µs for each, and does
// not block.
func Look(pid, most int) (d Doing, ok bool) {
	states := map[byte]bool{}
	for tree := []int{pid}; len(tree) > 0 && d.Count < most; tree = tree[1:] {
		s, err := readStat(tree[0])
		if err != nil { // it has ended
			continue
		}
		states[s.state] = true
		d.CPU += s.cpu
		d.Count++
		tree = append(tree, children(tree[0], most-d.Count)...)
	}
	switch {
	case states['D']:
		d.State = store.ProcessDisk
	case states['R']:
		d.State = store.ProcessRunning
	case states['T'], states['t']:
		d.State = store.ProcessStopped
	case states['S'], states['I'], states['P']:
		d.State = store.ProcessSleeping
	default:
		d.State = store.ProcessEnded
	}
	return d, d.Count > 0
}

// children lists the children of a process, so many at most (proc_tid_children(5)). A kernel without that file shows none.
func children(pid, most int) (all []int) {
	path := "/proc/" + strconv.Itoa(pid) + "/task"
	dir, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = dir.Close() }() // it was only read
	threads, _ := dir.Readdirnames(mostThreads)
	for _, thread := range threads {
		text, err := os.ReadFile(path + "/" + thread + "/children")
		if err != nil {
			continue
		}
		for word := range bytes.FieldsSeq(text) {
			if child, err := strconv.Atoi(string(word)); err == nil && len(all) < most {
				all = append(all, child)
			}
		}
	}
	return all
}
