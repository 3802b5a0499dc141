package webhook

import (
	"net/http"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/exec/answer"
)

// retryAfter reads Retry-After (RFC 9110, 10.2.3), seconds or a date, within limits; 0 where there is nothing to go
// by. A date is compared with the answer's own Date, so that the clocks of the two machines need not agree.
func retryAfter(h http.Header) time.Duration {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if value == "" {
		return 0
	}
	if strings.Trim(value, "0123456789") == "" {
		return seconds(value)
	}
	until, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return answer.Later(until.Sub(now))
}

// seconds reads a number of digits only. However many there are, it is at most the limit.
func seconds(digits string) time.Duration {
	const most = int64(answer.MaxRetryAfter / time.Second)
	n := int64(0)
	for i := range len(digits) {
		n = min(n*10+int64(digits[i]-'0'), most+1)
	}
	return answer.Later(time.Duration(n) * time.Second)
}
