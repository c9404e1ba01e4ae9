package main

import (
	"testing"

	"github.com/pcs-capacity/pcs-capacity/internal/market"
)

func TestSubnetCell(t *testing.T) {
	for want, use := range map[string]market.ZoneUse{
		"subnet-1, …": {Subnets: []string{"subnet-1", "subnet-2"}, Neighbours: []string{}},
		"subnet-1":    {Subnets: []string{"subnet-1"}, Neighbours: []string{"subnet-3"}},
		"(subnet-3)":  {Subnets: []string{}, Neighbours: []string{"subnet-3"}},
		"":            {Subnets: []string{}, Neighbours: []string{}},
		"?":           {},
	} {
		if got := subnetCell(use); got != want {
			t.Errorf("%+v is shown as %q, want %q", use, got, want)
		}
	}
}
