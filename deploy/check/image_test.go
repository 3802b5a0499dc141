package check

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const repository = "../.."

// stage is what the instructions of one FROM have made, in a directory that stands for /.
type stage struct {
	root, dir         string
	user              uint32
	entry, cmd, check []string
}

// A build carries out the Dockerfile's instructions in their order, without a container engine. Stages begin in empty directories, and
// commands run on this machine, in place of a base image: Go's has no more than Go that they use.
type build struct {
	t       *testing.T
	context string
	stages  map[string]*stage
	last    *stage
}

func (b *build) run(line string) {
	b.t.Helper()
	word, rest, _ := strings.Cut(line, " ")
	args := strings.Fields(rest)
	s := b.last
	switch word {
	case "FROM":
		b.last = &stage{root: b.t.TempDir(), dir: "/"}
		if base, ok := b.stages[args[0]]; ok {
			require.NoError(b.t, os.CopyFS(b.last.root, os.DirFS(base.root)))
			b.last.dir = base.dir
		}
		if len(args) == 3 {
			b.stages[args[2]] = b.last
		}
	case "WORKDIR":
		s.dir = args[0]
		require.NoError(b.t, os.MkdirAll(filepath.Join(s.root, s.dir), 0o755))
	case "COPY":
		b.copy(args)
	case "RUN":
		// An absolute output is below the stage's root.
		c := exec.CommandContext(b.t.Context(), "bash", "-euc", strings.ReplaceAll(rest, " -o /", " -o "+s.root+"/"))
		c.Dir = filepath.Join(s.root, s.dir)
		out, err := c.CombinedOutput()
		require.NoError(b.t, err, "%s\n%s", line, out)
	case "USER":
		id, _, _ := strings.Cut(args[0], ":")
		n, err := strconv.ParseUint(id, 10, 32)
		require.NoError(b.t, err)
		s.user = uint32(n)
	case "ENTRYPOINT":
		s.entry = list(b.t, rest)
	case "CMD":
		s.cmd = list(b.t, rest)
	case "HEALTHCHECK":
		s.check = list(b.t, rest[strings.Index(rest, "["):])
	case "STOPSIGNAL":
		require.Equal(b.t, "SIGTERM", args[0])
	default:
		b.t.Fatalf("the test does not know how to carry out %q", line)
	}
}

// copy carries out COPY. What a base image brings, this machine has.
func (b *build) copy(args []string) {
	b.t.Helper()
	from := b.context
	if name, ok := strings.CutPrefix(args[0], "--from="); ok {
		from, args = b.stages[name].root, args[1:]
	}
	last := len(args) - 1
	to := args[last]
	if !filepath.IsAbs(to) {
		to = filepath.Join(b.last.dir, to) + "/"
	}
	for _, one := range args[:last] {
		target, source := filepath.Join(b.last.root, to), filepath.Join(from, one)
		if strings.HasSuffix(to, "/") {
			target = filepath.Join(target, filepath.Base(one))
		}
		if one == "." {
			require.NoError(b.t, os.RemoveAll(filepath.Join(b.last.root, to))) // CopyFS replaces no file
			require.NoError(b.t, os.CopyFS(filepath.Join(b.last.root, to), os.DirFS(source)))
			continue
		}
		text, err := os.ReadFile(source)
		if os.IsNotExist(err) && from != b.context {
			source = one
			text, err = os.ReadFile(source)
		}
		require.NoError(b.t, err)
		info, err := os.Stat(source)
		require.NoError(b.t, err)
		require.NoError(b.t, os.MkdirAll(filepath.Dir(target), 0o755))
		require.NoError(b.t, os.WriteFile(target, text, info.Mode().Perm()))
	}
}

func list(t *testing.T, text string) (words []string) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &words), "the form without a shell, of which there is none: %s", text)
	return words
}

// contextOf copies what git knows, and a repository without its configuration: .dockerignore leaves out no less than .gitignore does.
func contextOf(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "context")
	clone, err := exec.CommandContext(t.Context(), "git", "clone", "--quiet", "--shared", "--no-checkout", repository, dir).CombinedOutput()
	require.NoError(t, err, "%s", clone)
	require.NoError(t, os.Remove(filepath.Join(dir, ".git/config")))
	c := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	c.Dir = repository
	out, err := c.Output()
	require.NoError(t, err)
	for name := range strings.SplitSeq(strings.Trim(string(out), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(repository, name))
		if os.IsNotExist(err) { // deleted, and not committed
			continue
		}
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o644))
	}
	return dir
}

func TestImage(t *testing.T) {
	b := build{t: t, context: contextOf(t), stages: map[string]*stage{}}
	text, err := os.ReadFile("../Dockerfile")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			b.run(line)
		}
	}
	for name, s := range map[string]*stage{"/leasehold": b.last, "/application": b.stages["application"]} {
		require.Equal(t, []string{name}, s.entry)
		require.NotZero(t, s.user, "not root")
		program, err := elf.Open(filepath.Join(s.root, name))
		require.NoError(t, err)
		require.False(t, slices.ContainsFunc(program.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }), "%s is static", name)
		require.NoError(t, program.Close())
	}
	var files []string
	require.NoError(t, fs.WalkDir(os.DirFS(b.last.root), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	}))
	require.Equal(t, []string{"etc/ssl/certs/ca-certificates.crt", "leasehold"}, files)
	info, err := buildinfo.ReadFile(filepath.Join(b.last.root, "leasehold"))
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(info.Main.Version, "v"), "the version %s is git's", info.Main.Version)
	b.last.start(t)
}

// start runs the image's program as the image's user and with the image's files alone, of which it may write none but in a volume, has the health
// check succeed, and stops it.
func (s *stage) start(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	at := listener.Addr().String()
	require.NoError(t, listener.Close())
	config := filepath.Join(s.root, s.dir, "leasehold.hcl")
	require.NoError(t, os.WriteFile(config, []byte(`
agent { listen = "`+at+`" }
store { url = "sqlite:/volume/leasehold.db" }
task "hello" {
  webhook { url = "http://127.0.0.1:1/" }
}
`), 0o644))
	volume := filepath.Join(s.root, "volume")
	require.NoError(t, os.Mkdir(volume, 0o700))
	require.NoError(t, os.Chown(volume, int(s.user), int(s.user)))
	require.NoError(t, os.Chmod(s.root, 0o755))

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var log bytes.Buffer
	agent := s.command(ctx, append(s.entry, s.cmd...))
	agent.Stderr = &log
	require.NoError(t, agent.Start())
	require.Eventually(t, func() bool { return s.command(ctx, s.check).Run() == nil }, 30*time.Second, 100*time.Millisecond, "the health check")
	require.NoError(t, agent.Process.Signal(syscall.SIGTERM))
	require.NoError(t, agent.Wait(), &log)
	require.Contains(t, log.String(), "agent ready")
	require.Error(t, s.command(ctx, s.check).Run(), "nothing answers")
}

func (s *stage) command(ctx context.Context, argv []string) *exec.Cmd {
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Dir, c.Env = s.dir, []string{}
	c.SysProcAttr = &syscall.SysProcAttr{Chroot: s.root, Credential: &syscall.Credential{Uid: s.user, Gid: s.user}}
	return c
}
