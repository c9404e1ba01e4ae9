package awssim

import (
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/pcs"
	"github.com/aws/aws-sdk-go-v2/service/pcs/types"
)

func TestQueueLife(t *testing.T) {
	w := newPCSWorld(t)
	a := w.group(w.blockGroup("gpu-a"))
	q := w.queue("gpu", a)
	if len(q.ComputeNodeGroupConfigurations) != 1 || q.Status != types.QueueStatusCreating {
		t.Errorf("new queue %+v", q)
	}
	update := func(groups []types.ComputeNodeGroupConfiguration) (*pcs.UpdateQueueOutput, error) {
		return w.pcs.UpdateQueue(t.Context(), &pcs.UpdateQueueInput{ClusterIdentifier: aws.String("hpc"), QueueIdentifier: q.Id, ComputeNodeGroupConfigurations: groups})
	}
	var conflict *types.ConflictException
	var missing *types.ResourceNotFoundException

	created, err := w.pcs.CreateComputeNodeGroup(t.Context(), w.blockGroup("gpu-b"))
	b := must(t, created, err).ComputeNodeGroup
	if _, err := update(members(a, b)); !errors.As(err, &conflict) || *conflict.ResourceId != *b.Id {
		t.Errorf("a group joined while CREATING: %v", err)
	}
	w.settle()
	out, err := update(members(a, b))
	if must(t, out, err); len(out.Queue.ComputeNodeGroupConfigurations) != 2 || out.Queue.Status != types.QueueStatusUpdating {
		t.Errorf("after the update %+v", out.Queue)
	}
	if _, err := update(members(b)); !errors.As(err, &conflict) || *conflict.ResourceId != *q.Id {
		t.Errorf("update while UPDATING: %v", err)
	}
	w.settle()

	// The list is replaced whole, and kept when the request leaves it out.
	out, err = update(nil)
	if must(t, out, err); len(out.Queue.ComputeNodeGroupConfigurations) != 2 {
		t.Errorf("an update without a list left %d groups", len(out.Queue.ComputeNodeGroupConfigurations))
	}
	w.settle()
	out, err = update(members(b))
	must(t, out, err)
	w.settle()
	if err := deleteGroup(w, a.Id); err != nil {
		t.Errorf("the group that left the queue: %v", err)
	}
	if _, err := update(members(b, a)); !errors.As(err, &conflict) {
		t.Errorf("a group joined while DELETING: %v", err)
	}
	w.settle()
	if _, err := update(members(b, a)); !errors.As(err, &missing) || *missing.ResourceType != kindGroup {
		t.Errorf("a group joined that is gone: %v", err)
	}
	_, err = update(members(b, b))
	wantField(t, err, "computeNodeGroupConfigurations", "twice")
	out, err = update(members())
	if must(t, out, err); len(out.Queue.ComputeNodeGroupConfigurations) != 0 {
		t.Error("an empty list left groups")
	}
	w.settle()
	got, err := w.pcs.GetQueue(t.Context(), &pcs.GetQueueInput{ClusterIdentifier: aws.String("hpc"), QueueIdentifier: aws.String("gpu")})
	if must(t, got, err); got.Queue.Status != types.QueueStatusActive {
		t.Errorf("status %s", got.Queue.Status)
	}
}

func TestQueueValidation(t *testing.T) {
	w := newPCSWorld(t)
	w.queue("gpu")
	tests := []struct {
		name        string
		in          pcs.CreateQueueInput
		field, text string
	}{
		{"name", pcs.CreateQueueInput{QueueName: aws.String("gp")}, "queueName", "3 to 25"},
		{"setting of a partition that PCS has not", pcs.CreateQueueInput{QueueName: aws.String("cpu"), SlurmConfiguration: &types.QueueSlurmConfigurationRequest{
			SlurmCustomSettings: []types.SlurmCustomSetting{{ParameterName: aws.String("State"), ParameterValue: aws.String("DOWN")}}}},
			"slurmConfiguration.slurmCustomSettings", "State"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.in.ClusterIdentifier = aws.String("hpc")
			_, err := w.pcs.CreateQueue(t.Context(), &test.in)
			wantField(t, err, test.field, test.text)
		})
	}
	var conflict *types.ConflictException
	if _, err := w.pcs.CreateQueue(t.Context(), &pcs.CreateQueueInput{ClusterIdentifier: aws.String("hpc"), QueueName: aws.String("gpu")}); !errors.As(err, &conflict) {
		t.Errorf("name in use: %v", err)
	}
	var missing *types.ResourceNotFoundException
	if _, err := w.pcs.GetQueue(t.Context(), &pcs.GetQueueInput{ClusterIdentifier: aws.String("nowhere"), QueueIdentifier: aws.String("gpu")}); !errors.As(err, &missing) || *missing.ResourceType != kindCluster {
		t.Errorf("unknown cluster: %v", err)
	}
}

// TestPCSFaults decodes what faults answer into the types of the SDK.
func TestPCSFaults(t *testing.T) {
	w := newPCSWorld(t)
	fail := func(code string) error {
		must(t, 0, func() error {
			_, err := w.sim.AddFault(Fault{Service: "pcs", Effect: FailBefore, Code: code, Count: 1})
			return err
		}())
		_, err := w.cluster("hpc")
		return err
	}
	var throttled *types.ThrottlingException
	if err := fail("ThrottlingException"); !errors.As(err, &throttled) {
		t.Errorf("got %v", err)
	}
	var denied *types.AccessDeniedException
	if err := fail("AccessDeniedException"); !errors.As(err, &denied) {
		t.Errorf("got %v", err)
	}
	var conflict *types.ConflictException
	if err := fail("ConflictException"); !errors.As(err, &conflict) {
		t.Errorf("got %v", err)
	}
	var internal *types.InternalServerException
	if err := fail(""); !errors.As(err, &internal) {
		t.Errorf("got %v", err)
	}
	if _, err := w.pcs.RegisterComputeNodeGroupInstance(t.Context(), &pcs.RegisterComputeNodeGroupInstanceInput{
		ClusterIdentifier: aws.String("hpc"), BootstrapId: aws.String("x")}); !errors.As(err, &denied) {
		t.Errorf("got %v", err)
	}
}
