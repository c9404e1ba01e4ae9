package awssim

import (
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/pcs"
	"github.com/aws/aws-sdk-go-v2/service/pcs/types"
)

func (w *pcsWorld) cluster(identifier string) (*types.Cluster, error) {
	out, err := w.pcs.GetCluster(w.Context(), &pcs.GetClusterInput{ClusterIdentifier: &identifier})
	if err != nil {
		return nil, err
	}
	return out.Cluster, nil
}

// The API is newer than the SDK: these members go over the wire by hand.
func TestMembersNewerThanTheSDK(t *testing.T) {
	w := newPCSWorld(t)
	status, answer := w.post("UpdateCluster", `{"clusterIdentifier":"hpc","scheduler":{"version":"25.05"}}`)
	if status != 400 || !strings.Contains(answer, "not newer than 25.11") {
		t.Errorf("HTTP %d: %s", status, answer)
	}
	status, answer = w.post("UpdateCluster", `{"clusterIdentifier":"hpc","scheduler":{"version":"26.05"}}`)
	if status != 200 || !strings.Contains(answer, `"version":"26.05"`) {
		t.Errorf("HTTP %d: %s", status, answer)
	}
	w.settle()
	w.group(w.demandGroup("demand", 2))
	actions := `{"stages":{"nodeReady":[{"name":"mount","scriptSource":{"scriptLocation":"s3://bucket/mount.sh"}}]}}`
	status, answer = w.post("UpdateComputeNodeGroup", `{"clusterIdentifier":"hpc","computeNodeGroupIdentifier":"demand","nodeLifecycleActions":`+actions+`}`)
	if status != 200 || !strings.Contains(answer, actions) {
		t.Errorf("HTTP %d: %s", status, answer)
	}
	w.settle()
	for script, says := range map[string]string{
		`{"name":"mount"}`: "scriptSource",
		`{"name":"mount","scriptSource":{"scriptLocation":"http://example.com/mount.sh"}}`:                                       "neither s3://BUCKET/KEY nor an HTTPS URL",
		`{"name":"_","scriptSource":{"scriptLocation":"https://example.com/mount.sh","s3VersionId":"1"}}`:                        "s3VersionId is for an Amazon S3 URI",
		`{"name":"_","scriptSource":{"scriptLocation":"s3://bucket/mount.sh","checksum":"1"}}`:                                   "not a unique name",
		`{"name":"mount","scriptSource":{"scriptLocation":"s3://bucket/mount.sh","checksum":"1"}}`:                               "not a SHA-256 checksum",
		`{"name":"mount","onError":"IGNORE","scriptSource":{"scriptLocation":"s3://bucket/mount.sh"}}`:                           "IGNORE",
		`{"name":"mount","arguments":["` + strings.Repeat("x", 257) + `"],"scriptSource":{"scriptLocation":"s3://bucket/m.sh"}}`: "has 257 characters",
	} {
		status, answer = w.post("UpdateComputeNodeGroup", `{"clusterIdentifier":"hpc","computeNodeGroupIdentifier":"demand","nodeLifecycleActions":{"stages":{"nodeBootstrapped":[`+script+`]}}}`)
		if status != 400 || !strings.Contains(answer, says) {
			t.Errorf("%s: HTTP %d: %s", script, status, answer)
		}
	}
	status, answer = w.post("UpdateComputeNodeGroup", `{"clusterIdentifier":"hpc","computeNodeGroupIdentifier":"demand","nodeLifecycleActions":`+strings.Replace(actions, "nodeReady", "nodeStopped", 1)+`}`)
	if status != 400 || !strings.Contains(answer, "nodeStopped: unknown member") {
		t.Errorf("unknown stage: HTTP %d: %s", status, answer)
	}
	status, answer = w.post("GetCluster", `{"clusterIdentifier":"hpc","verbose":true}`)
	if status != 400 || !strings.Contains(answer, "verbose: unknown member") {
		t.Errorf("HTTP %d: %s", status, answer)
	}
	status, answer = w.post("GetCluster", `{"clusterIdentifier":`)
	if status != 400 || !strings.Contains(answer, `"reason":"cannotParse"`) {
		t.Errorf("HTTP %d: %s", status, answer)
	}
	if status, answer = w.post("StopCluster", `{}`); status != 400 || !strings.Contains(answer, "UnknownOperationException") {
		t.Errorf("HTTP %d: %s", status, answer)
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
