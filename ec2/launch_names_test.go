package ec2

import (
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

func TestWhatLaunchesName(t *testing.T) {
	_, c := newSim(t)
	groups, err := c.SecurityGroups(t.Context(), []string{"sg-0ffffffffffffffff", "sg-0e2000000000000a1", "x"})
	if err != nil || len(groups) != 1 || groups["sg-0e2000000000000a1"].VPC != "vpc-0e2000000000000a1" || len(groups["sg-0e2000000000000a1"].Rules) != 3 {
		t.Errorf("security groups %v, %v", groups, err)
	}
	if groups, err := c.SecurityGroups(t.Context(), nil); err != nil || len(groups) > 0 {
		t.Errorf("no security groups: %v, %v", groups, err)
	}
	for name, want := range map[string]bool{"admin": true, "nobody": false} {
		if has, err := c.HasKeyPair(t.Context(), name); err != nil || has != want {
			t.Errorf("key pair %s: %v, %v", name, has, err)
		}
	}
	for name, want := range map[string]bool{"ml-cluster": true, "nowhere": false} {
		if has, err := c.HasPlacementGroup(t.Context(), name); err != nil || has != want {
			t.Errorf("placement group %s: %v, %v", name, has, err)
		}
	}
}

// A failed question is never "none" (R8).
func TestR8_WhatCouldNotBeAskedIsAnError(t *testing.T) {
	sim, c := newSim(t)
	if _, err := sim.AddFault(awssim.Fault{Effect: awssim.FailBefore, Code: "UnauthorizedOperation"}); err != nil {
		t.Fatal(err)
	}
	_, groups := c.SecurityGroups(t.Context(), []string{"sg-0e2000000000000a1"})
	_, key := c.HasKeyPair(t.Context(), "admin")
	_, placement := c.HasPlacementGroup(t.Context(), "ml-cluster")
	for what, err := range map[string]error{"security groups": groups, "key pair": key, "placement group": placement} {
		if Code(err) != "UnauthorizedOperation" {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// An ODCR in a placement group: launches go there, whatever the copied template says.
func TestPlacementGroupOfAReservation(t *testing.T) {
	sim, c := newSim(t)
	spec := capacity.LaunchTemplateSpec{Name: "t", From: "lt-0e2000000000000a2", FromVersion: "1", InstanceType: "c7i.4xlarge",
		ReservationID: "cr-0e200000000000a14", Kind: capacity.ODCR, PlacementGroup: "ml-cluster"}
	data, err := c.templateData(t.Context(), spec)
	if err != nil || data.Placement == nil || *data.Placement.GroupName != "ml-cluster" {
		t.Errorf("placement %+v, %v", data.Placement, err)
	}
	made, err := sim.Launch(awssim.LaunchRequest{Region: homeRegion, MinCount: 2, MaxCount: 2, InstanceType: "c7i.4xlarge", ImageID: "ami-0e200000000000a01",
		SubnetID: subnetA, ReservationID: "cr-0e200000000000a14"})
	if err != nil {
		t.Fatal(err)
	}
	found, err := c.InstancesInReservation(t.Context(), "cr-0e200000000000a14")
	if err != nil || len(found) != 2 || found[0].ID != made[0].ID {
		t.Errorf("instances in the reservation %+v, %v", found, err)
	}
}
