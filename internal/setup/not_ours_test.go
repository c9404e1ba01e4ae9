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
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// Between the plan and its application a thing loses our tag, or appears without it.
// Apply asks again before it changes anything, and leaves it as it is.
func TestR9_ApplyAsksAgainWhatIsOurs(t *testing.T) {
	ofAnother := map[string]string{capacity.TagCluster: "other"}
	bigger := func(r setup.Request) setup.Request { r.MaxNodes = 6; return r }
	withoutEFA := func(r setup.Request) setup.Request { r.EFA = capacity.NoEFA; return r }
	for name, test := range map[string]struct {
		made    string // the reservation that is set up before; "" for none
		request func(w *account) setup.Request
		between func(w *account) error
		writes  []string // of Apply
	}{
		"a node group loses it": {openBlock, func(w *account) setup.Request { return bigger(w.request(openBlock)) },
			func(w *account) error { return w.setup.PCS.Tag(w.Context(), w.group("gpu-a").ARN, ofAnother) }, nil},
		"a node group appears without it": {"", func(w *account) setup.Request { return w.request(openBlock) },
			func(w *account) error {
				foreign := w.group("compute")
				foreign.Name, foreign.Tags = "gpu-a", nil
				_, _, err := w.provisioner().EnsureNodeGroup(w.Context(), foreign, true)
				return err
			}, []string{"CreateLaunchTemplate"}},
		"a queue loses it": {openBlock, func(w *account) setup.Request { return w.request(laterBlock) },
			func(w *account) error {
				q, _ := w.inventory().Queue("gpu")
				return w.setup.PCS.Tag(w.Context(), q.ARN, ofAnother)
			}, []string{"CreateLaunchTemplate", "CreateComputeNodeGroup"}},
		"a queue appears without it": {"", func(w *account) setup.Request { return w.request(openBlock) },
			func(w *account) error {
				return w.provisioner().EnsureQueue(w.Context(), pcs.Queue{Name: "gpu", ClusterID: w.inventory().Cluster.ID, GroupIDs: []string{w.group("compute").ID}})
			}, []string{"CreateLaunchTemplate", "CreateComputeNodeGroup"}},
		"a launch template loses it": {openBlock, func(w *account) setup.Request { return withoutEFA(w.request(openBlock)) },
			func(w *account) error {
				cfg, err := config.LoadDefaultConfig(w.Context()) // somebody else, in the same account
				if err != nil {
					return err
				}
				_, err = awsec2.NewFromConfig(cfg).CreateTags(w.Context(), &awsec2.CreateTagsInput{Resources: []string{w.group("gpu-a").TemplateID},
					Tags: []types.Tag{{Key: aws.String(capacity.TagCluster), Value: aws.String(ofAnother[capacity.TagCluster])}}})
				return err
			}, nil},
		"a launch template appears without it": {"", func(w *account) setup.Request { return w.request(openBlock) },
			func(w *account) error {
				_, err := w.ec2.EnsureLaunchTemplate(w.Context(), capacity.LaunchTemplateSpec{Name: "pcs-capacity-ml-gpu-a", InstanceType: "p5.48xlarge"})
				return err
			}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newAccount(t, nil)
			if test.made != "" {
				w.run(w.request(test.made))
			}
			p := w.plan(test.request(w))
			if len(p.Mismatches) > 0 || p.Done() {
				t.Fatalf("the plan is of no use here: %s, %v", actions(p), p.Mismatches)
			}
			if err := test.between(w); err != nil {
				t.Fatal(err)
			}
			w.written()
			if err := w.setup.Apply(t.Context(), p); err == nil || !strings.Contains(err.Error(), "it does not carry our tag") {
				t.Errorf("applied: %v", err)
			}
			if writes := w.written(); !slices.Equal(writes, test.writes) {
				t.Errorf("it sent %v, want %v", writes, test.writes)
			}
		})
	}
}

// provisioner makes things that are not ours.
func (w *account) provisioner() pcs.Provisioner { return pcs.Provisioner{PCS: w.setup.PCS, EC2: w.ec2} }
