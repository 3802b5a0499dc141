package store

// AccessError says that the server is there and does not let this program in or do its work, in a way that trying again
// does not change: a wrong password, a missing database, role or privilege, TLS that one side requires and the other does
// not offer.
type AccessError struct {
	Text string // what is wrong, with the server's own words, and the remedy; without the password
	Err  error  // as the driver reported it
}

func (e *AccessError) Error() string { return e.Text }

func (e *AccessError) Unwrap() error { return e.Err }
