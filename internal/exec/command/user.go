package command

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// credentialOf finds the user, by name or by number, with all of its groups. It is nil where the agent is that user
// already.
func credentialOf(name string) (*syscall.Credential, string, error) {
	u, err := user.Lookup(name)
	if err != nil {
		if _, nan := strconv.ParseUint(name, 10, 32); nan != nil {
			return nil, "", err
		}
		if u, err = user.LookupId(name); err != nil {
			return nil, "", err
		}
	}
	uid, err := number(u.Uid)
	if err != nil {
		return nil, "", err
	}
	if int(uid) == os.Geteuid() {
		return nil, u.HomeDir, nil
	}
	if os.Geteuid() != 0 {
		return nil, "", errors.New("only an agent that runs as root can start commands as another user")
	}
	gid, err := number(u.Gid)
	if err != nil {
		return nil, "", err
	}
	ids, err := u.GroupIds()
	if err != nil {
		return nil, "", err
	}
	c := &syscall.Credential{Uid: uid, Gid: gid}
	for _, id := range ids {
		g, err := number(id)
		if err != nil {
			return nil, "", err
		}
		c.Groups = append(c.Groups, g)
	}
	return c, u.HomeDir, nil
}

func number(id string) (uint32, error) {
	n, err := strconv.ParseUint(id, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("id %q is not a number: %w", id, err)
	}
	return uint32(n), nil
}
