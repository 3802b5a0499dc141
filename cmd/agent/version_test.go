package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBuildWithoutGit(t *testing.T) {
	t.Parallel()
	b := build{Version: "(devel)", Go: "go1.26.8", Platform: "linux/amd64"}
	require.Equal(t, "leasehold (devel) (built without git, go1.26.8, linux/amd64)", b.String())
	b.Version, b.Commit = "v0.1.0", "9869d0433bd0d460b67ee6542f6b1ff0ed38aaae"
	require.Equal(t, "leasehold v0.1.0 (go1.26.8, linux/amd64)", b.String())
}
