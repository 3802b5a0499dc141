//go:build !linux

package webhook

import "net"

const finSeen = 1

// tcpState is not to be had here: what was written counts as having been taken.
func tcpState(net.Conn) (state int, acked int64, ok bool) { return 0, 0, false }
