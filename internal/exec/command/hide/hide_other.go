//go:build !linux

// Package hide keeps the memory and the environment of this process from others of the same user.
package hide

// Hide does nothing here: there is no such call.
func Hide() {}
