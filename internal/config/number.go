package config

import (
	"errors"
	"strconv"
	"strings"
)

// Bounds on numbers. A number is kept exactly and printed without an exponent, so "1e999999999" in a row's data would
// become a gigabyte of digits.
const (
	maxDigits   = 150 // significant digits that arithmetic keeps exactly (512 bits)
	maxExponent = 400
)

var errNumber = errors.New("the number is infinite, too long, or its exponent too large")

// sane reports whether the text of a number is within bounds. Text that is no number is sane: it converts to none.
func sane(text string) bool {
	_, err := plainNumber(text)
	return err == nil || !errors.Is(err, errNumber)
}

// plainNumber is a JSON number without an exponent, digit for digit the same number: "1e3" is "1000", and what has no
// exponent stays as it is.
func plainNumber(text string) (string, error) {
	mantissa, exp := text, 0
	if i := strings.IndexAny(text, "eEpP"); i >= 0 {
		n, err := strconv.Atoi(text[i+1:])
		switch {
		case errors.Is(err, strconv.ErrRange) || err == nil && (n > maxExponent || n < -maxExponent):
			return "", errNumber
		case err != nil:
			return "", errors.New("not a number")
		}
		mantissa, exp = text[:i], n
	}
	if len(mantissa) > maxDigits {
		return "", errNumber
	}
	if exp == 0 {
		return mantissa, nil
	}
	sign := ""
	if strings.HasPrefix(mantissa, "-") {
		sign, mantissa = "-", mantissa[1:]
	}
	whole, frac, _ := strings.Cut(mantissa, ".")
	digits, point := whole+frac, len(whole)+exp
	if point > len(digits) {
		digits += strings.Repeat("0", point-len(digits))
	}
	if point <= 0 {
		digits = strings.Repeat("0", 1-point) + digits
		point = 1
	}
	whole, frac = strings.TrimLeft(digits[:point], "0"), strings.TrimRight(digits[point:], "0")
	if whole == "" {
		whole = "0"
	}
	if frac != "" {
		whole += "." + frac
	}
	return sign + whole, nil
}
