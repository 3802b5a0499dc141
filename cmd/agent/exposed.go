package main

import (
	"net/url"
	"strings"
)

// exposed reports whether the command line of this process names a store with its password. Every user of the machine
// can read that for as long as the process runs.
func exposed(args []string) bool {
	for i, arg := range args {
		value, ok := strings.CutPrefix(arg, "--store=")
		if !ok && arg == "--store" && i+1 < len(args) {
			value, ok = args[i+1], true
		}
		if ok && hasPassword(value) {
			return true
		}
	}
	return false
}

// hasPassword reports whether a store's URL has a password in it, in front of the host or as a parameter.
func hasPassword(store string) bool {
	u, err := url.Parse(store)
	if err != nil { // a character in the password that should be escaped, mostly
		_, rest, _ := strings.Cut(store, "://")
		user, _, found := strings.Cut(rest, "@")
		return found && strings.Contains(user, ":")
	}
	password, _ := u.User.Password()
	query := u.Query()
	return password != "" || query.Get("password") != "" || query.Get("sslpassword") != ""
}
