package slurmlab

import (
	"context"
	"time"
)

// Until looks until ok, and returns the error of ctx if that ends first. Most looks start a program of Slurm's, which
// costs a core some 50 ms. So the pause between two is eight times as long as a look took, from 50 ms to 3 s: one test
// that waits takes a ninth of a core at most, and the less the busier the machine is.
func Until(ctx context.Context, ok func() bool) error {
	for {
		began := time.Now()
		if ok() {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(max(8*time.Since(began), 50*time.Millisecond), 3*time.Second)):
		}
	}
}
