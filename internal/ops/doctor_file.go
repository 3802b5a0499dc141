package ops

import (
	"fmt"
	"strings"

	"github.com/leasehold/leasehold/internal/store"
)

// Bounds from which on a file is not as it should be.
const (
	logUnchecked = 64 << 20 // bytes; the log is cut to so many after each use
	diskShare    = 0.05     // of the file system, and
	diskRoom     = 10 << 30 // bytes
)

func fileChecks() []check {
	return []check{
		{"file_permissions", store.PartServer, (*examination).filePermissions},
		{"wal_size", store.PartServer, (*examination).walSize},
		{"disk_space", store.PartServer, (*examination).diskSpace},
	}
}

func (x *examination) filePermissions() []Finding {
	if len(x.File.Open) == 0 {
		return nil
	}
	var shown, quoted []string
	for _, f := range x.File.Open {
		shown = append(shown, fmt.Sprintf("%s (mode %o)", OneLine(f.Path, mostName), f.Mode))
		quoted = append(quoted, ShellQuote(f.Path))
	}
	return []Finding{{
		Severity: Problem, About: OneLine(x.File.Path, mostName),
		What:   "other users of this host may use " + list(shown) + ": they can read payloads and the key of ping URLs",
		Remedy: fmt.Sprintf("chmod %o %s; or set store.group, if they are to", x.File.Mode, strings.Join(quoted, " ")),
	}}
}

func (x *examination) walSize() []Finding {
	if x.File.Unchecked < logUnchecked {
		return nil
	}
	return []Finding{{
		Severity: Problem, About: OneLine(x.File.Path, mostName),
		What: fmt.Sprintf("%s of the write-ahead log wait for a program that reads and does not end: reads get slower, and the log grows",
			bytesText(uint64(x.File.Unchecked))),
		Remedy: "end the read transaction of the program that has the file open (a shell, a backup, an application): `fuser` lists them",
	}}
}

func (x *examination) diskSpace() []Finding {
	f := x.File
	if f.Size == 0 || f.Free >= diskRoom || float64(f.Free) >= diskShare*float64(f.Size) {
		return nil
	}
	return []Finding{{
		Severity: Problem, About: OneLine(f.Path, mostName),
		What: fmt.Sprintf("the file system of the store has %s left of %s: when it is full no task can be enqueued or finish",
			bytesText(f.Free), bytesText(f.Size)),
		Remedy: "make room, or lower retention in the store block",
	}}
}

// bytesText writes a number of bytes in its largest unit.
func bytesText(n uint64) string {
	const step = 1024
	units := []string{"bytes", "KiB", "MiB", "GiB", "TiB"}
	v, i := float64(n), 0
	for ; v >= step && i < len(units)-1; i++ {
		v /= step
	}
	if i == 0 {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%.1f %s", v, units[i])
}
