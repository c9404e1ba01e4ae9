package awssim

import "golang.org/x/time/rate"

type bucket = rate.Limiter

// throttle takes a token from the bucket of the call's API and region. Called with mu held.
func (s *Sim) throttle(c *call) error { return nil }
