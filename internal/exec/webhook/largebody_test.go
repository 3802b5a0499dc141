package webhook

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// A large body that has been closed refers to nothing any more, and is at its end.
func TestALargeBodyIsForgottenOnceItIsClosed(t *testing.T) {
	b, large := requestBody(make([]byte, maxDirect+1)).(*largeBody)
	require.True(t, large)
	n, err := io.CopyN(io.Discard, b, 10)
	require.NoError(t, err)
	require.EqualValues(t, 10, n)
	require.NoError(t, b.Close())
	require.Zero(t, b.left.Size())
	_, err = b.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	_, large = requestBody(make([]byte, maxDirect)).(*largeBody)
	require.False(t, large, "it is sent directly")
}
