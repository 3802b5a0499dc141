package worker

import (
	"os"
	"strconv"
	"strings"
)

// zombie reports whether a process has ended and was not reaped; false where that is not to be had.
func zombie(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(stat), ") Z ")
}
