package main

import (
	"bytes"
	"embed"
	"fmt"
	"strings"

	"github.com/leasehold/leasehold/internal/config"
)

//go:embed template/worker
var workerTemplates embed.FS

// templateArgv is what the template of the configuration starts, and init replaces.
const templateArgv = `["python3", "worker.py"]`

// initialWorker is a worker that init writes.
type initialWorker struct {
	template string // its name in the templates
	file     string // what it is called
	argv     []string
	first    string // what is to be done before it runs; "": nothing
}

// initialWorkers are the workers that init can write, by language.
func initialWorkers() map[string]initialWorker {
	return map[string]initialWorker{
		"python": {template: "worker.py", file: "worker.py", argv: []string{"python3", "worker.py"}},
		"node":   {template: "worker.js", file: "worker.js", argv: []string{"node", "worker.js"}},
		"php":    {template: "worker.php", file: "worker.php", argv: []string{"php", "worker.php"}},
		"ruby":   {template: "worker.rb", file: "worker.rb", argv: []string{"ruby", "worker.rb"}},
		"shell":  {template: "worker.sh", file: "worker.sh", argv: []string{"sh", "worker.sh"}},
		"go": {
			template: "worker.go.txt", file: "worker.go", argv: []string{"./worker"},
			first: "First: go build -o worker worker.go\n",
		},
	}
}

// files are the configuration and the worker.
func (w initialWorker) files() ([]initialFile, error) {
	declaration, err := workerTemplates.ReadFile("template/worker/" + config.DefaultPath)
	if err != nil {
		return nil, fmt.Errorf("read the template: %w", err)
	}
	script, err := workerTemplates.ReadFile("template/worker/" + w.template)
	if err != nil {
		return nil, fmt.Errorf("read the template: %w", err)
	}
	argv := make([]string, len(w.argv))
	for i, word := range w.argv {
		argv[i] = `"` + word + `"`
	}
	declaration = bytes.Replace(declaration, []byte(templateArgv), []byte("["+strings.Join(argv, ", ")+"]"), 1)
	return []initialFile{{config.DefaultPath, declaration, 0o644}, {w.file, script, 0o755}}, nil
}
