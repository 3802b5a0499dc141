package main

import (
	"os"
	"path/filepath"
	"strings"
)

const sumsFile = "SHA256SUMS"

// sums writes the checksums of all files, as `sha256sum --check` reads them.
func (r *release) sums() error {
	list, err := filepath.Glob(filepath.Join(r.out, "leasehold_*")) // sorted
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, path := range list {
		sum, err := sha256Of(path)
		if err != nil {
			return err
		}
		b.WriteString(sum + "  " + filepath.Base(path) + "\n")
	}
	return r.write(sumsFile, func(path string) error {
		return os.WriteFile(path, []byte(b.String()), 0o644) //nolint:gosec // what is published is no secret
	})
}
