package webhook

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/exec/answer"
)

func TestRetryAfter(t *testing.T) {
	const date = "Fri, 20 Nov 2026 08:00:00 GMT"
	for value, want := range map[string]time.Duration{
		"": 0, "0": 0, "1": time.Second, " 30 ": 30 * time.Second, "-1": 0, "1.5": 0, "soon": 0, "+5": 0,
		"86401": answer.MaxRetryAfter, "99999999999999999999999999": answer.MaxRetryAfter,
		"18446744073709551617":           answer.MaxRetryAfter, // 1, after 64 bits
		"Fri, 20 Nov 2026 08:00:07 GMT":  7 * time.Second,
		"Friday, 20-Nov-26 08:00:07 GMT": 7 * time.Second,
		"Fri Nov 20 08:00:07 2026":       7 * time.Second,
		"Fri, 20 Nov 2026 07:59:00 GMT":  0,
		"Fri, 20 Nov 9999 08:00:00 GMT":  answer.MaxRetryAfter,
	} {
		require.Equal(t, want, retryAfter(http.Header{"Retry-After": {value}, "Date": {date}}), "%q", value)
	}
	soon := time.Now().Add(time.Minute).UTC().Format(http.TimeFormat)
	require.InDelta(t, time.Minute.Seconds(), retryAfter(http.Header{"Retry-After": {soon}}).Seconds(), 30, "no Date: our clock")
}
