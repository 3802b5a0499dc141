package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A part begins anew with each other value, and ends when it is interrupted or fails.
func TestAPartIsRenewedWhenItsSettingChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var under []int
		v := vary(1)
		work := func(ctx context.Context, n int) error {
			under = append(under, n)
			if n == 4 {
				return errors.New("broken")
			}
			<-ctx.Done()
			return nil
		}
		ended := make(chan error, 1)
		p := renewed("p", v, work)
		go func() { ended <- p.execute() }()
		for _, n := range []int{1, 2, 2, 3} {
			v.set(n)
			<-time.After(time.Second)
		}
		p.interrupt(nil)
		require.NoError(t, <-ended)
		require.Equal(t, []int{1, 2, 3}, under)

		p = renewed("p", v, work)
		go func() { ended <- p.execute() }()
		<-time.After(time.Second)
		v.set(4)
		require.EqualError(t, <-ended, "broken")
	})
}
