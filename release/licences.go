package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// module is one of those that a binary consists of.
type module struct {
	path, version, sum string
	licences           []string // SPDX identifiers, sorted; all of them apply
	notices            []notice
}

// notice is a file that has to come with every copy of the module: its licence, or what the licence names.
type notice struct{ name, text string }

// modules returns the modules of a binary by path, Go's standard library first. One whose licence is not recognised is an error: it may not
// permit a release.
func (r *release) modules(ctx context.Context, b *binary) ([]module, error) {
	goroot, err := r.goOutput(ctx, b, "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	dirs := map[string]string{}
	list := []module{{path: "stdlib", version: strings.TrimPrefix(b.info.GoVersion, "go")}}
	dirs["stdlib"] = strings.TrimSpace(string(goroot))
	args := []string{"mod", "download", "-json"}
	for _, m := range b.info.Deps {
		if m.Replace != nil {
			return nil, fmt.Errorf("%s is replaced: a release has the modules that go.mod requires", m.Path)
		}
		list = append(list, module{path: m.Path, version: m.Version, sum: m.Sum})
		args = append(args, m.Path+"@"+m.Version)
	}
	out, err := r.goOutput(ctx, b, args...)
	if err != nil {
		return nil, err
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var one struct{ Path, Dir string }
		if err := dec.Decode(&one); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		dirs[one.Path] = one.Dir
	}
	for i := range list {
		if err := list[i].read(dirs[list[i].path]); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func (r *release) goOutput(ctx context.Context, b *binary, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, "go", args...)
	c.Dir, c.Env = r.repository, r.environment(b)
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w: %s", args[0], err, stderrOf(err))
	}
	return out, nil
}

var noticeFile = regexp.MustCompile(`(?i)licen[sc]e|copying|copyright|notice|patents`)

// read reads the notices from the module's directory, and recognises the licences in them.
func (m *module) read(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("licence of %s: %w", m.path, err)
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || !noticeFile.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		m.notices = append(m.notices, notice{e.Name(), string(text)})
		m.licences = append(m.licences, licencesIn(string(text))...)
	}
	slices.Sort(m.licences)
	m.licences = slices.Compact(m.licences)
	if len(m.licences) == 0 {
		return fmt.Errorf("no file in %s has a licence that licences.go knows: read it, and add it there if it permits this use", dir)
	}
	return nil
}

// licencesIn recognises a licence by the sentence that no other has. A file with several licences gets all of them.
func licencesIn(text string) (found []string) {
	text = strings.Join(strings.Fields(text), " ")
	has := func(phrase string) bool { return strings.Contains(text, phrase) }
	if has("Apache License Version 2.0, January 2004") || has("Licensed under the Apache License, Version 2.0") {
		found = append(found, "Apache-2.0")
	}
	if has("Permission is hereby granted, free of charge, to any person obtaining a copy") {
		found = append(found, "MIT")
	}
	if has("Redistribution and use in source and binary forms, with or without modification") {
		if regexp.MustCompile(`(?i)neither the names? of|used to endorse or promote`).MatchString(text) {
			found = append(found, "BSD-3-Clause")
		} else {
			found = append(found, "BSD-2-Clause")
		}
	}
	if has("Mozilla Public License, version 2.0") || has("Mozilla Public License Version 2.0") {
		found = append(found, "MPL-2.0")
	}
	if has("Permission to use, copy, modify, and/or distribute this software") || has("Permission to use, copy, modify, and distribute this software") {
		found = append(found, "ISC")
	}
	return found
}

// noticesOf is the file with the notices of all modules.
func noticesOf(modules []module) string {
	var b strings.Builder
	b.WriteString("Leasehold's binary contains these modules, under these licences.\n")
	for _, m := range modules {
		fmt.Fprintf(&b, "\n%s\n%s %s (%s)\n", strings.Repeat("=", 78), m.path, m.version, strings.Join(m.licences, " AND "))
		for _, n := range m.notices {
			fmt.Fprintf(&b, "\n--- %s\n\n%s\n", n.name, strings.TrimRight(n.text, "\n"))
		}
	}
	return b.String()
}
