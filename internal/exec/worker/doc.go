// Package worker runs attempts in workers: commands that are started once and are given one attempt after another, over lines
// of JSON (docs/protocol.md). An application boots once, and not for every task.
//
// The layers, from the outside in:
//
//	Pool          the workers of one target: one command block, one phase, one configuration. It starts them, lends a ready
//	   │          one to an attempt, and ends those that are idle, old or broken
//	worker        one process and the attempt that it runs now, if any. It writes the envelope, takes in what the process
//	   │          reports, and turns that, the end of the process, or the end of the lease into one outcome
//	command.Worker  the process: its group, its pipes, its output, its entry with the guardian process. It knows no rows
//
// line.go is the protocol, and pure: Request writes an envelope as a line, Parse reads what comes back.
//
// The states of a worker, each of which it enters at most once but for the two in the middle:
//
//	booting ──ready──▶ idle ◀──last line── busy ──▶ ended
//	   │                │ └────attempt──────▶┘        ▲
//	   └────────────────┴── it exits, strays, is replaced, is idle for too long ──┘
//
// A worker is trusted as long as it keeps to the protocol. A last line that is not the running attempt's, a line that is too
// long, a last line that cannot be understood, a standard input that was not read to its end, or an end of descriptor 3:
// after any of these it is unknown to which attempt a later line belongs, so the process is ended, group and all, before
// the row is released. No line settles any attempt but the one whose id and fence it names.
package worker
