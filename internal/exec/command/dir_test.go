package command

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/leasehold/leasehold/internal/exec/exectest"
	"github.com/leasehold/leasehold/internal/task"
)

func TestResultFile(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o600))
	t.Setenv("HOME", secret) // a variable that the scripts can see
	const file = `f=$LEASEHOLD_RESULT_FILE; d=$(dirname "$f"); `
	for name, c := range map[string]struct {
		script string
		note   string
	}{
		"link":                {`ln -s "$HOME" "$f"`, "result not kept"},
		"link to endless":     {`ln -s /dev/zero "$f"`, "result not kept"},
		"FIFO":                {`mkfifo "$f"`, "not a plain file"},
		"directory":           {`mkdir -p "$f/a/b"; touch "$f/a/b/c"`, "not a plain file"},
		"huge":                {`head -c 200000 /dev/zero > "$f"`, "200000 bytes"},
		"sparse":              {`dd if=/dev/null of="$f" bs=1 seek=1099511627776 2>/dev/null`, "1099511627776 bytes"},
		"unreadable":          {`mkdir "$d/x"; echo 1 > "$d/x/y"; chmod 0 "$d/x"`, ""},
		"directory moved":     {`mv "$d" "$d.moved"; mv "$d.moved" "$d"`, ""},
		"directory is gone":   {`rm -r "$d"`, ""},
		"directory is a link": {`rmdir "$d"; mkdir "$d.other"; cp "$HOME" "$d.other/result"; ln -s "$d.other" "$d"; rm -r "$d.other"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := run(t, exectest.Attempt{}, shell(file+c.script))
			require.Equal(t, task.Succeeded, o.Verdict, o.Error)
			require.Nil(t, o.Result, string(o.Result))
			require.Contains(t, o.Note, c.note)
			require.Equal(t, c.note == "", o.Note == "")
		})
	}
	kept, err := os.ReadFile(secret)
	require.NoError(t, err)
	require.Equal(t, "secret", string(kept))
}

// A directory that was put in the place of the private one is not read: the result is looked for where it was made.
func TestResultIsReadWhereItWasMade(t *testing.T) {
	o := run(t, exectest.Attempt{}, shell(`d=$(dirname "$LEASEHOLD_RESULT_FILE"); rmdir "$d"; mkdir "$d"; echo 1 > "$d/result"`))
	require.Equal(t, task.Succeeded, o.Verdict)
	require.Nil(t, o.Result)
}

func TestResultOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		return // only root can give files away
	}
	dir, err := makeDir(t.TempDir(), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, dir.remove()) }()
	require.NoError(t, os.WriteFile(dir.resultPath(), []byte("1"), 0o600))
	body, size, note := dir.result()
	require.Equal(t, "1", string(body))
	require.EqualValues(t, 1, size)
	require.Empty(t, note)
	require.NoError(t, os.Chown(dir.resultPath(), 1, 1))
	body, _, note = dir.result()
	require.Empty(t, body)
	require.Contains(t, note, "not a plain file of the command's user")
}

// What cannot be opened without waiting is not opened at all.
func TestResultFIFOWithWriter(t *testing.T) {
	dir, err := makeDir(t.TempDir(), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, dir.remove()) }()
	require.NoError(t, unix.Mkfifo(dir.resultPath(), 0o600))
	body, _, note := dir.result()
	require.Empty(t, body)
	require.NotEmpty(t, note)
}

// A directory serves the next attempt if the last one left it as it was, and under another name for the result.
func TestDirectoriesAreUsedAgain(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	r := New(Options{Log: slog.New(slog.DiscardHandler)})
	attempt := func(script string) (path string, result string) {
		t.Helper()
		l := exectest.Attempt{}.Lease()
		defer l.Close()
		c := shell(script + `; echo "$LEASEHOLD_RESULT_FILE"`)
		o := r.Run(l, declared(c), c, func() {})
		require.Equal(t, task.Succeeded, o.Verdict, o.Error)
		return strings.TrimSpace(o.Output), string(o.Result)
	}
	first, result := attempt(`echo 1 > "$LEASEHOLD_RESULT_FILE"`)
	require.Equal(t, "1", result)
	second, result := attempt("true")
	require.Empty(t, result)
	require.Equal(t, filepath.Dir(first), filepath.Dir(second))
	require.NotEqual(t, first, second, "a late write to the first does not reach the second")

	for name, script := range map[string]string{
		"left something": `touch "$d/more"`,
		"wrote too late": `echo 1 > "` + filepath.Base(first) + `"; cp "` + filepath.Base(first) + `" "$d"`,
		"let others in":  `chmod 777 "$d"`,
		"moved it":       `mv "$d" "$d.moved"`,
		"put a link":     `mv "$d" "$d.moved"; ln -s "$d.moved" "$d"`,
		"put another":    `rmdir "$d"; mkdir -m 700 "$d"`,
		"took it away":   `rmdir "$d"`,
		"made it a file": `rmdir "$d"; touch "$d"`,
	} {
		t.Run(name, func(t *testing.T) {
			work := t.TempDir()
			before, _ := attempt(`cd ` + work + `; d=$(dirname "$LEASEHOLD_RESULT_FILE"); ` + script)
			after, _ := attempt("true")
			require.NotEqual(t, filepath.Dir(before), filepath.Dir(after))
		})
	}
	r.Close()
	left, err := filepath.Glob(filepath.Join(temp, "leasehold-*"))
	require.NoError(t, err)
	for _, path := range left {
		require.True(t, strings.HasSuffix(path, ".moved"), "what a task moved is the task's own: %s", path)
	}
}
