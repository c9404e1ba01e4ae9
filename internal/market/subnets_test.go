package market

import (
	"errors"
	"slices"
	"testing"
)

// R10: zones are compared by id; and what is not known is not shown as none.
func TestR10_SubnetsOfAZone(t *testing.T) {
	s := Subnets{byZone: map[string][]string{"use2-az1": {"subnet-1", "subnet-2"}}, nearByZone: map[string][]string{"use2-az2": {"subnet-3"}}}
	for zone, want := range map[string]struct {
		own, near []string
		rank      int
	}{
		"use2-az1": {[]string{"subnet-1", "subnet-2"}, []string{}, 0}, "use2-az2": {[]string{}, []string{"subnet-3"}, 1},
		"use2-az3": {[]string{}, []string{}, 2}, "us-east-2a": {[]string{}, []string{}, 2},
		"": {nil, nil, 2}, // EC2 may show no zone until a block opens
	} {
		use := s.In(zone)
		if !slices.Equal(use.Subnets, want.own) || !slices.Equal(use.Neighbours, want.near) || (use.Subnets == nil) != (want.own == nil) || use.Rank() != want.rank {
			t.Errorf("zone %q: %+v with rank %d, want %+v", zone, use, use.Rank(), want)
		}
	}
	s.Err = errors.New("access denied")
	if use := s.In("use2-az1"); use.Subnets != nil || use.Neighbours != nil {
		t.Errorf("it is not known, and still %+v", use)
	}
}
