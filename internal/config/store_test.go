package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStoreURLs(t *testing.T) {
	for in, want := range map[string]string{
		"sqlite:a.db": "sqlite:/conf/a.db", "sqlite:./x/../a.db": "sqlite:/conf/a.db", "sqlite:/var/a.db": "sqlite:/var/a.db",
		"sqlite:///var/a.db": "sqlite:/var/a.db", "postgres://h/db": "postgres://h/db",
		"postgresql://u:p@h1:5432,h2:5433/db?sslmode=disable": "postgresql://u:p@h1:5432,h2:5433/db?sslmode=disable",
		"postgres:///db?host=/run/postgresql":                 "postgres:///db?host=/run/postgresql",
		"sqlite:":                                             "", "sqlite::memory:": "", "sqlite:a.db?mode=ro": "", "sqlite://a.db": "", "sqlite:file:a.db": "",
		"": "", "a.db": "", "postgres:h": "", "mysql://h": "",
	} {
		got, err := storeURL("/conf", in)
		if want == "" {
			require.Error(t, err, in)
			continue
		}
		require.NoError(t, err, in)
		require.Equal(t, want, got)
	}
}
