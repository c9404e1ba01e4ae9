package ec2

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
)

// efaWorld is testdata/efa.toml.
func efaWorld(t *testing.T) *Client { return efaWorldWith(t, false) }

// efaWorldWith is efaWorld, where EC2 may say which interfaces each card takes.
func efaWorldWith(t *testing.T, cardTypes bool) *Client {
	t.Helper()

	scenario, err := awssim.LoadScenario("testdata/efa.toml")
	if err != nil {
		t.Fatal(err)
	}

	for i := range scenario.InstanceTypes {
		scenario.InstanceTypes[i].CardTypes = cardTypes
	}

	_, c, _ := simOf(t, scenario)

	return c
}

func efaSpec(kind string, mode capacity.EFAMode) capacity.LaunchTemplateSpec {
	return capacity.LaunchTemplateSpec{
		Name:         "gpu-" + string(mode),
		From:         "lt-0e2000000000000a1",
		FromVersion:  "1",
		InstanceType: kind,
		EFA:          mode,
		SubnetID:     subnetA,
		Kind:         capacity.OnDemand,
		Tags:         map[string]string{capacity.TagCluster: "ml"},
	}
}

// figures are where the numbers of cards and EFAs of each family stand: what AWS publishes of
// them, else a recorded answer of DescribeInstanceTypes.
var figures = map[string]string{
	"p4d.24xlarge":     recorded,
	"p5.48xlarge":      userGuide,
	"p5e.48xlarge":     userGuide,
	"p5en.48xlarge":    recorded,
	"p6-b200.48xlarge": recorded,
	"p6-b300.48xlarge": "https://github.com/aws/aws-parallelcluster/issues/7143",
	"trn2.48xlarge":    recorded,
}

const (
	userGuide = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html"
	recorded  = "https://github.com/getmoto/moto/blob/5.2.1/moto/ec2/resources/instance_types.json.gz"
)

// The interfaces of each family, in testdata/efa, from what DescribeInstanceTypes says. EC2 launches from
// each template. They are the same whether EC2 says which interfaces each card takes or not.
func TestInterfacesOfEachFamily(t *testing.T) {
	for _, cardTypes := range []bool{false, true} {
		testInterfacesOfEachFamily(t, cardTypes)
	}
}

func testInterfacesOfEachFamily(t *testing.T, cardTypes bool) {
	for kind, source := range figures {
		t.Run(fmt.Sprintf("%s/%t", kind, cardTypes), func(t *testing.T) {
			c := efaWorldWith(t, cardTypes)

			found, err := c.InstanceTypes(t.Context(), []string{kind})
			if err != nil {
				t.Fatal(err)
			}

			if said := len(found[kind].Cards[0].Types) > 0; said != cardTypes {
				t.Errorf("cards %+v", found[kind].Cards)
			}

			var text strings.Builder
			fmt.Fprintf(
				&text,
				"%s: %d network cards, %d EFAs\n%s\n",
				kind,
				len(found[kind].Cards),
				found[kind].EFAInterfaces,
				source,
			)

			for _, mode := range []capacity.EFAMode{capacity.EFA, capacity.EFAOnly} {
				made, err := c.EnsureLaunchTemplate(t.Context(), efaSpec(kind, mode))
				if err != nil {
					t.Fatal(err)
				}

				out, err := c.api.DescribeLaunchTemplateVersions(
					t.Context(),
					&ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: &made.ID, Versions: []string{"1"}},
				)
				if err != nil {
					t.Fatal(err)
				}

				data := out.LaunchTemplateVersions[0].LaunchTemplateData
				if len(data.SecurityGroupIds) > 0 {
					t.Errorf("security groups %v beside the interfaces", data.SecurityGroupIds)
				}

				fmt.Fprintf(&text, "\n--efa %s\n%s", mode, inWords(data.NetworkInterfaces))

				launched, err := c.Launch(
					t.Context(),
					capacity.Launch{
						ClientToken:    string(mode),
						LaunchTemplate: made.ID,
						InstanceType:   kind,
						SubnetID:       subnetA,
						Kind:           capacity.OnDemand,
						Count:          1,
					},
				)
				if err != nil || len(launched) != 1 {
					t.Errorf("EC2 does not launch it: %v", err)
				}
			}

			golden := filepath.Join("testdata", "efa", kind+".txt")
			if os.Getenv("UPDATE_TRANSCRIPTS") != "" {
				if err := os.WriteFile(golden, []byte(text.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}

			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}

			if diff := cmp.Diff(string(want), text.String()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// inWords has a line for each interface.
func inWords(all []types.LaunchTemplateInstanceNetworkInterfaceSpecification) string {
	var b strings.Builder
	for _, n := range all {
		fmt.Fprintf(
			&b,
			"card %d device %d %s subnet %s groups %s public %t\n",
			*n.NetworkCardIndex,
			*n.DeviceIndex,
			*n.InterfaceType,
			aws.ToString(n.SubnetId),
			strings.Join(n.Groups, ","),
			aws.ToBool(n.AssociatePublicIpAddress),
		)
	}

	return b.String()
}

// A type without EFA, and mode none, have no interfaces, and security groups as ever.
func TestNoEFA(t *testing.T) {
	c := efaWorld(t)
	for _, spec := range []capacity.LaunchTemplateSpec{
		efaSpec("c7i.4xlarge", capacity.EFA),
		efaSpec("p5.48xlarge", capacity.NoEFA),
	} {
		data, err := c.templateData(t.Context(), spec)
		if err != nil || len(data.NetworkInterfaces) > 0 ||
			!slices.Equal(data.SecurityGroupIds, []string{"sg-0e2000000000000a1", "sg-0e2000000000000e2"}) {
			t.Errorf(
				"%s, mode %s: %d interfaces, groups %v, %v",
				spec.InstanceType,
				spec.EFA,
				len(data.NetworkInterfaces),
				data.SecurityGroupIds,
				err,
			)
		}
	}

	if _, err := c.templateData(t.Context(), efaSpec("p5.48xlarge", "all")); err == nil {
		t.Error("an unknown mode is taken")
	}

	if _, err := c.templateData(t.Context(), efaSpec("p9.huge", capacity.EFA)); err == nil {
		t.Error("an unknown type is taken")
	}
}

// A template of ours that is copied for the next block keeps its interfaces, in the
// subnet of that block's zone; one that leaves the subnet open keeps it open.
func TestEFATemplateOfTheNextBlock(t *testing.T) {
	c := efaWorld(t)

	made, err := c.EnsureLaunchTemplate(t.Context(), efaSpec("p5.48xlarge", capacity.EFA))
	if err != nil {
		t.Fatal(err)
	}

	next := capacity.LaunchTemplateSpec{
		Name:         made.Name,
		From:         made.ID,
		FromVersion:  made.Version,
		InstanceType: "p5.48xlarge",
		SubnetID:     subnetA,
		Kind:         capacity.OnDemand,
	}
	if planned, err := c.PlannedTemplate(t.Context(), next); err != nil || planned.Digest != made.Digest {
		t.Errorf("the same subnet is another template: %v", err)
	}

	for _, test := range []struct{ subnet, want string }{{"subnet-2", "subnet-2"}, {"", ""}} {
		next.SubnetID = test.subnet
		data, err := c.templateData(t.Context(), next)
		if err != nil || len(data.NetworkInterfaces) != 32 ||
			aws.ToString(data.NetworkInterfaces[31].SubnetId) != test.want {
			t.Errorf("subnet %q: %v, %d interfaces", test.subnet, err, len(data.NetworkInterfaces))
		}
	}
}
