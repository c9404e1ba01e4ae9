package main

import "testing"

// R10: zones are compared by id; and what is not known is not shown as none.
func TestR10_SubnetsOfAZone(t *testing.T) {
	s := clusterSubnets{byZone: map[string][]string{"use2-az1": {"subnet-1", "subnet-2"}}, nearByZone: map[string][]string{"use2-az2": {"subnet-3"}}}
	for zone, want := range map[string]struct {
		shown string
		rank  int
	}{
		"use2-az1": {"subnet-1, …", 0}, "use2-az2": {"(subnet-3)", 1}, "use2-az3": {"", 2}, "us-east-2a": {"", 2},
		"": {"?", 2}, // EC2 may show no zone until a block opens
	} {
		if use := s.in(zone); use.shown() != want.shown || use.rank() != want.rank {
			t.Errorf("zone %q: %q with rank %d, want %q with %d", zone, use.shown(), use.rank(), want.shown, want.rank)
		}
	}
	s.err = errShown
	if use := s.in("use2-az1"); use.Subnets != nil || use.shown() != "?" {
		t.Errorf("nobody knows, and still %+v", use)
	}
}
