package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// writeSBOM writes what a binary consists of as CycloneDX: the modules that the Go tool has recorded in it, and no more than those. It has no
// serial number, which would be another each time, and no graph, which a binary does not know.
func writeSBOM(path string, b *binary, modules []module) (err error) {
	sum, err := sha256Of(b.path)
	if err != nil {
		return err
	}
	main := component(cdx.ComponentTypeApplication, b.info.Main.Path, b.info.Main.Version, []string{"Apache-2.0"})
	main.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}}
	main.Properties = &[]cdx.Property{
		{Name: "go:os", Value: b.os}, {Name: "go:arch", Value: b.arch}, {Name: "vcs:revision", Value: b.revision},
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: b.time.UTC().Format(time.RFC3339), Component: &main}
	list := make([]cdx.Component, len(modules))
	for i, m := range modules {
		list[i] = component(cdx.ComponentTypeLibrary, m.path, m.version, m.licences)
		if m.sum != "" {
			list[i].Properties = &[]cdx.Property{{Name: "go:sum", Value: m.sum}}
		}
	}
	bom.Components = &list

	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return cdx.NewBOMEncoder(f, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6)
}

func component(kind cdx.ComponentType, path, version string, licences []string) cdx.Component {
	// As package-url says: a plus would be a space.
	purl := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	choice := cdx.LicenseChoice{Expression: strings.Join(licences, " AND ")}
	if len(licences) == 1 {
		choice = cdx.LicenseChoice{License: &cdx.License{ID: licences[0]}}
	}
	return cdx.Component{
		BOMRef: purl, Type: kind, Name: path, Version: version, PackageURL: purl, Licenses: &cdx.Licenses{choice},
	}
}

// sha256Of is the checksum of a file in hexadecimal.
func sha256Of(path string) (sum string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
