package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Now is the time of events.
func Now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // every system that is tested on has it
	}
	return time.Duration(ts.Nano())
}

// Log is a file that many processes append lines to. A line goes out in one write, so lines never mix and what was
// written survives its process.
type Log struct {
	mu   sync.Mutex
	file *os.File
}

// OpenLog opens a log, and makes it where there is none.
func OpenLog(path string) (*Log, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	return &Log{file: f}, nil
}

// Add appends an event with the present time.
func (l *Log) Add(e Event) { l.AddAt(Now(), e) }

// AddAt appends an event of a moment that has passed. What cannot be written down makes the run worthless: it panics.
func (l *Log) AddAt(at time.Duration, e Event) {
	e.At = at
	line, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.file.Write(append(line, '\n')); err != nil {
		panic(fmt.Errorf("write to the log: %w", err))
	}
}

// Close closes it.
func (l *Log) Close() error { return l.file.Close() }

// Read reads a log's events in the order of their times.
func Read(path string) ([]Event, error) {
	all, err := (&Tail{Path: path}).Next()
	slices.SortStableFunc(all, func(a, b Event) int { return int(a.At - b.At) })
	return all, err
}

// Tail reads a log while others write it.
type Tail struct {
	Path string
	at   int64 // bytes that were read
}

// Next reads the events that were added since the last call, in the order in which they were written. A last line without
// an end is not finished yet, or its writer's death cut it off.
func (t *Tail) Next() (all []Event, err error) {
	f, err := os.Open(t.Path)
	if err != nil {
		return nil, fmt.Errorf("read the log: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	lines := bufio.NewReader(io.NewSectionReader(f, t.at, math.MaxInt64-t.at))
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, fmt.Errorf("read the log: %w", err)
		}
		t.at += int64(len(line))
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			return all, fmt.Errorf("read the log: %q: %w", line, err)
		}
		all = append(all, e)
	}
}
