package ec2

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
)

func TestPlatforms(t *testing.T) {
	known := types.CapacityReservationInstancePlatform("").Values()
	for details, name := range reservationPlatforms {
		if !slices.Contains(known, types.CapacityReservationInstancePlatform(name)) ||
			slices.Contains(known, types.CapacityReservationInstancePlatform(details)) {
			t.Errorf("%q is %q in reservations", details, name)
		}
	}

	for _, same := range []string{
		"Linux/UNIX", "Red Hat Enterprise Linux", "SUSE Linux", "Ubuntu Pro", "Windows", "Windows with SQL Server Web",
	} {
		if got := reservationPlatform(same); got != same ||
			!slices.Contains(known, types.CapacityReservationInstancePlatform(same)) {
			t.Errorf("%q is %q in reservations", same, got)
		}
	}
}

// Images and reservations can name one platform differently; the launch works.
func TestImageOfAPlatformWithTwoNames(t *testing.T) {
	scenario := awssim.DefaultScenario()
	home := &scenario.Regions[0]
	home.Images = append(
		home.Images,
		awssim.ImageScenario{
			ID:       "ami-0e200000000000d04",
			Name:     "rhel-ha",
			Platform: "Red Hat Enterprise Linux with HA",
		},
	)
	home.Reservations = append(
		home.Reservations,
		awssim.ReservationScenario{
			ID:       "cr-0e200000000000a17",
			Type:     "c7i.4xlarge",
			Zone:     "us-east-2a",
			Count:    2,
			Platform: "RHEL with HA",
		},
	)
	home.LaunchTemplates = append(
		home.LaunchTemplates,
		awssim.LaunchTemplateScenario{ID: "lt-0e2000000000000a9", Name: "ha", Image: "ami-0e200000000000d04"},
	)
	_, c, _ := simOf(t, scenario)

	made, err := c.Image(t.Context(), "ami-0e200000000000d04")
	if err != nil {
		t.Fatal(err)
	}

	r, err := Reservation(t.Context(), c, "cr-0e200000000000a17")
	if err != nil || made.Platform != r.Platform {
		t.Errorf("the image is for %q, the reservation for %q, %v", made.Platform, r.Platform, err)
	}

	if _, err := c.Launch(t.Context(),
		capacity.Launch{
			ClientToken:    "t",
			LaunchTemplate: "ha",
			InstanceType:   "c7i.4xlarge",
			SubnetID:       subnetA,
			ReservationID:  r.ID,
			Kind:           capacity.ODCR,
			Count:          1,
		}); err != nil {
		t.Error(err)
	}
}

// The platform of a launch template's image, for each way to name template and image. Without an answer it is unknown.
func TestImagePlatform(t *testing.T) {
	const rhel = "Red Hat Enterprise Linux"

	scenario := awssim.DefaultScenario()

	home := &scenario.Regions[0]
	home.Images = append(
		home.Images,
		awssim.ImageScenario{
			ID:        "ami-0e200000000000d04",
			Name:      "named",
			Platform:  "SUSE Linux",
			Parameter: "/nodes/image",
		},
		awssim.ImageScenario{ID: "ami-0e200000000000d05", Name: "byol", Platform: "Windows BYOL"},
	)
	for id, image := range map[string]string{
		"7": "ami-0e200000000000c03",
		"8": "resolve:ssm:/nodes/image",
		"9": "ami-0e200000000000fff",
		"a": "",
		"b": "ami-0e200000000000d05",
	} {
		home.LaunchTemplates = append(
			home.LaunchTemplates,
			awssim.LaunchTemplateScenario{ID: "lt-0e2000000000000b" + id, Name: "template-" + id, Image: image},
		)
	}

	sim, c, arrived := simOf(t, scenario)
	if _, err := c.api.CreateLaunchTemplateVersion(t.Context(), &ec2.CreateLaunchTemplateVersionInput{
		LaunchTemplateName: aws.String("template-7"),
		LaunchTemplateData: &types.RequestLaunchTemplateData{ImageId: aws.String(image)},
	}); err != nil {
		t.Fatal(err)
	}

	for reference, want := range map[string]capacity.ImagePlatform{
		"lt-0e2000000000000b7":   {Template: "lt-0e2000000000000b7:1", Platform: rhel}, // the default version
		"template-7:$Default":    {Template: "lt-0e2000000000000b7:1", Platform: rhel},
		"template-7:$Latest":     {Template: "lt-0e2000000000000b7:2", Platform: "Linux/UNIX"},
		"lt-0e2000000000000b7:2": {Template: "lt-0e2000000000000b7:2", Platform: "Linux/UNIX"},
		"template-8":             {Template: "lt-0e2000000000000b8:1", Platform: "SUSE Linux"},
		"template-9":             {Template: "lt-0e2000000000000b9:1"},
		"template-a":             {Template: "lt-0e2000000000000ba:1"},
		"template-b":             {Template: "lt-0e2000000000000bb:1"}, // reservations have no word for it
		"template-c":             {},
	} {
		got, err := c.ImagePlatform(t.Context(), reference)
		if got != want || (err != nil) != (reference == "template-9" || reference == "template-c") {
			t.Errorf("%s: %+v, %v, want %+v", reference, got, err, want)
		}
	}

	if _, err := c.ImagePlatform(t.Context(), "template-9"); Code(err) != "InvalidAMIID.NotFound" {
		t.Error(err)
	}

	described, read := arrived("DescribeImages"), arrived("DescribeLaunchTemplateVersions")
	if _, err := c.ImagePlatform(t.Context(), "lt-0e2000000000000b7:2"); err != nil ||
		arrived("DescribeImages") != described ||
		arrived("DescribeLaunchTemplateVersions") != read {
		t.Errorf("what is known is asked for again: %v", err)
	}

	for action, reference := range map[string]string{
		"ec2:DescribeImages":                 "lt-0e2000000000000b7",
		"ssm:GetParameters":                  "lt-0e2000000000000b8",
		"ec2:DescribeLaunchTemplateVersions": "lt-0e2000000000000b7:1",
	} {
		sim.ClearFaults()

		denies := awssim.Denies(action)
		if action == "ssm:GetParameters" { // EC2 asks for it
			denies.Operation, denies.Code = "DescribeLaunchTemplateVersions", "UnauthorizedOperation"
		}

		if _, err := sim.AddFault(denies); err != nil {
			t.Fatal(err)
		}

		again, err := New(t.Context(), Options{})
		if err != nil {
			t.Fatal(err)
		}

		got, err := again.ImagePlatform(t.Context(), reference)
		if said := strings.Join(again.Withheld(), "\n"); err != nil || got.Platform != "" ||
			!strings.HasPrefix(got.Template, reference) ||
			!strings.Contains(said, action+" is not allowed") {
			t.Errorf("without %s: %+v, %v; told is %q", action, got, err, said)
		}
	}
}

// An ODCR that was made in a placement group takes launches in that group only.
func TestLaunchIntoAReservationWithAPlacementGroup(t *testing.T) {
	scenario := awssim.DefaultScenario()
	home := &scenario.Regions[0]
	home.Reservations = append(
		home.Reservations,
		awssim.ReservationScenario{
			ID:             "cr-0e200000000000a17",
			Type:           "c7i.4xlarge",
			Zone:           "us-east-2a",
			Count:          2,
			PlacementGroup: "ml-cluster",
		},
	)
	_, c, _ := simOf(t, scenario)

	r, err := Reservation(t.Context(), c, "cr-0e200000000000a17")
	if err != nil {
		t.Fatal(err)
	}

	launch := capacity.Launch{
		ClientToken:    "t",
		LaunchTemplate: nodes,
		InstanceType:   "c7i.4xlarge",
		SubnetID:       subnetA,
		ReservationID:  r.ID,
		Kind:           capacity.ODCR,
		Count:          1,
	}
	if _, err := c.Launch(t.Context(), launch); Code(err) != "ReservationCapacityExceeded" {
		t.Errorf("without the group: %v", err)
	}

	launch.ClientToken, launch.PlacementGroup = "in the group", r.PlacementGroup
	if _, err := c.Launch(t.Context(), launch); err != nil {
		t.Errorf("in the group %q: %v", r.PlacementGroup, err)
	}
}

// An AMI may be named by a parameter of Systems Manager: a copy keeps the name, whoever has to know the AMI learns it.
func TestImageNamedByAParameter(t *testing.T) {
	scenario := awssim.DefaultScenario()
	home := &scenario.Regions[0]
	home.Images[0].Parameter = "/aws/service/pcs/ami/dlami"
	home.LaunchTemplates = append(
		home.LaunchTemplates,
		awssim.LaunchTemplateScenario{
			ID:    "lt-0e2000000000000a9",
			Name:  "newest",
			Image: "resolve:ssm:/aws/service/pcs/ami/dlami",
		},
	)

	_, c, _ := simOf(t, scenario)
	read, found, err := c.LaunchTemplate(t.Context(), "newest", "")
	if err != nil || !found || read.ImageID != image {
		t.Errorf("image %q, %v", read.ImageID, err)
	}

	data, err := c.templateData(
		t.Context(),
		capacity.LaunchTemplateSpec{
			From:         read.ID,
			FromVersion:  "1",
			InstanceType: "c7i.4xlarge",
			Kind:         capacity.OnDemand,
		},
	)
	if err != nil || !isParameter(aws.ToString(data.ImageId)) {
		t.Errorf("the copy has %v, %v", aws.ToString(data.ImageId), err)
	}

	launched, err := c.Launch(
		t.Context(),
		capacity.Launch{
			ClientToken:    "t",
			LaunchTemplate: "newest",
			InstanceType:   "c7i.4xlarge",
			SubnetID:       subnetA,
			Kind:           capacity.OnDemand,
			Count:          1,
		},
	)
	if err != nil || len(launched) != 1 {
		t.Error(err)
	}

	if _, err := c.Image(t.Context(), "resolve:ssm:/aws/service/pcs/ami/dlami"); err == nil ||
		!strings.Contains(err.Error(), "aws ssm get-parameter") {
		t.Errorf("outside a template: %v", err)
	}
}
