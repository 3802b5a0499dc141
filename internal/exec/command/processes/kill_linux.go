package processes

import (
	"bytes"
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Marks reports whether processes can be found by their mark here.
const Marks = true

// maxEnviron is more than the arguments and the environment of a program may take together (execve(2): 6 MiB).
const maxEnviron = 8 << 20

// Kill looks at every process once, kills those with the run's mark on a number that is wanted, and returns how many of
// them it found for each number. Zombies are dead and not found. A process that cannot be looked at (another user's,
// for an agent that is not root), and one that has wiped its environment, is passed over.
//
// It may take as long as the kernel keeps it from looking at a process that is stuck.
func Kill(r Run, wanted func(number uint64) bool) (found map[uint64]int, err error) {
	pids, err := all()
	if err != nil {
		return nil, err
	}
	var look environReader
	self := os.Getpid()
	for _, pid := range pids {
		number, ok := r.find(look.environ(pid))
		if !ok || pid == self || !wanted(number) {
			continue
		}
		if found == nil {
			found = make(map[uint64]int)
		}
		found[number]++
		// The process may have ended meanwhile, and its number may be another's: looked at once more through a handle
		// that stays what it is. What has no such handle (before Linux 5.3) is killed by its number.
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			if errors.Is(err, unix.ENOSYS) {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
			continue
		}
		if again, ok := r.find(look.environ(pid)); ok && again == number {
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		}
		_ = unix.Close(fd)
	}
	return found, nil
}

// all lists the processes that there are.
func all() ([]int, error) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer func() { _ = proc.Close() }() // it was only read
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	pids := make([]int, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// environReader reads environments, one after the other, into the same memory.
type environReader struct{ buffer []byte }

// environ is what the process was started with, valid until the next call; empty where that is not to be had.
func (e *environReader) environ(pid int) []byte {
	return e.read("/proc/" + strconv.Itoa(pid) + "/environ")
}

func (e *environReader) read(path string) []byte {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer func() { _ = unix.Close(fd) }()
	if e.buffer == nil {
		e.buffer = make([]byte, 32<<10)
	}
	for n := 0; ; {
		if n == len(e.buffer) {
			if n >= maxEnviron {
				return e.buffer
			}
			e.buffer = append(e.buffer, make([]byte, n)...)
		}
		m, err := unix.Read(fd, e.buffer[n:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || m <= 0 {
			return e.buffer[:n]
		}
		n += m
	}
}

// Halfway reports whether a process is there that looks like a child of an agent between fork and exec: it has the
// agent's arguments, as args (NUL-separated) has them, and one thread, which no agent has for longer than a moment. Such
// a child does not show its mark yet. It shares the agent's memory, and is as hidden (package hide): of all that /proc
// has of it, others of its user may read these two alone.
func Halfway(args []byte) bool {
	pids, err := all()
	if err != nil || len(args) == 0 {
		return false
	}
	var look environReader
	for _, pid := range pids {
		if !bytes.Equal(look.read("/proc/"+strconv.Itoa(pid)+"/cmdline"), args) {
			continue
		}
		if s, err := readStat(pid); err == nil && s.threads == 1 && !s.dead() {
			return true
		}
	}
	return false
}

// Arguments are those of a process, each of which ends in NUL; nil where they are not to be had.
func Arguments(pid int) []byte {
	args, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return nil
	}
	return args
}
