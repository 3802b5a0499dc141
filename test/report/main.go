// Command report reads what `go test -json` prints and prints what people want to see of it: a line for each package, and
// all that a test said which failed. With -slowest it appends how long each test took to a file, and with -print it prints the
// slowest of such a file, and which failed.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// event is a line of `go test -json` (go doc test2json).
type event struct {
	Action     string
	Package    string
	ImportPath string // of a build
	Test       string
	Elapsed    float64 // seconds
	Output     string
}

// test is how long one test took.
type test struct {
	name    string
	seconds float64
	failed  bool // it did, or its package ended before it did
}

func main() {
	slowest := flag.String("slowest", "", "append the time of each test to this `file`")
	number := flag.Int("print", 0, "print the `n` slowest tests of the file, and read nothing")
	flag.Parse()
	if err := run(os.Stdin, os.Stdout, *slowest, *number); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer, slowest string, number int) error {
	if number > 0 {
		all, err := os.ReadFile(slowest)
		if err != nil {
			return err
		}
		return printSlowest(out, string(all), number)
	}
	tests, err := report(in, out)
	if slowest == "" || err != nil {
		return err
	}
	f, err := os.OpenFile(slowest, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	for _, t := range tests {
		how := "took"
		if t.failed {
			how = "failed"
		}
		if _, err := fmt.Fprintf(f, "%s %.2f %s\n", how, t.seconds, t.name); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return f.Close()
}

// printer prints until that fails.
type printer struct {
	out io.Writer
	err error
}

func (p *printer) print(words ...string) {
	for _, w := range words {
		if p.err == nil {
			_, p.err = io.WriteString(p.out, w)
		}
	}
}

// report copies what matters. Of a test that passes nothing does; what a package says outside of its tests does, as a data
// race or a panic that ends it.
func report(in io.Reader, out io.Writer) (tests []test, err error) {
	p := printer{out: out}
	output := map[string][]string{} // of tests that have not ended, by package and name
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Action == "" { // of the go command itself
			p.print(lines.Text(), "\n")
			continue
		}
		key := e.Package + " " + e.Test
		switch e.Action {
		case "output", "build-output":
			if e.Test != "" {
				output[key] = append(output[key], e.Output)
			} else if e.Output != "PASS\n" {
				p.print(e.Output)
			}
		case "fail":
			p.print(strings.Join(output[key], ""))
			delete(output, key)
		case "pass", "skip":
			delete(output, key)
		}
		if failed := e.Action == "fail"; e.Test != "" && (e.Elapsed > 0 || failed) {
			tests = append(tests, test{name(e.Package, e.Test), e.Elapsed, failed})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(output)) { // its package ended before it did
		p.print(strings.Join(output[key], ""))
		pkg, of, _ := strings.Cut(key, " ")
		tests = append(tests, test{name: name(pkg, of), failed: true})
	}
	return tests, errors.Join(lines.Err(), p.err)
}

// name says which test of which of the module's packages it is.
func name(pkg, test string) string {
	return strings.TrimPrefix(pkg, "github.com/leasehold/leasehold/") + "." + test
}

func printSlowest(out io.Writer, all string, number int) error {
	var tests []test
	for line := range strings.Lines(all) {
		var t test
		var how string
		if _, err := fmt.Sscanf(line, "%s %f %s", &how, &t.seconds, &t.name); err != nil {
			return fmt.Errorf("%q is no test: %w", line, err)
		}
		t.failed = how == "failed"
		tests = append(tests, t)
	}
	slices.SortStableFunc(tests, func(a, b test) int { return cmp.Compare(b.seconds, a.seconds) })
	p := printer{out: out}
	p.print("the slowest tests, in seconds:\n")
	for _, t := range tests[:min(number, len(tests))] {
		p.print(fmt.Sprintf("%8.1f  %s\n", t.seconds, t.name))
	}
	for _, t := range tests {
		if t.failed {
			p.print("failed: ", t.name, "\n")
		}
	}
	return p.err
}
