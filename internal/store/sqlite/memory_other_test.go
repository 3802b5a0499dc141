//go:build !linux

package sqlite

// memoryDir returns a directory whose files are in memory; "" where there is none.
func memoryDir() string { return "" }
