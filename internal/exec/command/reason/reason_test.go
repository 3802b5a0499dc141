package reason

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/exec/answer"
)

// What interpreters print, as they do, and what becomes of it.
func TestTraces(t *testing.T) {
	const inner = "FileNotFoundError: [Errno 2] No such file or directory: '/nonexistent/video.mp4'"
	want := map[string]string{
		"go_nil":           "panic: runtime error: invalid memory address or nil pointer dereference",
		"go_panic":         "panic: no such video: a.mp4",
		"java":             "java.io.FileNotFoundException: a.mp4 (No such file or directory)",
		"java_caused":      "java.io.FileNotFoundException: a.mp4 (No such file or directory); java.lang.IllegalStateException: cannot resize",
		"node":             "Error: no such video: a.mp4",
		"node_cause":       "Error: ENOENT: no such file or directory, open '/nonexistent/video.mp4'; Error: cannot load",
		"node_rejection":   "TypeError: bad frame",
		"perl":             "no such video at t.pl line 1.",
		"php":              "RuntimeException: no such video: a.mp4 in /srv/app/job.php:5",
		"php_displayed":    "PDOException: SQLSTATE[HY000] [2002] Connection refused in /srv/app/job.php:3; RuntimeException: cannot open the database in /srv/app/job.php:5",
		"php_parse":        "Parse error:  syntax error, unexpected end of file in /srv/app/job.php on line 12",
		"python_chained":   "KeyError: 'a.mp4'; RuntimeError: no such video: a.mp4",
		"python_during":    inner,
		"python_multiline": `OperationalError: connection to server at "db" (10.0.0.5), port 5432 failed: Connection refused; Is the server running on that host and accepting TCP/IP connections?; (Background on this error at: https://sqlalche.me/e/14/e3q8)`,
		"ruby":             "no such video: a.mp4 (RuntimeError), job.rb:2:in `load'",
		"ruby_34":          "No such file or directory @ rb_sysopen - a.mp4 (Errno::ENOENT), job.rb:2:in 'File#initialize'; cannot resize (RuntimeError), job.rb:4:in 'rescue in Object#load'",
		"rust":             `cannot load: "no such video"; panicked at r.rs:1:72`,
	}
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.Len(t, files, len(want))
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		expected := strings.Join(strings.Fields(want[name]), " ")
		require.Equal(t, expected, Of(string(text)), name)
		require.Equal(t, expected+"; job failed", Of("first\n\n"+string(text)+"\njob failed\n"), name)
		require.Equal(t, "e", Of(string(text)+"a\nb\nc\nd\ne\n"), "%s: it went on after that", name)
		require.Equal(t, expected, Of(strings.ReplaceAll(string(text), "\n", "\r\n")), "%s, lines end otherwise", name)
	}
}

func TestPlain(t *testing.T) {
	for output, want := range map[string]string{
		"":                               "",
		"\n \n":                          "",
		"first\nno such video\n":         "no such video",
		"no such video\n\n  \n":          "no such video",
		"no such video\n}\n---\n":        "no such video",
		"no such video\nexit status 1\n": "no such video",
		"cc: x.c:1: error\nmake: *** [x] Error 1\n": "cc: x.c:1: error",
		"}\n":                                  "}",
		"exit status 1\n":                      "exit status 1",
		"Traceback (most recent call last):\n": "Traceback (most recent call last):",
		"Fatal error: x\n":                     "x",
		"at last\n":                            "at last",
		"ünïcode\n":                            "ünïcode",
	} {
		require.Equal(t, want, Of(output), "%q", output)
	}
}

func FuzzOf(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(f, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, output string) {
		line := Of(output)
		require.LessOrEqual(t, len(line), answer.MaxLine)
		require.True(t, utf8.ValidString(line))
		require.NotContains(t, line, "\n")
	})
}
