package storetest

import "pgregory.net/rapid"

type chunked struct{}

func (m *machine) chunkActions() map[string]func(*rapid.T) { return nil }

func (m *machine) compareChunks() {}
