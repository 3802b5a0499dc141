package store

// Left is what others may have left to do: other sessions, applications and operators. Their notifications can be missed, and some of what they
// do sends none, so sessions look now and then.
type Left struct {
	Turns   bool        // locks or turns of sequences to be passed on (Promote)
	Ends    bool        // ends of rows that others wait for (Unblock)
	Waiting bool        // rows wait for others, so an end of any row may matter
	Changes bool        // operations or changes of all tasks that match a filter, which have not ended
	Paused  []TypePause // types that are paused, by name
}
