package processes

import "time"

// Process is one process: the number may be another's later, but not with the same time of its start.
type Process struct {
	ID      int
	Started time.Duration // by CLOCK_BOOTTIME, cut to 10 ms
}

// Members lists what lives in a group, or carries the run's mark on that number wherever it is. Zombies are dead and not
// listed. A process that cannot be looked at, and has left the group, is passed over.
func Members(r Run, number uint64, pgid int) (map[Process]struct{}, error) {
	pids, err := all()
	if err != nil {
		return nil, err
	}
	members := make(map[Process]struct{})
	var look environReader
	for _, pid := range pids {
		s, err := readStat(pid)
		if err != nil || s.dead() { // an error: it has ended
			continue
		}
		marked := s.group == pgid
		if !marked {
			n, ok := r.find(look.environ(pid))
			marked = ok && n == number
		}
		if marked {
			members[Process{ID: pid, Started: s.started}] = struct{}{}
		}
	}
	return members, nil
}
