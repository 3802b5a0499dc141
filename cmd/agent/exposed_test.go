package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExposed(t *testing.T) {
	for _, c := range []struct {
		args []string
		want bool
	}{
		{nil, false},
		{[]string{"run", "--store"}, false},
		{[]string{"run", "--store", "postgres://agent@db/app"}, false},
		{[]string{"run", "--store", "postgres://agent:@db/app"}, false},
		{[]string{"run", "--store", "sqlite:leasehold.db"}, false},
		{[]string{"run", "postgres://agent:secret@db/app"}, false}, // a file of that name
		{[]string{"run", "--store", "postgres://agent:secret@db/app"}, true},
		{[]string{"run", "--store=postgres://agent:secret@db/app", "a.hcl"}, true},
		{[]string{"run", "--store=postgres://agent@db/app?password=secret"}, true},
		{[]string{"run", "--store=postgres://agent@db/app?sslmode=verify-full&sslpassword=secret"}, true},
		{[]string{"run", "--store=postgres://agent:100%@db/app"}, true},
	} {
		require.Equal(t, c.want, exposed(c.args), "%q", c.args)
	}
}
