package webhook

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// The states of a connection in which the other side has sent FIN (include/net/tcp_states.h), and it has not been reset.
const (
	tcpCloseWait = 8
	tcpLastAck   = 9
)

// finSeen is the state that tcpState gives for these.
const finSeen = 1

// tcpState reports whether the other side has sent FIN, and how many bytes it has acknowledged, with one for the opening of
// the connection. ok is false where that is not to be had.
func tcpState(c net.Conn) (state int, acked int64, ok bool) {
	raw, is := c.(syscall.Conn)
	if !is {
		return 0, 0, false
	}
	rc, err := raw.SyscallConn()
	if err != nil {
		return 0, 0, false
	}
	var info *unix.TCPInfo
	if cerr := rc.Control(func(fd uintptr) {
		info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	}); cerr != nil || err != nil {
		return 0, 0, false
	}
	if info.State == tcpCloseWait || info.State == tcpLastAck {
		state = finSeen
	}
	return state, int64(info.Bytes_acked), true
}
