package awssim

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/pcs"
	"github.com/aws/aws-sdk-go-v2/service/pcs/types"
)

// wantField wants a ValidationException that names the field, with a message that holds the text.
func wantField(t *testing.T, err error, field, text string) {
	t.Helper()

	var invalid *types.ValidationException
	if !errors.As(err, &invalid) {
		t.Fatalf("got %v, want a ValidationException for %s", err, field)
	}

	if invalid.Reason != types.ValidationExceptionReasonFieldValidationFailed {
		t.Errorf("reason %q", invalid.Reason)
	}

	for _, f := range invalid.FieldList {
		if aws.ToString(f.Name) == field && strings.Contains(aws.ToString(f.Message), text) {
			return
		}
	}

	for _, f := range invalid.FieldList {
		t.Logf("field %s: %s", aws.ToString(f.Name), aws.ToString(f.Message))
	}

	t.Errorf("no field %s with %q", field, text)
}

func TestNodeGroupValidation(t *testing.T) {
	w := newPCSWorld(t)
	tests := []struct {
		name        string
		change      func(in *pcs.CreateComputeNodeGroupInput)
		field, text string
	}{
		{
			"short name",
			func(in *pcs.CreateComputeNodeGroupInput) { in.ComputeNodeGroupName = aws.String("ab") },
			"computeNodeGroupName",
			"3 to 25",
		},
		{"long name", func(in *pcs.CreateComputeNodeGroupInput) {
			in.ComputeNodeGroupName = aws.String("abcdefghijklmnopqrstuvwxyz")
		}, "computeNodeGroupName", "3 to 25"},
		{
			"name like an id",
			func(in *pcs.CreateComputeNodeGroupInput) { in.ComputeNodeGroupName = aws.String("pcs_abc") },
			"computeNodeGroupName",
			"pcs_",
		},
		{
			"name with an underscore",
			func(in *pcs.CreateComputeNodeGroupInput) { in.ComputeNodeGroupName = aws.String("gpu_a") },
			"computeNodeGroupName",
			"hyphens",
		},
		{
			"name with a digit first",
			func(in *pcs.CreateComputeNodeGroupInput) { in.ComputeNodeGroupName = aws.String("4gpu") },
			"computeNodeGroupName",
			"starts with a letter",
		},
		{
			"no profile",
			func(in *pcs.CreateComputeNodeGroupInput) { in.IamInstanceProfileArn = aws.String("AWSPCS-nodes") },
			"iamInstanceProfileArn",
			"not the ARN",
		},
		{
			"unknown profile",
			func(in *pcs.CreateComputeNodeGroupInput) { in.IamInstanceProfileArn = aws.String(profile + "2") },
			"iamInstanceProfileArn",
			"does not exist",
		},
		{
			"a role that PCS does not pass",
			func(in *pcs.CreateComputeNodeGroupInput) {
				in.IamInstanceProfileArn = aws.String(strings.Replace(profile, "AWSPCS-nodes", "nodes", 1))
			},
			"iamInstanceProfileArn",
			"begins with AWSPCS",
		},
		{
			"a path that only looks like PCS's",
			func(in *pcs.CreateComputeNodeGroupInput) {
				in.IamInstanceProfileArn = aws.String(strings.Replace(profile, "AWSPCS-nodes", "AWSPCS/nodes", 1))
			},
			"iamInstanceProfileArn",
			"begins with AWSPCS",
		},
		{
			"mix of static and dynamic",
			func(in *pcs.CreateComputeNodeGroupInput) { in.ScalingConfiguration = scaling(1, 4) },
			"scalingConfiguration",
			"mix",
		},
		{
			"more than the maximum",
			func(in *pcs.CreateComputeNodeGroupInput) { in.ScalingConfiguration = scaling(4, 2) },
			"scalingConfiguration",
			"more than maxInstanceCount",
		},
		{"unknown template", func(in *pcs.CreateComputeNodeGroupInput) {
			in.CustomLaunchTemplate = &types.CustomLaunchTemplate{
				Id:      aws.String("lt-0123456789abcdef0"),
				Version: aws.String("1"),
			}
		}, "customLaunchTemplate", "does not exist"},
		{
			"unknown version",
			func(in *pcs.CreateComputeNodeGroupInput) { in.CustomLaunchTemplate.Version = aws.String("2") },
			"customLaunchTemplate",
			`version "2" does not exist`,
		},
		{
			"unknown subnet",
			func(in *pcs.CreateComputeNodeGroupInput) { in.SubnetIds = []string{"subnet-0123456789abcdef0"} },
			"subnetIds",
			"does not exist",
		},
		{
			"other VPC",
			func(in *pcs.CreateComputeNodeGroupInput) { in.SubnetIds = []string{subnetA, subnetOther} },
			"subnetIds",
			"the cluster is in vpc-",
		},
		{
			"no subnet",
			func(in *pcs.CreateComputeNodeGroupInput) { in.SubnetIds = []string{} },
			"subnetIds",
			"at least one",
		},
		{"unknown type", func(in *pcs.CreateComputeNodeGroupInput) {
			in.InstanceConfigs = []types.InstanceConfig{{InstanceType: aws.String("p6.wrong")}}
		}, "instanceConfigs", "does not exist"},
		{
			"unknown AMI",
			func(in *pcs.CreateComputeNodeGroupInput) { in.AmiId = aws.String("ami-0123456789abcdef0") },
			"amiId",
			"does not exist",
		},
		{"unknown Slurm parameter", func(in *pcs.CreateComputeNodeGroupInput) {
			in.SlurmConfiguration = &types.ComputeNodeGroupSlurmConfigurationRequest{
				SlurmCustomSettings: []types.SlurmCustomSetting{
					{ParameterName: aws.String("ResumeTimeout"), ParameterValue: aws.String("600")},
				},
			}
		}, "slurmConfiguration.slurmCustomSettings", "ResumeTimeout"},
		{
			"tag of AWS",
			func(in *pcs.CreateComputeNodeGroupInput) { in.Tags = map[string]string{"aws:mine": "x"} },
			"tags",
			"aws:",
		},

		{"block without market type", func(in *pcs.CreateComputeNodeGroupInput) {
			in.CustomLaunchTemplate = w.template("", activeBlock, "p5.48xlarge")
		}, "customLaunchTemplate", "MarketType"},
		{"block without target", func(in *pcs.CreateComputeNodeGroupInput) {
			in.CustomLaunchTemplate = w.template("capacity-block", "", "p5.48xlarge")
		}, "customLaunchTemplate", "CapacityReservationId is missing"},
		{"block without type in the template", func(in *pcs.CreateComputeNodeGroupInput) {
			in.CustomLaunchTemplate = w.template("capacity-block", activeBlock, "")
		}, "customLaunchTemplate", "InstanceType"},
		{"other type in the template", func(in *pcs.CreateComputeNodeGroupInput) {
			in.CustomLaunchTemplate = w.template("capacity-block", activeBlock, "p4d.24xlarge")
		}, "customLaunchTemplate", "is for p5.48xlarge"},
		{"other type in the group", func(in *pcs.CreateComputeNodeGroupInput) {
			in.InstanceConfigs = []types.InstanceConfig{{InstanceType: aws.String("p4d.24xlarge")}}
		}, "instanceConfigs", "is for p5.48xlarge"},
		{"unknown block", func(in *pcs.CreateComputeNodeGroupInput) {
			in.CustomLaunchTemplate = w.template("capacity-block", "cr-0123456789abcdef0", "p5.48xlarge")
		}, "customLaunchTemplate", "does not exist"},
		{"unpaid block", func(in *pcs.CreateComputeNodeGroupInput) {
			in.CustomLaunchTemplate = w.template("capacity-block", unpaidBlock, "p5.48xlarge")
		}, "customLaunchTemplate", "payment-pending"},
		{
			"more than the block",
			func(in *pcs.CreateComputeNodeGroupInput) { in.ScalingConfiguration = scaling(5, 5) },
			"scalingConfiguration",
			"4 instances",
		},
		{
			"no subnet in the zone of the block",
			func(in *pcs.CreateComputeNodeGroupInput) { in.SubnetIds = []string{subnetB} },
			"subnetIds",
			"use2-az1",
		},
		{
			"block on an old Slurm",
			func(in *pcs.CreateComputeNodeGroupInput) { in.ClusterIdentifier = aws.String("old") },
			"purchaseOption",
			"needs Slurm 24.05",
		},
		{"ODCR as a block", func(in *pcs.CreateComputeNodeGroupInput) {
			in.CustomLaunchTemplate = w.template("capacity-block", odcr, "c7i.large")
		}, "purchaseOption", "of the kind odcr"},

		{
			"block on demand",
			func(in *pcs.CreateComputeNodeGroupInput) { in.PurchaseOption = types.PurchaseOptionOndemand },
			"purchaseOption",
			"of the kind capacity-block",
		},
		{"market type on demand", func(in *pcs.CreateComputeNodeGroupInput) {
			*in = *w.demandGroup("demand", 1)
			in.CustomLaunchTemplate = w.template("capacity-block", odcr, "c7i.large")
		}, "customLaunchTemplate", "MarketType"},
		{"ODCR in another zone", func(in *pcs.CreateComputeNodeGroupInput) {
			*in = *w.demandGroup("demand", 1)
			in.CustomLaunchTemplate = w.template("", odcr, "")
			in.SubnetIds = []string{subnetB}
		}, "subnetIds", "use2-az1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			in := w.blockGroup("gpu-a")
			test.change(in)
			_, err := w.pcs.CreateComputeNodeGroup(t.Context(), in)
			wantField(t, err, test.field, test.text)
		})
	}

	out, err := w.pcs.ListComputeNodeGroups(
		t.Context(),
		&pcs.ListComputeNodeGroupsInput{ClusterIdentifier: aws.String("hpc")},
	)
	if must(t, out, err); len(out.ComputeNodeGroups) > 0 {
		t.Errorf("refused groups exist: %v", out.ComputeNodeGroups)
	}
}

// PCS takes roles by the beginning of their name, wherever they are, and by their path.
func TestProfilesOfNodeGroups(t *testing.T) {
	w := newPCSWorld(t)
	for name, role := range map[string]string{"gpu-a": "site/AWSPCS-nodes", "gpu-b": "aws-pcs/nodes"} {
		in := w.demandGroup(name, 1)
		in.IamInstanceProfileArn = aws.String(strings.Replace(profile, "AWSPCS-nodes", role, 1))
		w.group(in)
	}
}

func deleteGroup(w *pcsWorld, id *string) error {
	_, err := w.pcs.DeleteComputeNodeGroup(
		w.Context(),
		&pcs.DeleteComputeNodeGroupInput{ClusterIdentifier: aws.String("hpc"), ComputeNodeGroupIdentifier: id},
	)

	return err
}

// A group whose block has expired can still be scaled down and deleted.
func TestNodeGroupOutlivesItsBlock(t *testing.T) {
	w := newPCSWorld(t)
	g := w.group(w.blockGroup("gpu-a"))
	w.sim.Clock().Set(noon.AddDate(0, 0, 2))
	out, err := w.pcs.UpdateComputeNodeGroup(t.Context(), &pcs.UpdateComputeNodeGroupInput{
		ClusterIdentifier: aws.String("hpc"), ComputeNodeGroupIdentifier: g.Id, ScalingConfiguration: scaling(0, 4),
	})
	must(t, out, err)
	w.settle()

	if err := deleteGroup(w, g.Id); err != nil {
		t.Error(err)
	}
}

// An update of the cluster needs its groups and queues ACTIVE, and they need the cluster ACTIVE.
func TestClusterAndItsPartsWaitForEachOther(t *testing.T) {
	w := newPCSWorld(t)
	updateCluster := func() error {
		_, err := w.pcs.UpdateCluster(t.Context(), &pcs.UpdateClusterInput{ClusterIdentifier: aws.String("hpc")})
		return err
	}
	wantConflict := func(what string, err error) {
		t.Helper()

		var conflict *types.ConflictException
		if !errors.As(err, &conflict) {
			t.Errorf("%s: %v, want a ConflictException", what, err)
		}
	}
	out, err := w.pcs.CreateComputeNodeGroup(t.Context(), w.blockGroup("gpu-a"))
	g := must(t, out, err).ComputeNodeGroup

	wantConflict("update while a group is CREATING", updateCluster())
	w.settle()

	if err := updateCluster(); err != nil {
		t.Fatal(err)
	}

	_, err = w.pcs.CreateComputeNodeGroup(t.Context(), w.demandGroup("demand", 1))
	wantConflict("new group while the cluster is UPDATING", err)
	_, err = w.pcs.CreateQueue(
		t.Context(),
		&pcs.CreateQueueInput{ClusterIdentifier: aws.String("hpc"), QueueName: aws.String("gpu")},
	)
	wantConflict("new queue while the cluster is UPDATING", err)
	w.settle()
	q := w.queue("gpu", g)
	wantConflict("delete of a group in a queue", deleteGroup(w, g.Id))

	if _, err := w.pcs.DeleteQueue(t.Context(), &pcs.DeleteQueueInput{
		ClusterIdentifier: aws.String("hpc"),
		QueueIdentifier:   q.Id,
	}); err != nil {
		t.Fatal(err)
	}

	wantConflict("update while a queue is DELETING", updateCluster())
	w.settle()

	if err := deleteGroup(w, g.Id); err != nil {
		t.Error(err)
	}
}

func TestLaunchForNodeGroup(t *testing.T) {
	w := newPCSWorld(t)
	g := w.group(w.blockGroup("gpu-a"))
	w.queue("gpu", g)
	launched, err := w.sim.LaunchForNodeGroup("hpc", "gpu-a", "gpu-a-1")
	must(t, launched, err)

	if launched.ReservationID != activeBlock || launched.SubnetID != subnetA ||
		launched.Lifecycle != "capacity-block" ||
		launched.Type != "p5.48xlarge" ||
		launched.Tags[tagGroupID] != *g.Id ||
		launched.Tags[tagClusterID] == "" {
		t.Errorf("launched %+v", launched)
	}

	if again, err := w.sim.LaunchForNodeGroup("hpc", "gpu-a", "gpu-a-1"); err != nil || again.ID != launched.ID {
		t.Errorf("again: %s, %v", again.ID, err)
	}

	for _, node := range []string{"gpu-a-5", "gpu-a-0", "gpu-b-1", "gpu-a-x"} {
		if _, err := w.sim.LaunchForNodeGroup("hpc", *g.Id, node); err == nil {
			t.Errorf("%s was launched", node)
		}
	}

	if _, err := w.sim.LaunchForNodeGroup("hpc", "gpu-b", "gpu-b-1"); err == nil {
		t.Error("a node of an unknown group was launched")
	}

	if err := w.sim.TerminateNode("hpc", "gpu-a", "gpu-a-1"); err != nil {
		t.Fatal(err)
	}

	if nodes := w.view("gpu-a").Instances; len(nodes) != 0 {
		t.Errorf("nodes %v after the termination", nodes)
	}
	// Its place in the block is being cleaned, so only three more fit.
	for _, node := range []string{"gpu-a-1", "gpu-a-2", "gpu-a-3"} {
		if _, err := w.sim.LaunchForNodeGroup("hpc", "gpu-a", node); err != nil {
			t.Fatal(err)
		}
	}

	var api *APIError
	if _, err := w.sim.LaunchForNodeGroup("hpc", "gpu-a", "gpu-a-4"); !errors.As(err, &api) ||
		api.Code != "ReservationCapacityExceeded" {
		t.Errorf("fifth place of four: %v", err)
	}
	// EC2 takes the instances back 30 minutes before the end at 11:30.
	w.sim.Clock().Set(time.Date(2026, 12, 2, 11, 1, 0, 0, time.UTC))

	if g := w.view("gpu-a"); len(g.Instances) != 0 {
		t.Errorf("nodes %v after EC2 reclaimed the block", g.Instances)
	}
}

func TestLaunchBeforeTheBlockOpens(t *testing.T) {
	w := newPCSWorld(t)
	in := w.blockGroup("gpu-a")
	in.CustomLaunchTemplate = w.template("capacity-block", futureBlock, "p5.48xlarge")
	w.group(in)
	view := w.view("gpu-a")
	opens := time.Date(2026, 12, 2, 11, 30, 0, 0, time.UTC)

	if view.ReservationID != futureBlock || view.ReservationState != "scheduled" || view.VCPUs != 192 ||
		view.GPUs != 8 {
		t.Errorf("view %+v", view)
	}

	var api *APIError
	if _, err := w.sim.LaunchForNodeGroup("hpc", "gpu-a", "gpu-a-1"); !errors.As(err, &api) ||
		api.Code != "InvalidCapacityReservationState.PendingActivation" {
		t.Errorf("before it opens: %v", err)
	}

	w.sim.Clock().Set(opens)

	if state := w.view("gpu-a").ReservationState; state != "active" {
		t.Errorf("state %s at the start", state)
	}

	if _, err := w.sim.LaunchForNodeGroup("hpc", "gpu-a", "gpu-a-1"); err != nil {
		t.Error(err)
	}
}

// view is the node group as listeners see it.
func (w *pcsWorld) view(name string) PCSNodeGroup {
	w.Helper()

	for _, cl := range w.sim.PCSClusters() {
		for _, g := range cl.NodeGroups {
			if g.Name == name {
				return g
			}
		}
	}

	w.Fatalf("no node group %s", name)

	return PCSNodeGroup{}
}

// What PCS has taken can fail later. It then says why, takes an update only after a failed update, and deletes.
func TestNodeGroupsThatFail(t *testing.T) {
	w := newPCSWorld(t)
	failOnce := func(operation string) {
		_, err := w.sim.AddFault(Fault{
			Operation: operation,
			Effect:    FailLater,
			Code:      "InsufficientAddresses",
			Message:   "no address is left",
			Count:     1,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	wantStatus := func(id *string, status types.ComputeNodeGroupStatus) {
		t.Helper()

		out, err := w.pcs.GetComputeNodeGroup(t.Context(), &pcs.GetComputeNodeGroupInput{
			ClusterIdentifier:          aws.String("hpc"),
			ComputeNodeGroupIdentifier: id,
		})
		g := must(t, out, err).ComputeNodeGroup
		says := len(g.ErrorInfo) == 1 && aws.ToString(g.ErrorInfo[0].Code) == "InsufficientAddresses" &&
			aws.ToString(g.ErrorInfo[0].Message) == "no address is left"

		if g.Status != status || says != (status != types.ComputeNodeGroupStatusActive) {
			t.Errorf("%s, because of %+v; want %s", g.Status, g.ErrorInfo, status)
		}
	}
	update := func(id *string) error {
		_, err := w.pcs.UpdateComputeNodeGroup(t.Context(), &pcs.UpdateComputeNodeGroupInput{
			ClusterIdentifier:          aws.String("hpc"),
			ComputeNodeGroupIdentifier: id,
			ScalingConfiguration:       scaling(0, 3),
		})
		w.settle()

		return err
	}

	failOnce("CreateComputeNodeGroup")

	g := w.group(w.demandGroup("gpu-a", 2))
	wantStatus(g.Id, types.ComputeNodeGroupStatusCreateFailed)

	if err := update(g.Id); code(err) != "ConflictException" {
		t.Errorf("an update of what was not created: %v", err)
	}

	if err := deleteGroup(w, g.Id); err != nil {
		t.Error(err)
	}

	w.settle()

	g = w.group(w.demandGroup("gpu-a", 2))

	failOnce("UpdateComputeNodeGroup")

	for _, status := range []types.ComputeNodeGroupStatus{
		types.ComputeNodeGroupStatusUpdateFailed,
		types.ComputeNodeGroupStatusActive,
	} {
		if err := update(g.Id); err != nil {
			t.Error(err)
		}

		wantStatus(g.Id, status)
	}

	failOnce("DeleteComputeNodeGroup")

	for _, status := range []types.ComputeNodeGroupStatus{types.ComputeNodeGroupStatusDeleteFailed, ""} {
		if err := deleteGroup(w, g.Id); err != nil {
			t.Error(err)
		}

		w.settle()

		if status != "" {
			wantStatus(g.Id, status)
		}
	}
}
