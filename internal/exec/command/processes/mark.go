// Package processes finds the processes of attempts: those of a process group, and on Linux those that left it, by a
// mark in their environment.
package processes

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"strconv"
)

// Variable is the environment variable that carries the mark.
const Variable = "LEASEHOLD_RUN"

// Run is one start of an agent: 128 random bits, so that nothing carries its mark by chance or by guessing.
type Run string

// NewRun makes a run that there has never been.
func NewRun() Run {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails (crypto/rand)
	return Run(hex.EncodeToString(b[:]))
}

// Mark is the variable, with its value, for the processes of the run's attempt with that number.
func (r Run) Mark(number uint64) string {
	return Variable + "=" + string(r) + "." + strconv.FormatUint(number, 10)
}

// find looks for the run's mark in an environment as the kernel shows it: entries that end in NUL.
func (r Run) find(environ []byte) (number uint64, ok bool) {
	prefix := Variable + "=" + string(r) + "."
	for rest := environ; ; {
		i := bytes.Index(rest, []byte(prefix))
		if i < 0 {
			return 0, false
		}
		begins := i == 0 || rest[i-1] == 0
		rest = rest[i+len(prefix):]
		text, _, ended := bytes.Cut(rest, []byte{0})
		if n, err := strconv.ParseUint(string(text), 10, 64); begins && ended && err == nil {
			return n, true
		}
	}
}
