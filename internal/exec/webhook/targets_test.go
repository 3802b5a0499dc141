package webhook

import (
	"fmt"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTargetsThatCloseConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := func(host string) *url.URL { return &url.URL{Scheme: "http", Host: host} }
		a, b := at("a"), at("b")
		var known targets
		require.False(t, known.fresh(a))
		known.closed(a)
		require.False(t, known.fresh(a), "once may be chance")
		known.kept(a)
		known.closed(a)
		require.False(t, known.fresh(a), "it has kept one in between")
		known.closed(a)
		require.True(t, known.fresh(a))
		require.False(t, known.fresh(b))
		known.kept(a)
		known.kept(b)
		require.True(t, known.fresh(a), "an answer that was under way changes nothing")
		<-time.After(freshFor / 2)
		known.closed(a)
		<-time.After(freshFor/2 + 1)
		require.False(t, known.fresh(a), "forgotten")
		require.Empty(t, known.of)

		known.closed(a)
		<-time.After(freshFor + 1)
		known.closed(a)
		require.False(t, known.fresh(a), "twice in a row, not twice ever")

		for i := range 2 * maxTargets {
			known.closed(at(fmt.Sprint(i)))
		}
		require.Len(t, known.of, maxTargets)
		<-time.After(freshFor + 1)
		known.closed(b)
		known.closed(b)
		require.True(t, known.fresh(b), "what is out of date makes room")
		require.Len(t, known.of, 1)
	})
}
