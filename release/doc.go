// Command release builds what a release consists of, for `make release`: for each platform a static binary in a tarball, for Linux a Debian
// package, a list of the modules in each binary with their licences (SBOM), and the checksums of all.
//
// The same commit gives the same bytes, whatever directory, user, umask and time zone it is built with: the Go release is that of
// deploy/Dockerfile, the settings of the build do not depend on the environment, and every time in an archive is that of the commit.
//
// It is a module of its own, so that Leasehold does not depend on what only this needs.
package main
