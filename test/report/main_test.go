package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/leasehold/leasehold/"

func TestReportsWhatFailed(t *testing.T) {
	in := strings.ReplaceAll(`{"Action":"start","Package":"M/a"}
{"Action":"run","Package":"M/a","Test":"TestGood"}
{"Action":"output","Package":"M/a","Test":"TestGood","Output":"=== RUN   TestGood\n"}
{"Action":"output","Package":"M/a","Test":"TestGood","Output":"    a_test.go:7: fine\n"}
{"Action":"pass","Package":"M/a","Test":"TestGood","Elapsed":1.5}
{"Action":"output","Package":"M/a","Test":"TestBad/sub","Output":"    a_test.go:9: not fine\n"}
{"Action":"fail","Package":"M/a","Test":"TestBad/sub","Elapsed":3}
{"Action":"output","Package":"M/a","Test":"TestCut","Output":"ThreadSanitizer: CHECK failed\n"}
{"Action":"output","Package":"M/a","Output":"PASS\n"}
{"Action":"output","Package":"M/a","Output":"FAIL\tM/a\t3.0s\n"}
{"Action":"fail","Package":"M/a","Elapsed":3}
go: a word of its own
`, "M/", module)
	file := filepath.Join(t.TempDir(), "times")
	var out strings.Builder
	require.NoError(t, run(strings.NewReader(in), &out, file, 0))
	require.Equal(t, "    a_test.go:9: not fine\nFAIL\t"+module+"a\t3.0s\ngo: a word of its own\nThreadSanitizer: CHECK failed\n", out.String())

	out.Reset()
	require.NoError(t, run(nil, &out, file, 1))
	const failed = "failed: a.TestBad/sub\nfailed: a.TestCut\n"
	require.Equal(t, "the slowest tests, in seconds:\n     3.0  a.TestBad/sub\n"+failed, out.String())
	out.Reset()
	require.NoError(t, run(nil, &out, file, 20))
	require.Equal(t, "the slowest tests, in seconds:\n     3.0  a.TestBad/sub\n     1.5  a.TestGood\n     0.0  a.TestCut\n"+failed, out.String())
}
