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
	l.write(e)
}

func (l *Log) write(entry any) {
	line, err := json.Marshal(entry)
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

// Next reads the events that were added since the last call, in the order in which they were written.
func (t *Tail) Next() (all []Event, err error) {
	t.at, err = readLines(t.Path, t.at, func(e Event) { all = append(all, e) })
	return all, err
}

// readLines reads the lines of a file from a position on and returns where they end. A last line without an end is not finished
// yet, or its writer's death cut it off.
func readLines[T any](path string, at int64, each func(T)) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return at, fmt.Errorf("read the log: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	lines := bufio.NewReader(io.NewSectionReader(f, at, math.MaxInt64-at))
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return at, nil
		}
		if err != nil {
			return at, fmt.Errorf("read the log: %w", err)
		}
		at += int64(len(line))
		var entry T
		if err := json.Unmarshal(line, &entry); err != nil {
			return at, fmt.Errorf("read the log: %q: %w", line, err)
		}
		each(entry)
	}
}
