package v1

import (
	_ "embed" // the document is a file
)

// document describes all of this: OpenAPI 3.1. TestDocument compares it with what there is.
//
//go:embed openapi.json
var document []byte

func (a *API) document(c *call) (any, error) {
	if err := c.query.end(); err != nil {
		return nil, err
	}
	c.w.Header().Set("Content-Type", "application/json")
	// An error here is the client's having gone away.
	_, _ = c.w.Write(document)
	return answered, nil
}

// Document returns the OpenAPI document.
func Document() []byte { return document }
