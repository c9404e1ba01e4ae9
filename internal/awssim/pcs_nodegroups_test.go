package awssim

import (
	"errors"
	"strings"
	"testing"

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
		{"short name", func(in *pcs.CreateComputeNodeGroupInput) { in.ComputeNodeGroupName = aws.String("ab") }, "computeNodeGroupName", "3 to 25"},
		{"long name", func(in *pcs.CreateComputeNodeGroupInput) {
			in.ComputeNodeGroupName = aws.String("abcdefghijklmnopqrstuvwxyz")
		}, "computeNodeGroupName", "3 to 25"},
		{"name like an id", func(in *pcs.CreateComputeNodeGroupInput) { in.ComputeNodeGroupName = aws.String("pcs_abc") }, "computeNodeGroupName", "pcs_"},
		{"name with an underscore", func(in *pcs.CreateComputeNodeGroupInput) { in.ComputeNodeGroupName = aws.String("gpu_a") }, "computeNodeGroupName", "hyphens"},
		{"name with a digit first", func(in *pcs.CreateComputeNodeGroupInput) { in.ComputeNodeGroupName = aws.String("4gpu") }, "computeNodeGroupName", "starts with a letter"},
		{"no profile", func(in *pcs.CreateComputeNodeGroupInput) { in.IamInstanceProfileArn = aws.String("AWSPCS-nodes") }, "iamInstanceProfileArn", "not the ARN"},
		{"mix of static and dynamic", func(in *pcs.CreateComputeNodeGroupInput) { in.ScalingConfiguration = scaling(1, 4) }, "scalingConfiguration", "mix"},
		{"more than the maximum", func(in *pcs.CreateComputeNodeGroupInput) { in.ScalingConfiguration = scaling(4, 2) }, "scalingConfiguration", "more than maxInstanceCount"},
		{"unknown template", func(in *pcs.CreateComputeNodeGroupInput) {
			in.CustomLaunchTemplate = &types.CustomLaunchTemplate{Id: aws.String("lt-0123456789abcdef0"), Version: aws.String("1")}
		}, "customLaunchTemplate", "does not exist"},
		{"unknown version", func(in *pcs.CreateComputeNodeGroupInput) { in.CustomLaunchTemplate.Version = aws.String("2") }, "customLaunchTemplate", `version "2" does not exist`},
		{"unknown subnet", func(in *pcs.CreateComputeNodeGroupInput) { in.SubnetIds = []string{"subnet-0123456789abcdef0"} }, "subnetIds", "does not exist"},
		{"other VPC", func(in *pcs.CreateComputeNodeGroupInput) { in.SubnetIds = []string{subnetA, subnetOther} }, "subnetIds", "the cluster is in vpc-"},
		{"no subnet", func(in *pcs.CreateComputeNodeGroupInput) { in.SubnetIds = []string{} }, "subnetIds", "at least one"},
		{"unknown type", func(in *pcs.CreateComputeNodeGroupInput) {
			in.InstanceConfigs = []types.InstanceConfig{{InstanceType: aws.String("p6.wrong")}}
		}, "instanceConfigs", "does not exist"},
		{"unknown AMI", func(in *pcs.CreateComputeNodeGroupInput) { in.AmiId = aws.String("ami-0123456789abcdef0") }, "amiId", "does not exist"},
		{"unknown Slurm parameter", func(in *pcs.CreateComputeNodeGroupInput) {
			in.SlurmConfiguration = &types.ComputeNodeGroupSlurmConfigurationRequest{SlurmCustomSettings: []types.SlurmCustomSetting{
				{ParameterName: aws.String("ResumeTimeout"), ParameterValue: aws.String("600")}}}
		}, "slurmConfiguration.slurmCustomSettings", "ResumeTimeout"},
		{"tag of AWS", func(in *pcs.CreateComputeNodeGroupInput) { in.Tags = map[string]string{"aws:mine": "x"} }, "tags", "aws:"},

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
		{"more than the block", func(in *pcs.CreateComputeNodeGroupInput) { in.ScalingConfiguration = scaling(5, 5) }, "scalingConfiguration", "4 instances"},
		{"no subnet in the zone of the block", func(in *pcs.CreateComputeNodeGroupInput) { in.SubnetIds = []string{subnetB} }, "subnetIds", "use2-az1"},
		{"block on an old Slurm", func(in *pcs.CreateComputeNodeGroupInput) { in.ClusterIdentifier = aws.String("old") }, "purchaseOption", "needs Slurm 24.05"},
		{"ODCR as a block", func(in *pcs.CreateComputeNodeGroupInput) {
			in.CustomLaunchTemplate = w.template("capacity-block", odcr, "c7i.large")
		}, "purchaseOption", "of the kind odcr"},

		{"block on demand", func(in *pcs.CreateComputeNodeGroupInput) { in.PurchaseOption = types.PurchaseOptionOndemand }, "purchaseOption", "of the kind capacity-block"},
		{"market type on demand", func(in *pcs.CreateComputeNodeGroupInput) {
			*in = *w.demandGroup("demand", 1)
			in.CustomLaunchTemplate = w.template("capacity-block", odcr, "c7i.large")
		}, "customLaunchTemplate", "MarketType"},
		{"ODCR in another zone", func(in *pcs.CreateComputeNodeGroupInput) {
			*in = *w.demandGroup("demand", 1)
			in.CustomLaunchTemplate = w.template("", odcr, "")
			in.SubnetIds = []string{subnetB}
		}, "subnetIds", "use2-az1"},
		{"spot into a reservation", func(in *pcs.CreateComputeNodeGroupInput) {
			*in = *w.demandGroup("spot", 1)
			in.PurchaseOption = types.PurchaseOptionSpot
			in.CustomLaunchTemplate = w.template("spot", odcr, "c7i.large")
		}, "customLaunchTemplate", "cannot target"},
		{"spot options on demand", func(in *pcs.CreateComputeNodeGroupInput) {
			*in = *w.demandGroup("demand", 1)
			in.SpotOptions = &types.SpotOptions{AllocationStrategy: types.SpotAllocationStrategyLowestPrice}
		}, "spotOptions", "SPOT"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			in := w.blockGroup("gpu-a")
			test.change(in)
			_, err := w.pcs.CreateComputeNodeGroup(t.Context(), in)
			wantField(t, err, test.field, test.text)
		})
	}
	out, err := w.pcs.ListComputeNodeGroups(t.Context(), &pcs.ListComputeNodeGroupsInput{ClusterIdentifier: aws.String("hpc")})
	if must(t, out, err); len(out.ComputeNodeGroups) > 0 {
		t.Errorf("refused groups exist: %v", out.ComputeNodeGroups)
	}
}

func deleteGroup(w *pcsWorld, id *string) error {
	_, err := w.pcs.DeleteComputeNodeGroup(w.Context(), &pcs.DeleteComputeNodeGroupInput{ClusterIdentifier: aws.String("hpc"), ComputeNodeGroupIdentifier: id})
	return err
}

// A group whose block has expired can still be scaled down and deleted.
func TestNodeGroupOutlivesItsBlock(t *testing.T) {
	w := newPCSWorld(t)
	g := w.group(w.blockGroup("gpu-a"))
	w.sim.Clock().Set(noon.AddDate(0, 0, 2))
	out, err := w.pcs.UpdateComputeNodeGroup(t.Context(), &pcs.UpdateComputeNodeGroupInput{
		ClusterIdentifier: aws.String("hpc"), ComputeNodeGroupIdentifier: g.Id, ScalingConfiguration: scaling(0, 4)})
	must(t, out, err)
	w.settle()
	if err := deleteGroup(w, g.Id); err != nil {
		t.Error(err)
	}
}
