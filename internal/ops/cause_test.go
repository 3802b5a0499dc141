package ops

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCause(t *testing.T) {
	for reason, want := range map[string]string{
		"": "",
		"attempt 3 of 3 failed: exit code 1: no such table":                                  "no such table (exit code 1)",
		"attempt 3 of 3 failed: exit code 1":                                                 "exit code 1",
		"attempt 1 of 3 was rejected: answered 400: bad\n invoice":                           "bad invoice (answered 400)",
		"rollback attempt 2 of 3 timed out: did not answer within 20s":                       "did not answer within 20s",
		"not retried: attempt 1 of 3 was lost: its agent is gone":                            "its agent is gone",
		"attempt 1 of 3 was asked to come later (101 times in a row, and only 100 are free)": "attempt 1 of 3 was asked to come later (101 times in a row, and only 100 are free)",
		"no connection: dial tcp 127.0.0.1:8080: connect: connection refused":                "connection refused (127.0.0.1:8080)",
		"dial tcp: lookup api.example on 10.0.0.2:53: no such host":                          "no such host (api.example)",
		"its deadline has passed; attempt 1 of 3 failed: exit code 1":                        "its deadline has passed; attempt 1 of 3 failed: exit code 1",
		"cancelled before it started, by me":                                                 "cancelled before it started, by me",
	} {
		require.Equal(t, want, Cause(reason), reason)
	}
}
