// Package stage is what the scenarios among the examples share: a working directory, programs in the background, commands
// of the agent's binary, and the output.
package stage

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Options are what a play needs.
type Options struct {
	Name   string        // of the play, for the name of its directory
	Binary string        // of the agent
	Most   time.Duration // how long it may take
	Files  fs.FS         // what is in the directory at first
}

// Stage is where one play takes place.
type Stage struct {
	Dir string   // of the play; programs and commands start in it
	Env []string // of programs and commands, beside the user's own

	binary  string
	began   time.Time
	colour  bool
	started []*Process
}

// Run makes a directory, plays in it, stops what still runs and removes the directory. A play that fails, or takes too
// long, ends with what its programs said last, on standard error.
func Run(user context.Context, o Options, run func(context.Context, *Stage) error) (err error) {
	ctx, cancel := context.WithTimeoutCause(user, o.Most, fmt.Errorf("it took more than %s", o.Most))
	defer cancel()
	s := &Stage{began: time.Now(), colour: hasColour()}
	if s.binary, err = filepath.Abs(o.Binary); err != nil {
		return err
	}
	if s.Dir, err = os.MkdirTemp("", "leasehold-"+o.Name+"-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.Dir)) }()
	if err := os.CopyFS(s.Dir, o.Files); err != nil {
		return err
	}
	s.Env = []string{"LEASEHOLD_CONFIG=", "LEASEHOLD_STORE="} // settings of the user's own agent do not apply
	s.Say("Everything happens in %s, which is removed at the end.", s.Dir)
	err = errors.Join(run(ctx, s), s.close())
	if user.Err() != nil {
		return errors.New("interrupted")
	}
	if err != nil {
		s.tails()
	}
	return err
}

// close stops what still runs, the last that was started first.
func (s *Stage) close() error {
	var errs []error
	for _, p := range slices.Backward(s.started) {
		if !p.over {
			errs = append(errs, p.Stop(20*time.Second))
		}
	}
	return errors.Join(errs...)
}

// tails prints the end of what each program said.
func (s *Stage) tails() {
	shown := make(map[string]bool) // by name: programs of the same name write to one file
	for _, p := range s.started {
		if !shown[p.name] {
			fmt.Fprintf(os.Stderr, "\n--- what the %s said last ---\n%s", p.name, p.Tail())
		}
		shown[p.name] = true
	}
}

// Leasehold runs a command of the agent's binary and returns what it prints.
func (s *Stage) Leasehold(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, s.binary, args...)
	cmd.Dir, cmd.Env = s.Dir, append(os.Environ(), s.Env...)
	var out, problem bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problem
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("leasehold %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(problem.String()))
	}
	return out.String(), nil
}

// StartAgent starts an agent with these files, or with leasehold.hcl, and waits until it is ready.
func (s *Stage) StartAgent(ctx context.Context, name string, files ...string) (*Process, error) {
	agent, err := s.Start(ctx, name, s.binary, append([]string{"run"}, files...)...)
	if err != nil {
		return nil, err
	}
	return agent, Until(ctx, "the agent was ready", func() bool {
		return agent.Ended() || strings.Contains(agent.Tail(), "agent ready")
	})
}

// Secret makes a secret that webhooks are signed with.
func Secret() string {
	secret := make([]byte, 24)
	_, _ = rand.Read(secret) // never fails
	return "whsec_" + base64.StdEncoding.EncodeToString(secret)
}
