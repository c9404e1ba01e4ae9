package awssim

import (
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/pcs"
	"github.com/aws/aws-sdk-go-v2/service/pcs/types"
)

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
	_, err = w.pcs.CreateQueue(t.Context(), &pcs.CreateQueueInput{ClusterIdentifier: aws.String("hpc"), QueueName: aws.String("gpu")})
	wantConflict("new queue while the cluster is UPDATING", err)
	w.settle()
	q := w.queue("gpu", g)
	_, err = w.pcs.DeleteCluster(t.Context(), &pcs.DeleteClusterInput{ClusterIdentifier: aws.String("hpc")})
	wantConflict("delete of a cluster with a queue and a group", err)
	wantConflict("delete of a group in a queue", deleteGroup(w, g.Id))
	if _, err := w.pcs.DeleteQueue(t.Context(), &pcs.DeleteQueueInput{ClusterIdentifier: aws.String("hpc"), QueueIdentifier: q.Id}); err != nil {
		t.Fatal(err)
	}
	wantConflict("update while a queue is DELETING", updateCluster())
	w.settle()
	if err := deleteGroup(w, g.Id); err != nil {
		t.Fatal(err)
	}
	w.settle()
	if _, err := w.pcs.DeleteCluster(t.Context(), &pcs.DeleteClusterInput{ClusterIdentifier: aws.String("hpc")}); err != nil {
		t.Error(err)
	}
}
