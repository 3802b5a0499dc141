package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
)

func TestPageSize(t *testing.T) {
	for limit, want := range map[int]int{-1: 50, 0: 50, 1: 1, 999: 999, 1000: 1000, 1001: 1000} {
		require.Equal(t, want, store.PageSize(limit), limit)
	}
}
