package work

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// The programs that a worker's process runs. Each reads a whole envelope as JSON (those in Python and Go with their language's own
// package, the one in C with a scanner of a page), does nothing, and says that it has succeeded.
const (
	Python = "python"
	Go     = "go"
	C      = "c"
)

// AsWorker is the first argument of the program in Go, which is the benchmark itself.
const AsWorker = "worker"

//go:embed worker.py
var python string

//go:embed c/worker.c
var inC []byte

// Arguments start a worker's process. compiled is the path of the program in C.
func Arguments(program, compiled string) ([]string, error) {
	switch program {
	case Python:
		return []string{"python3", "-c", python}, nil
	case Go:
		self, err := os.Executable()
		return []string{self, AsWorker}, err
	case C:
		return []string{compiled}, nil
	default:
		return nil, fmt.Errorf("no such program of a worker: %q", program)
	}
}

// Compile compiles the program in C into a directory and returns its path.
func Compile(ctx context.Context, dir string) (path string, err error) {
	source, path := filepath.Join(dir, "worker.c"), filepath.Join(dir, "worker")
	if err := os.WriteFile(source, inC, 0o600); err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, "cc", "-O2", "-o", path, source).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("compile the worker in C: %w: %s", err, out)
	}
	return path, nil
}

// maxEnvelope is more than any envelope of the benchmark has, in bytes.
const maxEnvelope = 1 << 20

// RunWorker is the program in Go.
func RunWorker(in io.Reader, replies io.Writer) error {
	if _, err := io.WriteString(replies, `{"ready": true}`+"\n"); err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 64<<10), maxEnvelope)
	var reply []byte
	for lines.Scan() {
		var envelope struct {
			Task struct {
				ID    int64 `json:"id"`
				Fence int64 `json:"fence"`
			} `json:"task"`
		}
		if err := json.Unmarshal(lines.Bytes(), &envelope); err != nil {
			return err
		}
		reply = append(reply[:0], `{"id": `...)
		reply = strconv.AppendInt(reply, envelope.Task.ID, 10)
		reply = append(reply, `, "fence": `...)
		reply = strconv.AppendInt(reply, envelope.Task.Fence, 10)
		reply = append(reply, ", \"result\": null}\n"...)
		if _, err := replies.Write(reply); err != nil {
			return err
		}
	}
	return lines.Err()
}
