package command

import (
	"log/slog"

	"github.com/leasehold/leasehold/internal/exec/ping"
	"github.com/leasehold/leasehold/internal/lease"
)

// pings turns what a process reports into pings of one attempt's lease. It is the receiver of the process's channels.
type pings struct {
	lease   *lease.Lease
	log     *slog.Logger
	refused ping.Refused
}

// line takes one line in; nil is one that is too long.
func (p *pings) line(line []byte) {
	if line == nil {
		p.refuse("descriptor 3", &ping.Error{Reason: "a line is too long", TooLarge: true})
		return
	}
	report, ok, err := ping.Line(line)
	if err != nil {
		p.refuse("descriptor 3", err)
	} else if ok {
		p.lease.Ping(report)
	}
}

func (p *pings) datagram(d []byte) {
	report, alive, err := ping.Datagram(d)
	switch {
	case err != nil:
		p.refuse("the notify socket", err)
	case alive:
		p.lease.Ping(report)
	case report.Message != "":
		p.lease.SetMessage(report.Message)
	}
}

// refuse notes what was no ping. There is no way to answer the command, so it is logged.
func (p *pings) refuse(where string, err error) {
	if p.refused.Add(err) {
		row := p.lease.Task()
		p.log.Warn("malformed ping, which does not count; further ones of this attempt are not logged",
			"task", row.ID, "type", row.Type, "fence", row.Fence, "on", where, "why", err)
	}
}
