package webhook

import (
	"bytes"
	"io"
	"sync"
)

// requestBody is the body of one request.
func requestBody(text []byte) io.ReadCloser {
	if len(text) <= maxDirect {
		return io.NopCloser(bytes.NewReader(text))
	}
	b := &largeBody{}
	b.left.Reset(text)
	return b
}

// largeBody is a body that net/http sends. Its transport closes it then, and may refer to the request for longer than the attempt lasts: once
// closed, it keeps nothing in memory.
type largeBody struct {
	mu   sync.Mutex // a request that is given up is closed while it is read
	left bytes.Reader
}

// Read implements io.Reader.
func (b *largeBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.left.Read(p)
}

// Close implements io.Closer. What is read later is at its end.
func (b *largeBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left.Reset(nil)
	return nil
}
