package state

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestLockPass(t *testing.T) {
	dir := Dir(t.TempDir())
	unlock, err := dir.LockPass(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := dir.LockPass(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a second pass while the first runs: %v", err)
	}
	got := make(chan error)
	go func() {
		second, err := dir.LockPass(t.Context())
		if err == nil {
			second()
		}
		got <- err
	}()
	unlock()
	if err := <-got; err != nil {
		t.Fatalf("after the first has ended: %v", err)
	}
}
