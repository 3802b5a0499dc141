package ops

import (
	"context"
	"fmt"
	"slices"

	"github.com/leasehold/leasehold/internal/store"
)

// Pauses is what operators' work on paused types needs of the store.
type Pauses interface {
	// Pauses lists the types that are paused, by name, 10,000 at most.
	Pauses(ctx context.Context) ([]store.TypePause, error)
	// PauseType has agents claim no rows of a type, within a second. It reports whether it was not paused before: a pause keeps its time, its
	// reason and who wanted it. typ has 1 to 255 bytes, reason and by 512 at most.
	PauseType(ctx context.Context, typ, reason, by string) (changed bool, err error)
	// ResumeType has agents claim rows of a type again. It reports whether it was paused.
	ResumeType(ctx context.Context, typ, by string) (changed bool, err error)
}

// Paused is what a pause or a resumption changed.
type Paused struct {
	Type    string           `json:"type"`
	Paused  bool             `json:"paused"`
	Changed bool             `json:"changed"`
	Pause   *store.TypePause `json:"pause,omitempty"` // as it is kept
}

// SetPaused pauses a type, or resumes it. What no store would take is an *InputError.
func SetPaused(ctx context.Context, s Pauses, typ string, pause bool, reason, by string) (p Paused, err error) {
	if err := checkChange(typ, reason, by); err != nil {
		return p, err
	}
	p = Paused{Type: typ, Paused: pause}
	if !pause {
		p.Changed, err = s.ResumeType(ctx, typ, by)
		return p, err
	}
	if p.Changed, err = s.PauseType(ctx, typ, reason, by); err != nil {
		return p, err
	}
	p.Pause, err = PauseOf(ctx, s, typ)
	return p, err
}

// checkChange finds what no store would take of a change of a type.
func checkChange(typ, reason, by string) error {
	switch {
	case typ == "" || len(typ) > store.MaxType || !store.Storable(typ):
		return &store.InputError{Text: fmt.Sprintf("a type is UTF-8 without NUL, of 1 to %d bytes", store.MaxType)}
	case len(reason) > store.MaxReason || !store.Storable(reason):
		return &store.InputError{Text: fmt.Sprintf("the reason must be UTF-8 without NUL, %d bytes at most", store.MaxReason)}
	}
	return checkBy(by)
}

// PauseOf returns the pause of a type; nil where it is not paused.
func PauseOf(ctx context.Context, s interface {
	Pauses(ctx context.Context) ([]store.TypePause, error)
}, typ string) (*store.TypePause, error) {
	list, err := s.Pauses(ctx)
	if i := slices.IndexFunc(list, func(p store.TypePause) bool { return p.Type == typ }); err == nil && i >= 0 {
		return &list[i], nil
	}
	return nil, err
}

// PausedSince says since when a type is paused, and what else is known of that.
func PausedSince(p *store.TypePause) string {
	text := "since " + p.At.UTC().Format("2006-01-02T15:04:05Z")
	if p.By != "" {
		text += " by " + OneLine(p.By, 100)
	}
	if p.Reason != "" {
		text += fmt.Sprintf(" (%s)", OneLine(p.Reason, 200))
	}
	return text
}
