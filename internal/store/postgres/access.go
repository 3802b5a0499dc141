package postgres

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leasehold/leasehold/internal/store"
)

const (
	codePassword  = "28P01" // invalid_password
	codeAuthorize = "28000" // invalid_authorization_specification: no such role, or pg_hba.conf does not let it in
	codeDatabase  = "3D000" // invalid_catalog_name
	codePrivilege = "42501" // insufficient_privilege
)

// explain makes an error that no further try changes a *store.AccessError with the remedy, and returns every other as it
// is.
func explain(err error) error {
	if err == nil {
		return nil
	}
	if _, done := errors.AsType[*store.AccessError](err); done {
		return err
	}
	connect, connecting := errors.AsType[*pgconn.ConnectError](err)
	var text string
	switch {
	case connecting && connect.Config != nil:
		text = refused(connect, err)
	case code(err) == codePrivilege:
		text = "the store's role lacks a privilege (" + words(err) + "): grant it as the schema's owner " +
			"(`leasehold migrate grants --role ROLE` prints what an application needs, with --operator what an operator's SQL needs, with --agent what " +
			"agents and these commands need), " +
			"or connect as the role that owns the schema"
	}
	if text == "" {
		return err
	}
	return &store.AccessError{Text: text, Err: err}
}

// refused is why no connection can be made, and the remedy; "" where another try may succeed. One server of several that
// answers so is enough: its answer is about the URL, and a server that is down proves nothing.
func refused(connect *pgconn.ConnectError, err error) string {
	const where = "in the store's URL (--store, LEASEHOLD_STORE or the store block)"
	user, database := connect.Config.User, connect.Config.Database
	switch code(err) {
	case codePassword:
		return fmt.Sprintf("the store refuses the password of the user %q (%s): correct it %s, or in PGPASSWORD or ~/.pgpass",
			user, words(err), where)
	case codeAuthorize:
		remedy := "create the role (CREATE ROLE … LOGIN), allow it in pg_hba.conf, or name another user " + where
		if strings.Contains(words(err), "no encryption") {
			remedy = "the server may require TLS: set sslmode=require " + where + ", or allow the role in pg_hba.conf"
		}
		return fmt.Sprintf("the store does not let the user %q in (%s): %s", user, words(err), remedy)
	case codeDatabase:
		return fmt.Sprintf("the store's server has no database %q (%s): create it (CREATE DATABASE), or name another %s",
			database, words(err), where)
	case codePrivilege:
		return fmt.Sprintf("the user %q may not connect to the database %q (%s): GRANT CONNECT ON DATABASE, or name another user %s",
			user, database, words(err), where)
	}
	return refusedTLS(connect, where)
}

// refusedTLS is refused for TLS. Where the URL allows a connection without, the failure of the one with TLS proves
// nothing.
func refusedTLS(connect *pgconn.ConnectError, where string) string {
	if connect.Config.TLSConfig == nil {
		return ""
	}
	for _, f := range connect.Config.Fallbacks {
		if f.TLSConfig == nil {
			return ""
		}
	}
	if strings.Contains(connect.Error(), "server refused TLS connection") { // pgconn has no type for it
		return "the store's server offers no TLS, which the URL requires: turn ssl on in postgresql.conf, or, on a network " +
			"that is trusted, set sslmode=disable " + where
	}
	if cert, ok := errors.AsType[*tls.CertificateVerificationError](connect); ok {
		return fmt.Sprintf("the certificate of the store's server is not accepted (%v): set sslrootcert to the file of its CA %s",
			cert.Err, where)
	}
	// With sslmode=verify-ca pgconn verifies the chain itself, and hands on what crypto/x509 says.
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var host x509.HostnameError
	if errors.As(connect, &unknown) || errors.As(connect, &invalid) || errors.As(connect, &host) {
		return "the certificate of the store's server is not accepted: set sslrootcert to the file of its CA " + where
	}
	return ""
}

// words are the server's own.
func words(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Message
	}
	return err.Error()
}
