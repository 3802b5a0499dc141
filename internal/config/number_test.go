package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPlainNumber(t *testing.T) {
	for in, want := range map[string]string{
		"0": "0", "-0": "-0", "7": "7", "1.50": "1.50", "1e3": "1000", "1E+3": "1000", "1.5e3": "1500", "15e-1": "1.5", "1e-3": "0.001", "-1.25e1": "-12.5",
		"100e-2": "1", "0e5": "0", "123.456e2": "12345.6", "9007199254740993": "9007199254740993",
	} {
		got, err := plainNumber(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
	}
	for _, in := range []string{"1e401", "1e-401", "1e99999999999999999999", "1p9999"} {
		_, err := plainNumber(in)
		require.ErrorIs(t, err, errNumber, in)
	}
}
