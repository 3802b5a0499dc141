package v1

// getDoctor answers with what is found, and with 200 whatever that is: the answer says whether the store is healthy. However many ask, the store
// is examined once, so this needs no turn in it.
func (a *API) getDoctor(c *call) (any, error) {
	if err := c.query.end(); err != nil {
		return nil, err
	}
	found, err := a.Checkups.Look(c.ctx)
	if err != nil {
		return nil, errBusy
	}
	return found, nil
}
