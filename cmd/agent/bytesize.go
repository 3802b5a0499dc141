package main

import (
	"fmt"
	"strconv"
	"strings"
)

// byteSize is a flag's number of bytes, as 8MiB, 512KiB or 1048576.
type byteSize int64

// UnmarshalText reads it.
func (b *byteSize) UnmarshalText(text []byte) error {
	number, unit := string(text), int64(1)
	for suffix, n := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
		if rest, found := strings.CutSuffix(number, suffix); found {
			number, unit = strings.TrimSpace(rest), n
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > 1<<40/unit {
		return fmt.Errorf("invalid size %q: use a form such as 8MiB, 512KiB or 1048576", text)
	}
	*b = byteSize(n * unit)
	return nil
}
