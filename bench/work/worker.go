package work

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// The programs that a worker's process runs. Each reads a whole envelope with its language's own JSON, does nothing, and says
// that it has succeeded.
const (
	Python = "python"
	Go     = "go"
)

// AsWorker is the first argument of the program in Go, which is the benchmark itself.
const AsWorker = "worker"

//go:embed worker.py
var python string

// Arguments start a worker's process.
func Arguments(program string) ([]string, error) {
	switch program {
	case Python:
		return []string{"python3", "-c", python}, nil
	case Go:
		self, err := os.Executable()
		return []string{self, AsWorker}, err
	default:
		return nil, fmt.Errorf("no such program of a worker: %q", program)
	}
}

// RunWorker is the program in Go.
func RunWorker(in io.Reader, replies io.Writer) error {
	if _, err := io.WriteString(replies, `{"ready": true}`+"\n"); err != nil {
		return err
	}
	envelopes, reply := json.NewDecoder(bufio.NewReaderSize(in, 64<<10)), json.NewEncoder(replies)
	type end struct {
		ID     int64 `json:"id"`
		Fence  int64 `json:"fence"`
		Result any   `json:"result"`
	}
	for {
		var envelope struct {
			Data json.RawMessage `json:"data"`
			Task struct {
				ID    int64 `json:"id"`
				Fence int64 `json:"fence"`
			} `json:"task"`
		}
		switch err := envelopes.Decode(&envelope); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := reply.Encode(end{ID: envelope.Task.ID, Fence: envelope.Task.Fence}); err != nil {
			return err
		}
	}
}
