package ec2

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
)

func spec(reservationID string) capacity.LaunchTemplateSpec {
	return capacity.LaunchTemplateSpec{
		Name: "pcs-capacity-ml-gpu-a", From: "lt-0e2000000000000a1", FromVersion: "1",
		ImageID: image, InstanceType: "p5.48xlarge", ReservationID: reservationID, Kind: capacity.CapacityBlock,
		Tags: map[string]string{capacity.TagCluster: "ml", capacity.TagReservation: reservationID},
	}
}

func TestEnsureLaunchTemplate(t *testing.T) {
	sim, c := newSim(t)

	made, err := c.EnsureLaunchTemplate(t.Context(), spec(openBlock))
	if err != nil {
		t.Fatal(err)
	}

	if made.Version != "1" || made.ReservationID != openBlock || made.InstanceType != "p5.48xlarge" ||
		made.ImageID != image ||
		len(made.UserData) == 0 ||
		!slices.Equal(made.SecurityGroupIDs, []string{groupOfAll}) ||
		made.Tags[capacity.TagCluster] != "ml" ||
		made.Digest == "" {
		t.Errorf("made %+v", made)
	}

	again, err := c.EnsureLaunchTemplate(t.Context(), spec(openBlock))
	if err != nil || again.Version != "1" {
		t.Errorf("again: %+v, %v", again, err)
	}

	if n := calls(sim, "CreateLaunchTemplate") + calls(sim, "CreateLaunchTemplateVersion"); n != 1 {
		t.Errorf("%d calls that write", n)
	}

	next, err := c.EnsureLaunchTemplate(t.Context(), spec(laterBlock))
	if err != nil || next.ID != made.ID || next.Version != "2" || next.ReservationID != laterBlock ||
		next.Tags[capacity.TagReservation] != laterBlock {
		t.Errorf("next block: %+v, %v", next, err)
	}
	// Version 1 says what is wanted, but the newest does not.
	back, err := c.EnsureLaunchTemplate(t.Context(), spec(openBlock))
	if err != nil || back.Version != "3" || back.Digest != made.Digest {
		t.Errorf("back: %+v, %v", back, err)
	}

	if planned, err := c.PlannedTemplate(t.Context(), spec(openBlock)); planned.Digest != made.Digest || err != nil {
		t.Errorf("digest %s, %v; want %s", planned.Digest, err, made.Digest)
	}

	listed, err := c.LaunchTemplatesByTag(t.Context(), map[string]string{capacity.TagCluster: "ml"})
	if err != nil || len(listed) != 1 || listed[0].Version != "3" {
		t.Errorf("by tag: %v, %v", listed, err)
	}

	for range 2 {
		if err := c.DeleteLaunchTemplate(t.Context(), made.Name, "ml"); err != nil {
			t.Fatal(err)
		}
	}

	if _, found, err := c.LaunchTemplate(t.Context(), made.ID, ""); found || err != nil {
		t.Errorf("found after deletion: %v, %v", found, err)
	}

	if anew, err := c.EnsureLaunchTemplate(t.Context(), spec(openBlock)); err != nil || anew.ID == made.ID {
		t.Errorf("made anew: %+v, %v", anew, err)
	}
}

func TestEnsureLaunchTemplateOverrides(t *testing.T) {
	_, c := newSim(t)
	s := spec(gpuODCR)
	s.Kind, s.InstanceType = capacity.ODCR, "g6.12xlarge"
	s.UserData = []byte("#!/bin/sh\n")

	data, err := c.templateData(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}

	if data.InstanceMarketOptions != nil ||
		*data.CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId != gpuODCR {
		t.Errorf("an ODCR has market %v, target %v", data.InstanceMarketOptions, data.CapacityReservationSpecification)
	}

	if *data.UserData != "IyEvYmluL3NoCg==" {
		t.Errorf("user data %q", *data.UserData)
	}

	s.Kind, s.ReservationID = capacity.OnDemand, ""
	if data, err = c.templateData(t.Context(), s); err != nil || data.CapacityReservationSpecification != nil {
		t.Errorf("on demand has %v, %v", data.CapacityReservationSpecification, err)
	}

	s.From = "lt-0ffffffffffffffff"
	if _, err := c.EnsureLaunchTemplate(t.Context(), s); err == nil {
		t.Error("a template that is not there is copied")
	}
}

// Launches on demand that go into the ODCRs of a group only.
func TestTemplateTargetsAGroup(t *testing.T) {
	_, c := newSim(t)
	s := spec("")
	s.Kind = capacity.OnDemand
	s.ReservationGroup = "arn:aws:resource-groups:us-east-2:111122223333:group/pcs-capacity-ml-gpu"

	made, err := c.EnsureLaunchTemplate(t.Context(), s)
	if err != nil || made.ReservationGroup != s.ReservationGroup || made.NoTarget || made.Market != "" {
		t.Errorf("made %+v, %v", made, err)
	}

	v, err := c.version(t.Context(), pinnedRef(types.LaunchTemplateVersion{
		LaunchTemplateId: &made.ID,
		VersionNumber:    aws.Int64(1),
	}), 0)
	if err != nil || v.LaunchTemplateData.CapacityReservationSpecification.CapacityReservationPreference !=
		types.CapacityReservationPreferenceCapacityReservationsOnly {
		t.Errorf("written %+v, %v", v.LaunchTemplateData.CapacityReservationSpecification, err)
	}

	if again, err := c.EnsureLaunchTemplate(t.Context(), s); err != nil || again.Version != made.Version {
		t.Errorf("again: %+v, %v", again, err)
	}

	s.ReservationGroup = ""
	if free, err := c.EnsureLaunchTemplate(t.Context(), s); err != nil || free.ReservationGroup != "" ||
		free.Version != "2" {
		t.Errorf("without the group: %+v, %v", free, err)
	}
}

func TestR9_ForeignLaunchTemplateIsLeftAlone(t *testing.T) {
	sim, c := newSim(t)
	s := spec(openBlock)
	s.Name = "ml-compute"
	if _, err := c.EnsureLaunchTemplate(t.Context(), s); !errors.Is(err, ErrNotOurs) {
		t.Errorf("error %v", err)
	}

	if err := c.DeleteLaunchTemplate(t.Context(), "ml-compute", "ml"); !errors.Is(err, ErrNotOurs) {
		t.Errorf("deleting: %v", err)
	}

	for key, n := range sim.Calls() {
		if n > 0 &&
			slices.Contains(
				[]string{"CreateLaunchTemplate", "CreateLaunchTemplateVersion", "DeleteLaunchTemplate", "CreateTags"},
				key.Operation,
			) {
			t.Errorf("%s was called", key.Operation)
		}
	}
}

// However a call ends, a rerun leaves one template with one version.
func TestR5_EnsureLaunchTemplateAfterFailures(t *testing.T) {
	t.Setenv("AWS_MAX_ATTEMPTS", "1") // the SDK would wait between its own attempts

	for _, effect := range []awssim.Effect{awssim.FailBefore, awssim.FailAfter, awssim.CutBefore, awssim.CutAfter} {
		for _, operation := range []string{"CreateLaunchTemplate", "DescribeLaunchTemplateVersions"} {
			sim, c := newSim(t)
			fault(t, sim, awssim.Fault{Effect: effect, Operation: operation})

			if _, err := c.EnsureLaunchTemplate(t.Context(), spec(openBlock)); err == nil {
				t.Errorf("%s of %s is no error", effect, operation)
			}

			sim.ClearFaults()

			made, err := c.EnsureLaunchTemplate(t.Context(), spec(openBlock))
			if err != nil || made.Version != "1" {
				t.Errorf("%s of %s, then: %+v, %v", effect, operation, made, err)
			}
		}

		for _, operation := range []string{"CreateTags", "CreateLaunchTemplateVersion"} {
			sim, c := newSim(t)
			if _, err := c.EnsureLaunchTemplate(t.Context(), spec(openBlock)); err != nil {
				t.Fatal(err)
			}

			fault(t, sim, awssim.Fault{Effect: effect, Operation: operation, Count: 1})

			_, _ = c.EnsureLaunchTemplate(t.Context(), spec(laterBlock))
			next, err := c.EnsureLaunchTemplate(t.Context(), spec(laterBlock))
			if err != nil || next.Version != "2" || next.ReservationID != laterBlock ||
				next.Tags[capacity.TagReservation] != laterBlock {
				t.Errorf("%s of %s, then: %+v, %v", effect, operation, next, err)
			}
		}
	}
}

// A copy always gets IMDSv2 and the new root volume, and loses what belongs to its old instance type.
func TestEnsureLaunchTemplateMetadataAndVolume(t *testing.T) {
	_, c := newSim(t)
	old := &types.RequestLaunchTemplateData{
		InstanceType:        "m7i.large",
		CpuOptions:          &types.LaunchTemplateCpuOptionsRequest{CoreCount: aws.Int32(1)},
		CreditSpecification: &types.CreditSpecificationRequest{CpuCredits: aws.String("unlimited")},
		DisableApiTermination: aws.Bool(
			true,
		),
		Placement: &types.LaunchTemplatePlacementRequest{GroupName: aws.String("ml-cluster")},
		MetadataOptions: &types.LaunchTemplateInstanceMetadataOptionsRequest{
			HttpTokens:              "optional",
			HttpEndpoint:            "disabled",
			HttpPutResponseHopLimit: aws.Int32(2),
		},
		BlockDeviceMappings: []types.LaunchTemplateBlockDeviceMappingRequest{
			{DeviceName: aws.String("/dev/sdb"), VirtualName: aws.String("ephemeral0")},
			{
				DeviceName: aws.String("/dev/xvda"),
				Ebs: &types.LaunchTemplateEbsBlockDeviceRequest{
					VolumeSize: aws.Int32(50),
					VolumeType: "io2",
					Iops:       aws.Int32(1000),
					Encrypted:  aws.Bool(true),
				},
			},
		},
	}
	if _, err := c.api.CreateLaunchTemplate(t.Context(),
		&ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("old"), LaunchTemplateData: old}); err != nil {
		t.Fatal(err)
	}

	for _, test := range []struct {
		from string
		hops *int32
	}{{"old", aws.Int32(2)}, {"", nil}} {
		spec := capacity.LaunchTemplateSpec{
			Name:            "new",
			From:            test.from,
			ImageID:         "ami-0e200000000000a01",
			InstanceType:    "c7i.4xlarge",
			InstanceProfile: "nodes",
			MetadataTags:    true,
			Kind:            capacity.OnDemand,
			Tags:            map[string]string{capacity.TagCluster: "ml"},
		}
		if _, err := c.EnsureLaunchTemplate(t.Context(), spec); err != nil {
			t.Fatal(err)
		}

		v, err := c.version(t.Context(), "new:$Latest", 0)
		if err != nil {
			t.Fatal(err)
		}

		d := v.LaunchTemplateData
		if m := d.MetadataOptions; m.HttpTokens != "required" || m.HttpEndpoint != "enabled" ||
			m.InstanceMetadataTags != "enabled" ||
			!reflect.DeepEqual(m.HttpPutResponseHopLimit, test.hops) {
			t.Errorf("metadata %+v", m)
		}

		if d.CpuOptions != nil || d.CreditSpecification != nil || d.Placement != nil || d.DisableApiTermination != nil {
			t.Errorf("what is of another type, or keeps nodes from being ended, is copied: %+v", d)
		}

		if p := d.IamInstanceProfile; p == nil || aws.ToString(p.Name) != "nodes" {
			t.Errorf("instance profile %+v", p)
		}

		if test.from != "" && (len(d.BlockDeviceMappings) != 2 || *d.BlockDeviceMappings[1].Ebs.VolumeSize != 50) {
			t.Errorf("volumes %+v", d.BlockDeviceMappings)
		}
	}
}

func TestWhatLaunchesName(t *testing.T) {
	_, c := newSim(t)
	groups, err := c.SecurityGroups(t.Context(), []string{"sg-0ffffffffffffffff", "sg-0e2000000000000a1", "x"})
	if err != nil || len(groups) != 1 || len(groups["sg-0e2000000000000a1"]) != 2 {
		t.Errorf("security groups %v, %v", groups, err)
	}

	if groups, err := c.SecurityGroups(t.Context(), nil); err != nil || len(groups) > 0 {
		t.Errorf("no security groups: %v, %v", groups, err)
	}
}

// A failed query is never "none" (R8).
func TestR8_WhatCouldNotBeAskedIsAnError(t *testing.T) {
	sim, c := newSim(t)
	if _, err := sim.AddFault(awssim.Fault{Effect: awssim.FailBefore, Code: "UnauthorizedOperation"}); err != nil {
		t.Fatal(err)
	}

	_, groups := c.SecurityGroups(t.Context(), []string{"sg-0e2000000000000a1"})
	for what, err := range map[string]error{"security groups": groups} {
		if Code(err) != "UnauthorizedOperation" {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// An ODCR in a placement group: launches go there, whatever the copied template says.
func TestPlacementGroupOfAReservation(t *testing.T) {
	_, c := newSim(t)
	spec := capacity.LaunchTemplateSpec{
		Name:           "t",
		From:           "lt-0e2000000000000a2",
		FromVersion:    "1",
		InstanceType:   "c7i.4xlarge",
		ReservationID:  "cr-0e200000000000a14",
		Kind:           capacity.ODCR,
		PlacementGroup: "ml-cluster",
	}

	data, err := c.templateData(t.Context(), spec)
	if err != nil || data.Placement == nil || *data.Placement.GroupName != "ml-cluster" {
		t.Errorf("placement %+v, %v", data.Placement, err)
	}

	spec.PlacementGroup = "pg-0123456789abcdef0"
	byID, err := c.templateData(t.Context(), spec)
	if err != nil || aws.ToString(byID.Placement.GroupId) != spec.PlacementGroup || byID.Placement.GroupName != nil {
		t.Errorf("placement %+v, %v", byID.Placement, err)
	}

	made, err := c.Launch(
		t.Context(),
		capacity.Launch{
			ClientToken:    "t",
			LaunchTemplate: nodes,
			InstanceType:   "c7i.4xlarge",
			SubnetID:       subnetA,
			ReservationID:  "cr-0e200000000000a14",
			Kind:           capacity.ODCR,
			Count:          2,
		},
	)
	if err != nil {
		t.Fatal(err)
	}

	found, err := c.FindInstances(t.Context(), capacity.InstanceQuery{Reservation: "cr-0e200000000000a14"})
	if err != nil || len(found) != 2 || found[0].ID != made[0].ID {
		t.Errorf("instances in the reservation %+v, %v", found, err)
	}
}

// Every field that EC2 can answer with must be in the copy, at every depth, so that --like loses nothing.
func TestCopyByNameIsComplete(t *testing.T) {
	from := &types.ResponseLaunchTemplateData{}
	fill(reflect.ValueOf(from).Elem())

	to := &types.RequestLaunchTemplateData{}
	if err := copyByName(from, to); err != nil {
		t.Fatal(err)
	}
	// Fields that EC2 only returns.
	from.MetadataOptions.State = ""
	from.NetworkInterfaces[0].Ipv6Addresses[0].IsPrimaryIpv6 = nil
	from.Operator.HiddenByDefault, from.Operator.Managed = nil, nil
	if diff := cmp.Diff(tree(t, from), tree(t, to)); diff != "" {
		t.Errorf("the copy differs (-answered +asked):\n%s", diff)
	}
}

func tree(t *testing.T, v any) map[string]any {
	t.Helper()

	said, err := properties(v)
	if err != nil {
		t.Fatal(err)
	}

	return said
}

// fill gives every field a value that is not zero.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(1e9, 0)))
			return
		}

		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i))
			}
		}
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64, reflect.Int:
		v.SetInt(7)
	case reflect.Float64:
		v.SetFloat(7)
	}
}
