package main

import "github.com/leasehold/leasehold/internal/ops"

func shellQuote(s string) string { return ops.ShellQuote(s) }
