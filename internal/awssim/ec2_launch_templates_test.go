package awssim

import (
	"encoding/base64"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// What a template says is shown as it was said.
func TestLaunchTemplateRoundTrip(t *testing.T) {
	w := newEC2World(t)
	script := base64.StdEncoding.EncodeToString([]byte("#!/bin/sh\nmount /fsx\n"))
	made := do(t, w.ec2.CreateLaunchTemplate, &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String("gpu-a"), VersionDescription: aws.String("first"),
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeLaunchTemplate,
			Tags: []types.Tag{{Key: aws.String("pcs-capacity"), Value: aws.String("ml")}}}},
		LaunchTemplateData: &types.RequestLaunchTemplateData{
			ImageId: aws.String(defImage), InstanceType: "p5.48xlarge", UserData: aws.String(script), KeyName: aws.String("admin"),
			EbsOptimized:          aws.Bool(false),
			InstanceMarketOptions: &types.LaunchTemplateInstanceMarketOptionsRequest{MarketType: types.MarketTypeCapacityBlock},
			CapacityReservationSpecification: &types.LaunchTemplateCapacityReservationSpecificationRequest{
				CapacityReservationTarget: &types.CapacityReservationTarget{CapacityReservationId: aws.String(openBlock)}},
			NetworkInterfaces: []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{
				{DeviceIndex: aws.Int32(0), NetworkCardIndex: aws.Int32(0), InterfaceType: aws.String("efa"), Groups: []string{defGroup}},
				{DeviceIndex: aws.Int32(1), NetworkCardIndex: aws.Int32(1), InterfaceType: aws.String("efa-only"), Groups: []string{defGroup}},
			},
			BlockDeviceMappings: []types.LaunchTemplateBlockDeviceMappingRequest{
				{DeviceName: aws.String("/dev/xvda"), Ebs: &types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: aws.Int32(200), VolumeType: "gp3", Encrypted: aws.Bool(true)}}},
			MetadataOptions:    &types.LaunchTemplateInstanceMetadataOptionsRequest{HttpTokens: "required", InstanceMetadataTags: "enabled"},
			IamInstanceProfile: &types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: aws.String("AWSPCS-nodes")},
			TagSpecifications: []types.LaunchTemplateTagSpecificationRequest{{ResourceType: types.ResourceTypeInstance,
				Tags: []types.Tag{{Key: aws.String("team"), Value: aws.String("nlp")}}}},
		},
	}).LaunchTemplate
	shown := do(t, w.ec2.DescribeLaunchTemplateVersions, &ec2.DescribeLaunchTemplateVersionsInput{
		LaunchTemplateId: made.LaunchTemplateId, Versions: []string{"$Latest"}}).LaunchTemplateVersions[0]
	want := &types.ResponseLaunchTemplateData{
		ImageId: aws.String(defImage), InstanceType: "p5.48xlarge", UserData: aws.String(script), KeyName: aws.String("admin"),
		EbsOptimized:          aws.Bool(false),
		InstanceMarketOptions: &types.LaunchTemplateInstanceMarketOptions{MarketType: types.MarketTypeCapacityBlock},
		CapacityReservationSpecification: &types.LaunchTemplateCapacityReservationSpecificationResponse{
			CapacityReservationTarget: &types.CapacityReservationTargetResponse{CapacityReservationId: aws.String(openBlock)}},
		NetworkInterfaces: []types.LaunchTemplateInstanceNetworkInterfaceSpecification{
			{DeviceIndex: aws.Int32(0), NetworkCardIndex: aws.Int32(0), InterfaceType: aws.String("efa"), Groups: []string{defGroup}},
			{DeviceIndex: aws.Int32(1), NetworkCardIndex: aws.Int32(1), InterfaceType: aws.String("efa-only"), Groups: []string{defGroup}},
		},
		BlockDeviceMappings: []types.LaunchTemplateBlockDeviceMapping{
			{DeviceName: aws.String("/dev/xvda"), Ebs: &types.LaunchTemplateEbsBlockDevice{VolumeSize: aws.Int32(200), VolumeType: "gp3", Encrypted: aws.Bool(true)}}},
		MetadataOptions:    &types.LaunchTemplateInstanceMetadataOptions{HttpTokens: "required", InstanceMetadataTags: "enabled"},
		IamInstanceProfile: &types.LaunchTemplateIamInstanceProfileSpecification{Name: aws.String("AWSPCS-nodes")},
		TagSpecifications: []types.LaunchTemplateTagSpecification{{ResourceType: types.ResourceTypeInstance,
			Tags: []types.Tag{{Key: aws.String("team"), Value: aws.String("nlp")}}}},
	}
	unexported := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".noSmithyDocumentSerde" }, cmp.Ignore())
	if diff := cmp.Diff(want, shown.LaunchTemplateData, unexported, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("template data (-said +shown):\n%s", diff)
	}
	if *shown.VersionDescription != "first" || !*shown.DefaultVersion || *shown.VersionNumber != 1 || *made.Tags[0].Value != "ml" {
		t.Errorf("version %+v of %+v", shown, made)
	}
}

func TestLaunchTemplateVersions(t *testing.T) {
	w := newEC2World(t)
	id := aws.String(defTemplate)
	version := func(source string, data *types.RequestLaunchTemplateData) int64 {
		in := &ec2.CreateLaunchTemplateVersionInput{LaunchTemplateId: id, LaunchTemplateData: data}
		if source != "" {
			in.SourceVersion = aws.String(source)
		}
		return *do(t, w.ec2.CreateLaunchTemplateVersion, in).LaunchTemplateVersion.VersionNumber
	}
	if n := version("1", &types.RequestLaunchTemplateData{InstanceType: "c7i.4xlarge"}); n != 2 {
		t.Errorf("version %d, want 2", n)
	}
	version("", &types.RequestLaunchTemplateData{InstanceType: "g6.12xlarge"})

	// Version 2 has the image of version 1; $Default is still 1, whose type is missing; the request overrides.
	launch := func(version string, kind types.InstanceType) (types.InstanceType, string) {
		in := run(1, kind, defSubnetA, template(defTemplate, version))
		in.ImageId = nil
		out, err := w.ec2.RunInstances(t.Context(), in)
		if err != nil {
			return "", code(err)
		}
		return out.Instances[0].InstanceType, ""
	}
	for _, test := range []struct {
		version  string
		override types.InstanceType
		kind     types.InstanceType
		code     string
	}{
		{"2", "", "c7i.4xlarge", ""}, {"2", "g6.12xlarge", "g6.12xlarge", ""}, {"$Latest", "", "", "MissingParameter"},
		{"$Default", "c7i.4xlarge", "c7i.4xlarge", ""}, {"", "c7i.4xlarge", "c7i.4xlarge", ""}, {"9", "", "", "InvalidLaunchTemplateId.VersionNotFound"},
	} {
		if kind, code := launch(test.version, test.override); kind != test.kind || code != test.code {
			t.Errorf("version %q with type %q: %q, error %q; want %q, %q", test.version, test.override, kind, code, test.kind, test.code)
		}
	}
}

func TestLaunchTemplateNamesAndTokens(t *testing.T) {
	w := newEC2World(t)
	create := func(name, token string, kind types.InstanceType) *ec2.CreateLaunchTemplateInput {
		return &ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String(name), ClientToken: aws.String(token),
			LaunchTemplateData: &types.RequestLaunchTemplateData{InstanceType: kind}}
	}
	first := do(t, w.ec2.CreateLaunchTemplate, create("gpu-a", "t1", "p5.48xlarge")).LaunchTemplate
	again := do(t, w.ec2.CreateLaunchTemplate, create("gpu-a", "t1", "p5.48xlarge")).LaunchTemplate
	if *first.LaunchTemplateId != *again.LaunchTemplateId {
		t.Error("one token made two templates")
	}
	fails(t, w.ec2.CreateLaunchTemplate, create("gpu-a", "t1", "p4d.24xlarge"), "IdempotentParameterMismatch")
	fails(t, w.ec2.CreateLaunchTemplate, create("gpu-a", "t2", "p5.48xlarge"), "InvalidLaunchTemplateName.AlreadyExistsException")
	fails(t, w.ec2.CreateLaunchTemplate, create("g!", "t3", "p5.48xlarge"), "InvalidLaunchTemplateName.MalformedException")
	fails(t, w.ec2.DescribeLaunchTemplates, &ec2.DescribeLaunchTemplatesInput{LaunchTemplateNames: []string{"gpu-z"}}, "InvalidLaunchTemplateName.NotFoundException")
	do(t, w.ec2.DeleteLaunchTemplate, &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: aws.String("gpu-a")})
	fails(t, w.ec2.DescribeLaunchTemplates, &ec2.DescribeLaunchTemplatesInput{LaunchTemplateIds: []string{*first.LaunchTemplateId}}, "InvalidLaunchTemplateId.NotFound")
	fails(t, w.ec2.DeleteLaunchTemplate, &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: aws.String("gpu-a")}, "InvalidLaunchTemplateName.NotFoundException")

	named := do(t, w.ec2.DescribeLaunchTemplates, &ec2.DescribeLaunchTemplatesInput{Filters: filters("launch-template-name", "ml-*")}).LaunchTemplates
	if len(named) != 1 || *named[0].LaunchTemplateName != "ml-compute" {
		t.Errorf("templates ml-*: %+v", named)
	}
}
