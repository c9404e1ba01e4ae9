package ec2

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
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
	if made.Version != "1" || made.ReservationID != openBlock || made.InstanceType != "p5.48xlarge" || made.ImageID != image ||
		len(made.UserData) == 0 || !slices.Equal(made.SecurityGroupIDs, []string{groupOfAll}) || made.Tags[capacity.TagCluster] != "ml" || made.Digest == "" {
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
	if err != nil || next.ID != made.ID || next.Version != "2" || next.ReservationID != laterBlock || next.Tags[capacity.TagReservation] != laterBlock {
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
	if data.InstanceMarketOptions != nil || *data.CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId != gpuODCR {
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
		if n > 0 && slices.Contains([]string{"CreateLaunchTemplate", "CreateLaunchTemplateVersion", "DeleteLaunchTemplate", "CreateTags"}, key.Operation) {
			t.Errorf("%s was called", key.Operation)
		}
	}
}

// Whatever becomes of a call, running again ends in one template with one version.
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
	}
}

// Whatever the copy says, the metadata is IMDSv2; a root volume is laid over that of the copy,
// and what goes with its old type does not stay.
func TestEnsureLaunchTemplateMetadataAndVolume(t *testing.T) {
	_, c := newSim(t)
	old := &types.RequestLaunchTemplateData{
		MetadataOptions: &types.LaunchTemplateInstanceMetadataOptionsRequest{HttpTokens: "optional", HttpEndpoint: "disabled", HttpPutResponseHopLimit: aws.Int32(2)},
		BlockDeviceMappings: []types.LaunchTemplateBlockDeviceMappingRequest{
			{DeviceName: aws.String("/dev/sdb"), VirtualName: aws.String("ephemeral0")},
			{DeviceName: aws.String("/dev/xvda"), Ebs: &types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: aws.Int32(50), VolumeType: "io2", Iops: aws.Int32(1000), Encrypted: aws.Bool(true)}},
		},
	}
	if _, err := c.api.CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("old"), LaunchTemplateData: old}); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		from string
		hops *int32
	}{{"old", aws.Int32(2)}, {"", nil}} {
		spec := capacity.LaunchTemplateSpec{Name: "new", From: test.from, ImageID: "ami-0e200000000000a01", InstanceType: "c7i.4xlarge", InstanceProfile: "nodes", MetadataTags: true, Kind: capacity.OnDemand, Tags: map[string]string{capacity.TagCluster: "ml"}}
		if _, err := c.EnsureLaunchTemplate(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		_, v, _, err := c.readTemplate(t.Context(), "new", "")
		if err != nil {
			t.Fatal(err)
		}
		d := v.LaunchTemplateData
		if m := d.MetadataOptions; m.HttpTokens != "required" || m.HttpEndpoint != "enabled" || m.InstanceMetadataTags != "enabled" || !reflect.DeepEqual(m.HttpPutResponseHopLimit, test.hops) {
			t.Errorf("metadata %+v", m)
		}
		if p := d.IamInstanceProfile; p == nil || aws.ToString(p.Name) != "nodes" {
			t.Errorf("instance profile %+v", p)
		}
		if test.from != "" && (len(d.BlockDeviceMappings) != 2 || *d.BlockDeviceMappings[1].Ebs.VolumeSize != 50) {
			t.Errorf("volumes %+v", d.BlockDeviceMappings)
		}
	}
}
