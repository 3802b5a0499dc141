package config

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
)

// maxRate is the highest rate, in starts a second.
const maxRate = 100_000

var rateText = regexp.MustCompile(`^([0-9]{1,9}(?:\.[0-9]{1,6})?)/([smh])$`)

// bounds decodes limit, rate and burst, of a task or of each of its tenants; 0: no bound.
func (b *block) bounds() (limit int, rate float64, burst int) {
	if b.attr("limit") != nil {
		limit = b.num("limit", 1, 1, maxLimit)
	}
	if b.attr("rate") == nil {
		if b.attr("burst") != nil {
			b.invalid("burst", b.at("burst"), errors.New(`it has an effect only with rate, as in rate = "100/s"`))
		}
		return limit, 0, 0
	}
	text := b.str("rate", "", func(s string) error {
		_, err := parseRate(s)
		return err
	})
	rate, _ = parseRate(text) // a mistake is reported
	return limit, rate, b.num("burst", max(int(math.Floor(rate)), 1), 1, maxLimit)
}

// parseRate reads a rate, in starts a second.
func parseRate(text string) (float64, error) {
	parts := rateText.FindStringSubmatch(text)
	if parts == nil {
		return 0, fmt.Errorf("%q is not a rate: write a number and a unit, as in \"100/s\", \"30/m\", \"5/h\"", text)
	}
	n, err := strconv.ParseFloat(parts[1], 64)
	n /= map[string]float64{"s": 1, "m": 60, "h": 3600}[parts[2]]
	if err != nil || n < 1.0/(30*24*3600) || n > maxRate {
		return 0, fmt.Errorf("it must be a rate from one a month to %d/s", maxRate)
	}
	return n, nil
}
