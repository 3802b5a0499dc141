//go:build linux

package faults

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/rs/zerolog"
)

// proxy stands between one agent and the database.
type proxy struct {
	*toxiproxy.Proxy
}

// newProxy listens on a port of its own.
func newProxy(name, upstream string) (*proxy, error) {
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := toxiproxy.NewProxy(server, name, "127.0.0.1:0", upstream)
	if err := p.Start(); err != nil {
		return nil, fmt.Errorf("start a proxy: %w", err)
	}
	return &proxy{p}, nil
}

// toxin is a fault of the network.
type toxin struct {
	Name       string         `json:"name"`
	Type       string         `json:"type"`
	Stream     string         `json:"stream"`             // "upstream": what the agent sends
	Toxicity   *float32       `json:"toxicity,omitempty"` // the share of connections that it befalls; nil: all
	Attributes map[string]any `json:"attributes,omitempty"`
}

func (p *proxy) add(t toxin) error {
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	_, err = p.Toxics.AddToxicJson(strings.NewReader(string(text)))
	return err
}

// remove takes a fault away. Connections that lost something because of it are cut off.
func (p *proxy) remove(name string) error { return p.Toxics.RemoveToxic(context.Background(), name) }

// cutToxic cuts a connection off as soon as anything is to go through, which is lost: a reset before a statement, or the
// loss of an answer.
type cutToxic struct{}

// Pipe is Toxic's.
func (cutToxic) Pipe(s *toxics.ToxicStub) {
	select {
	case <-s.Interrupt:
	case <-s.Input:
		s.Close()
	}
}

// deafToxic lets nothing of an answer through until the server is ready for the next question, which is after its
// COMMIT, and cuts the connection off then: what was asked has happened, and the one who asked does not know.
type deafToxic struct {
	To   string `json:"to"`   // what an answer has to contain for it to be lost; "": any is
	Late int64  `json:"late"` // milliseconds before the connection is cut off; 0: quiet
}

// deafState is a connection's.
type deafState struct{ matched bool } // a part of an answer was kept back

// NewState is StatefulToxic's.
func (*deafToxic) NewState() any { return new(deafState) }

// quiet is how long the server has to be silent for its answer to be over.
const quiet = 30 * time.Millisecond

// Pipe is Toxic's.
func (d *deafToxic) Pipe(s *toxics.ToxicStub) {
	state := s.State.(*deafState)
	for {
		over := (<-chan time.Time)(nil)
		if state.matched {
			over = time.After(cmp.Or(time.Duration(d.Late)*time.Millisecond, quiet))
		}
		select {
		case <-s.Interrupt:
			return
		case <-over:
			s.Close()
			return
		case chunk := <-s.Input:
			if chunk == nil {
				s.Close()
				return
			}
			if state.matched = state.matched || strings.Contains(string(chunk.Data), d.To); !state.matched {
				s.Output <- chunk
			}
		}
	}
}

// Cleanup is CleanupToxic's: an answer that lacks its beginning is not gone on with.
func (*deafToxic) Cleanup(s *toxics.ToxicStub) {
	if s.State.(*deafState).matched {
		s.Close()
	}
}

// registerToxics makes our own faults known to the library, once.
func registerToxics() {
	if toxics.New(&toxics.ToxicWrapper{Type: "cut"}) == nil {
		toxics.Register("cut", new(cutToxic))
		toxics.Register("deaf", new(deafToxic))
	}
}
