package setup_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// ask is EC2 itself, for what package ec2 does not show.
func (w *account) ask() *awsec2.Client {
	w.Helper()
	// a fast answer can cut its connection (aws-sdk-go-v2 issue 2737)
	cfg, err := config.LoadDefaultConfig(w.Context(), config.WithRetryMaxAttempts(5))
	if err != nil {
		w.Fatal(err)
	}
	return awsec2.NewFromConfig(cfg)
}

// templateData is what the launch template of a node group says.
func (w *account) templateData(g pcs.NodeGroup) *types.ResponseLaunchTemplateData {
	w.Helper()
	out, err := w.ask().DescribeLaunchTemplateVersions(w.Context(), &awsec2.DescribeLaunchTemplateVersionsInput{
		LaunchTemplateId: aws.String(g.TemplateID), Versions: []string{g.TemplateVersion}})
	if err != nil || len(out.LaunchTemplateVersions) != 1 {
		w.Fatal(out, err)
	}
	return out.LaunchTemplateVersions[0].LaunchTemplateData
}

// compute, which is copied, has CPU nodes with one interface; what is set up is for
// p5.48xlarge.
func TestSetupWritesTheInterfacesOfEFA(t *testing.T) {
	for _, test := range []struct {
		mode  capacity.EFAMode
		kinds string // of the first, the second and the last interface, with their device index
		count int
	}{
		{"", "efa/0 efa/1 efa/1", 32},
		{capacity.EFA, "efa/0 efa/1 efa/1", 32},
		{capacity.EFAOnly, "interface/0 efa-only/1 efa-only/0", 33},
	} {
		t.Run(string(test.mode), func(t *testing.T) {
			w := newAccount(t, nil)
			r := w.request(openBlock)
			r.EFA = test.mode
			p := w.run(r)
			if len(p.Warnings) > 0 || !strings.HasSuffix(detail(p, "network interfaces"), ", no public address") {
				t.Errorf("warnings %v, step %+v", p.Warnings, p.Steps()[0])
			}
			g := w.group("gpu-a")
			data := w.templateData(g)
			all := data.NetworkInterfaces
			if len(all) != test.count || len(data.SecurityGroupIds) > 0 || !slices.Equal(g.SubnetIDs, []string{subnetA}) {
				t.Fatalf("%d interfaces, security groups %v, subnets %v", len(all), data.SecurityGroupIds, g.SubnetIDs)
			}
			var kinds []string
			for _, n := range []types.LaunchTemplateInstanceNetworkInterfaceSpecification{all[0], all[1], all[len(all)-1]} {
				kinds = append(kinds, aws.ToString(n.InterfaceType)+"/"+string('0'+rune(aws.ToInt32(n.DeviceIndex))))
			}
			if got := strings.Join(kinds, " "); got != test.kinds {
				t.Errorf("kinds %s", got)
			}
			for _, n := range all {
				if aws.ToString(n.SubnetId) != subnetA || !slices.Equal(n.Groups, []string{"sg-0e2000000000000a1"}) || n.AssociatePublicIpAddress == nil || *n.AssociatePublicIpAddress {
					t.Errorf("interface %+v", n)
				}
			}
			if launched, err := w.sim.LaunchForNodeGroup("ml", "gpu-a", "gpu-a-1"); err != nil || launched.SubnetID != subnetA {
				t.Errorf("launch: %+v, %v", launched, err)
			}
			if p := w.plan(r); !p.Done() {
				t.Errorf("again: %s", actions(p))
			}
		})
	}
}
