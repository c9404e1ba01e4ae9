package awssim

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// What was created is not visible at once.
func TestLag(t *testing.T) {
	w := newEC2World(t)
	w.control("POST", "lag", map[string]string{"instances": "5s", "templates": "5s", "tags": "5s", "reservations": "5s", "purchases": "1m"}, nil)
	visible := map[string]func() bool{}
	created := func(what string, shown func() bool) { visible[what] = shown }
	works := func(err error, notFound string) bool {
		t.Helper()
		if err != nil && code(err) != notFound {
			t.Errorf("%v, want %s", err, notFound)
		}
		return err == nil
	}

	instance := *do(t, w.ec2.RunInstances, run(1, "c7i.4xlarge", defSubnetA, tagged("team", "nlp"))).Instances[0].InstanceId
	created("the instance by id", func() bool {
		_, err := w.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{instance}})
		return works(err, "InvalidInstanceID.NotFound")
	})
	created("the instance by tag", func() bool {
		out := do(t, w.ec2.DescribeInstances, &ec2.DescribeInstancesInput{Filters: []types.Filter{{Name: aws.String("tag:team"), Values: []string{"nlp"}}}})
		return len(out.Reservations) == 1
	})
	created("the instance to be tagged", func() bool {
		_, err := w.ec2.CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: []string{instance}, Tags: []types.Tag{{Key: aws.String("a"), Value: aws.String("b")}}})
		return works(err, "InvalidInstanceID.NotFound")
	})

	made := do(t, w.ec2.CreateLaunchTemplate, &ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("new"),
		LaunchTemplateData: &types.RequestLaunchTemplateData{ImageId: aws.String(defImage)}}).LaunchTemplate
	fails(t, w.ec2.CreateLaunchTemplate, &ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("new"),
		LaunchTemplateData: &types.RequestLaunchTemplateData{ImageId: aws.String(defImage)}}, "InvalidLaunchTemplateName.AlreadyExistsException")
	created("the launch template", func() bool {
		_, err := w.ec2.RunInstances(t.Context(), run(1, "c7i.4xlarge", defSubnetA, template(*made.LaunchTemplateId, "")))
		return works(err, "InvalidLaunchTemplateId.NotFound")
	})
	do(t, w.ec2.CreateLaunchTemplateVersion, &ec2.CreateLaunchTemplateVersionInput{LaunchTemplateId: aws.String(defTemplate),
		LaunchTemplateData: &types.RequestLaunchTemplateData{ImageId: aws.String(defImage)}})
	created("its second version", func() bool {
		_, err := w.ec2.RunInstances(t.Context(), run(1, "c7i.4xlarge", defSubnetA, template(defTemplate, "2")))
		return works(err, "InvalidLaunchTemplateId.VersionNotFound")
	})
	created("the second version as the newest", func() bool {
		out := do(t, w.ec2.DescribeLaunchTemplateVersions, &ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: aws.String(defTemplate), Versions: []string{"$Latest"}})
		all := do(t, w.ec2.DescribeLaunchTemplates, &ec2.DescribeLaunchTemplatesInput{LaunchTemplateIds: []string{defTemplate}})
		return *out.LaunchTemplateVersions[0].VersionNumber == 2 && *all.LaunchTemplates[0].LatestVersionNumber == 2
	})
	do(t, w.ec2.CreateTags, &ec2.CreateTagsInput{Resources: []string{openBlock}, Tags: []types.Tag{{Key: aws.String("team"), Value: aws.String("bio")}}})
	created("the new tag", func() bool {
		out := do(t, w.ec2.DescribeCapacityReservations, &ec2.DescribeCapacityReservationsInput{Filters: []types.Filter{{Name: aws.String("tag:team"), Values: []string{"bio"}}}})
		return len(out.CapacityReservations) == 1
	})
	odcr := *do(t, w.ec2.CreateCapacityReservation, &ec2.CreateCapacityReservationInput{InstanceType: aws.String("c7i.4xlarge"), InstanceCount: aws.Int32(1),
		InstancePlatform: types.CapacityReservationInstancePlatformLinuxUnix, AvailabilityZone: aws.String("us-east-2a")}).CapacityReservation.CapacityReservationId
	created("the ODCR", func() bool {
		_, err := w.ec2.DescribeCapacityReservations(t.Context(), &ec2.DescribeCapacityReservationsInput{CapacityReservationIds: []string{odcr}})
		return works(err, "InvalidCapacityReservationId.NotFound")
	})

	look := func(want bool) {
		t.Helper()
		for what, shown := range visible {
			if got := shown(); got != want {
				t.Errorf("%s: shown %t, want %t", what, got, want)
			}
		}
	}
	look(false)
	w.sim.Clock().Advance(4 * time.Second)
	look(false)
	w.sim.Clock().Advance(time.Second)
	look(true)

	bought, err := w.purchase(*w.offerings(1, 1)[0].CapacityBlockOfferingId)
	if err != nil {
		t.Fatal(err)
	}
	ask := &ec2.DescribeCapacityReservationsInput{CapacityReservationIds: []string{*bought.CapacityReservation.CapacityReservationId}}
	w.sim.Clock().Advance(59 * time.Second)
	fails(t, w.ec2.DescribeCapacityReservations, ask, "InvalidCapacityReservationId.NotFound")
	w.sim.Clock().Advance(time.Second)
	do(t, w.ec2.DescribeCapacityReservations, ask)
}
