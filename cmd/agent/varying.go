package main

import (
	"context"
	"sync"
)

// varying is a setting that a reload may change. It is safe for use by many at once.
type varying[T comparable] struct {
	mu      sync.Mutex
	value   T
	changed chan struct{} // closed when value is another one
}

func vary[T comparable](value T) *varying[T] {
	return &varying[T]{value: value, changed: make(chan struct{})}
}

// get returns the value, and a channel that is closed when it is another one.
func (v *varying[T]) get() (value T, changed <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.value, v.changed
}

// set sets the value. It does not block.
func (v *varying[T]) set(value T) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if value == v.value {
		return
	}
	v.value = value
	close(v.changed)
	v.changed = make(chan struct{})
}

// renewed is a part that works under a setting until its context ends, and begins anew when the setting changes.
func renewed[T comparable](name string, v *varying[T], work func(context.Context, T) error) part {
	return untilCancelled(name, func(ctx context.Context) error {
		for ctx.Err() == nil {
			value, changed := v.get()
			under, cancel := context.WithCancel(ctx)
			stop := make(chan struct{})
			go func() { // ends with work
				defer close(stop)
				select {
				case <-changed:
					cancel()
				case <-under.Done():
				}
			}()
			err := work(under, value)
			cancel()
			<-stop
			if err != nil {
				return err
			}
		}
		return nil
	})
}
