package awssim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/pcs"
	"github.com/aws/aws-sdk-go-v2/service/pcs/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"
)

func clusterRequest(name string) *pcs.CreateClusterInput {
	return &pcs.CreateClusterInput{
		ClusterName: &name, Size: types.SizeSmall,
		Scheduler:  &types.SchedulerRequest{Type: types.SchedulerTypeSlurm, Version: aws.String("25.05")},
		Networking: &types.NetworkingRequest{SubnetIds: []string{subnetA}, SecurityGroupIds: []string{"sg-0000000000000000a"}},
	}
}

func (w *pcsWorld) cluster(identifier string) (*types.Cluster, error) {
	out, err := w.pcs.GetCluster(w.Context(), &pcs.GetClusterInput{ClusterIdentifier: &identifier})
	if err != nil {
		return nil, err
	}
	return out.Cluster, nil
}

func TestClusterLife(t *testing.T) {
	w := newPCSWorld(t)
	in := clusterRequest("new")
	in.SlurmConfiguration = &types.ClusterSlurmConfigurationRequest{
		Accounting: &types.AccountingRequest{Mode: types.AccountingModeStandard},
		SlurmCustomSettings: []types.SlurmCustomSetting{
			{ParameterName: aws.String("CliFilterPlugins"), ParameterValue: aws.String("cli_filter/lua")}},
	}
	out, err := w.pcs.CreateCluster(t.Context(), in)
	created := must(t, out, err).Cluster
	if created.Status != types.ClusterStatusCreating || len(created.Endpoints) > 0 {
		t.Errorf("at first: %s with endpoints %v", created.Status, created.Endpoints)
	}
	var quota *types.ServiceQuotaExceededException
	if _, err := w.pcs.CreateCluster(t.Context(), clusterRequest("second")); !errors.As(err, &quota) || *quota.ServiceCode != "pcs" {
		t.Errorf("second cluster while one is CREATING: %v", err)
	}
	w.settle()
	got, err := w.cluster(*created.Id)
	if must(t, got, err); got.Status != types.ClusterStatusActive || len(got.Endpoints) != 2 || *got.Endpoints[0].Port != "6817" {
		t.Errorf("after a minute: %s with endpoints %v", got.Status, got.Endpoints)
	}
	if *got.SlurmConfiguration.ScaleDownIdleTimeInSeconds != 600 || len(got.SlurmConfiguration.SlurmCustomSettings) != 1 {
		t.Errorf("Slurm configuration %+v", got.SlurmConfiguration)
	}

	updated, err := w.pcs.UpdateCluster(t.Context(), &pcs.UpdateClusterInput{ClusterIdentifier: aws.String("new"),
		SlurmConfiguration: &types.UpdateClusterSlurmConfigurationRequest{
			SlurmCustomSettings: []types.SlurmCustomSetting{}, Accounting: &types.UpdateAccountingRequest{DefaultPurgeTimeInDays: aws.Int32(30)}}})
	if c := must(t, updated, err).Cluster; c.Status != types.ClusterStatusUpdating || len(c.SlurmConfiguration.SlurmCustomSettings) != 0 ||
		c.SlurmConfiguration.Accounting.Mode != types.AccountingModeStandard || *c.SlurmConfiguration.Accounting.DefaultPurgeTimeInDays != 30 {
		t.Errorf("update: %s, %+v", c.Status, c.SlurmConfiguration)
	}
	var conflict *types.ConflictException
	if _, err := w.pcs.DeleteCluster(t.Context(), &pcs.DeleteClusterInput{ClusterIdentifier: aws.String("new")}); !errors.As(err, &conflict) {
		t.Errorf("delete while UPDATING: %v", err)
	}
	w.settle()
	if _, err := w.pcs.DeleteCluster(t.Context(), &pcs.DeleteClusterInput{ClusterIdentifier: aws.String("new")}); err != nil {
		t.Error(err)
	}
	got, err = w.cluster("new")
	if must(t, got, err); got.Status != types.ClusterStatusDeleting {
		t.Errorf("status %s after DeleteCluster", got.Status)
	}
	w.settle()
	var missing *types.ResourceNotFoundException
	if _, err := w.cluster("new"); !errors.As(err, &missing) || *missing.ResourceId != "new" || *missing.ResourceType != kindCluster {
		t.Errorf("after the delete: %v", err)
	}
}

func TestClusterValidation(t *testing.T) {
	w := newPCSWorld(t)
	tests := []struct {
		name        string
		change      func(in *pcs.CreateClusterInput)
		field, text string
	}{
		{"name", func(in *pcs.CreateClusterInput) { in.ClusterName = aws.String("pcs_x") }, "clusterName", "pcs_"},
		{"old Slurm", func(in *pcs.CreateClusterInput) { in.Scheduler.Version = aws.String("23.11") }, "scheduler.version", "not one of"},
		{"unknown scheduler", func(in *pcs.CreateClusterInput) { in.Scheduler.Type = "PBS" }, "scheduler.type", "SchedulerType"},
		{"unknown size", func(in *pcs.CreateClusterInput) { in.Size = "HUGE" }, "size", "HUGE"},
		{"two subnets", func(in *pcs.CreateClusterInput) { in.Networking.SubnetIds = []string{subnetA, subnetB} }, "networking.subnetIds", "1 subnet"},
		{"unknown subnet", func(in *pcs.CreateClusterInput) { in.Networking.SubnetIds = []string{"subnet-0123456789abcdef0"} }, "networking.subnetIds", "does not exist"},
		{"unknown security group", func(in *pcs.CreateClusterInput) { in.Networking.SecurityGroupIds = []string{"sg-0123456789abcdef0"} }, "networking.securityGroupIds", "does not exist"},
		{"short client token", func(in *pcs.CreateClusterInput) { in.ClientToken = aws.String("short") }, "clientToken", "8 to 100"},
		{"other CLI filter", func(in *pcs.CreateClusterInput) {
			in.SlurmConfiguration = &types.ClusterSlurmConfigurationRequest{SlurmCustomSettings: []types.SlurmCustomSetting{
				{ParameterName: aws.String("CliFilterPlugins"), ParameterValue: aws.String("lua")}}}
		}, "slurmConfiguration.slurmCustomSettings", "cli_filter/lua"},
		{"job submit plugin", func(in *pcs.CreateClusterInput) {
			in.SlurmConfiguration = &types.ClusterSlurmConfigurationRequest{SlurmCustomSettings: []types.SlurmCustomSetting{
				{ParameterName: aws.String("JobSubmitPlugins"), ParameterValue: aws.String("lua")}}}
		}, "slurmConfiguration.slurmCustomSettings", "JobSubmitPlugins"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			in := clusterRequest("new")
			test.change(in)
			_, err := w.pcs.CreateCluster(t.Context(), in)
			wantField(t, err, test.field, test.text)
		})
	}
	var conflict *types.ConflictException
	if _, err := w.pcs.CreateCluster(t.Context(), clusterRequest("hpc")); !errors.As(err, &conflict) {
		t.Errorf("name in use: %v", err)
	}
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

func TestQuotas(t *testing.T) {
	w := newPCSWorld(t)
	var quota *types.ServiceQuotaExceededException
	for i := range clusterQuota {
		w.group(w.demandGroup(fmt.Sprintf("group-%d", i), 3))
		w.queue(fmt.Sprintf("queue-%d", i))
	}
	if _, err := w.pcs.CreateComputeNodeGroup(t.Context(), w.demandGroup("group-x", 1)); !errors.As(err, &quota) {
		t.Errorf("eleventh group: %v", err)
	}
	if _, err := w.pcs.CreateQueue(t.Context(), &pcs.CreateQueueInput{ClusterIdentifier: aws.String("hpc"), QueueName: aws.String("queue-x")}); !errors.As(err, &quota) {
		t.Errorf("eleventh queue: %v", err)
	}
	if err := deleteGroup(w, aws.String("group-0")); err != nil {
		t.Fatal(err)
	}
	w.settle()
	// 27 nodes are left of the 32 of a SMALL cluster.
	if _, err := w.pcs.CreateComputeNodeGroup(t.Context(), w.demandGroup("group-x", 6)); !errors.As(err, &quota) || !strings.Contains(quota.ErrorMessage(), "33") {
		t.Errorf("33 nodes: %v", err)
	}
	w.group(w.demandGroup("group-x", 5))
	_, err := w.pcs.UpdateComputeNodeGroup(t.Context(), &pcs.UpdateComputeNodeGroupInput{
		ClusterIdentifier: aws.String("hpc"), ComputeNodeGroupIdentifier: aws.String("group-1"), ScalingConfiguration: scaling(0, 4)})
	if !errors.As(err, &quota) {
		t.Errorf("33 nodes by an update: %v", err)
	}
}

func TestClientTokens(t *testing.T) {
	w := newPCSWorld(t)
	in := w.blockGroup("gpu-a")
	in.ClientToken = aws.String("token-0001")
	out, err := w.pcs.CreateComputeNodeGroup(t.Context(), in)
	first := must(t, out, err).ComputeNodeGroup
	w.settle()
	out, err = w.pcs.CreateComputeNodeGroup(t.Context(), in)
	if again := must(t, out, err).ComputeNodeGroup; *again.Id != *first.Id {
		t.Errorf("the same request made %s and %s", *first.Id, *again.Id)
	}
	other := w.blockGroup("gpu-b")
	other.ClientToken = in.ClientToken
	var conflict *types.ConflictException
	if _, err := w.pcs.CreateComputeNodeGroup(t.Context(), other); !errors.As(err, &conflict) {
		t.Errorf("another request with the token: %v", err)
	}
	// A refused request does not use its token up.
	other.ClientToken, other.ScalingConfiguration = aws.String("token-0002"), scaling(9, 9)
	if _, err := w.pcs.CreateComputeNodeGroup(t.Context(), other); err == nil {
		t.Fatal("9 of 4 instances were accepted")
	}
	other.ScalingConfiguration = scaling(2, 2)
	if _, err := w.pcs.CreateComputeNodeGroup(t.Context(), other); err != nil {
		t.Error(err)
	}
}

func TestPages(t *testing.T) {
	w := newPCSWorld(t)
	want := []string{"queue-a", "queue-b", "queue-c", "queue-d", "queue-e"}
	for _, name := range []string{"queue-c", "queue-a", "queue-e", "queue-b", "queue-d"} {
		w.queue(name)
	}
	var got []string
	pages := pcs.NewListQueuesPaginator(w.pcs, &pcs.ListQueuesInput{ClusterIdentifier: aws.String("hpc"), MaxResults: aws.Int32(2)})
	for number := 0; pages.HasMorePages(); number++ {
		page, err := pages.NextPage(t.Context())
		must(t, page, err)
		if len(page.Queues) > 2 {
			t.Errorf("a page of %d", len(page.Queues))
		}
		for _, q := range page.Queues {
			got = append(got, *q.Name)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	for _, in := range []*pcs.ListClustersInput{{MaxResults: aws.Int32(0)}, {MaxResults: aws.Int32(101)}} {
		_, err := w.pcs.ListClusters(t.Context(), in)
		wantField(t, err, "maxResults", "between 1 and 100")
	}
	_, err := w.pcs.ListClusters(t.Context(), &pcs.ListClustersInput{NextToken: aws.String("nonsense")})
	wantField(t, err, "nextToken", "not a token")
	out, err := w.pcs.ListClusters(t.Context(), &pcs.ListClustersInput{})
	if must(t, out, err); len(out.Clusters) != 2 || out.NextToken != nil {
		t.Errorf("clusters %v, token %v", out.Clusters, out.NextToken)
	}
}

func TestTags(t *testing.T) {
	w := newPCSWorld(t)
	in := w.blockGroup("gpu-a")
	in.Tags = map[string]string{"team": "nlp", "empty": ""}
	g := w.group(in)
	if _, err := w.pcs.TagResource(t.Context(), &pcs.TagResourceInput{ResourceArn: g.Arn, Tags: map[string]string{"team": "vision", "stage": "test"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.pcs.UntagResource(t.Context(), &pcs.UntagResourceInput{ResourceArn: g.Arn, TagKeys: []string{"empty", "never"}}); err != nil {
		t.Fatal(err)
	}
	out, err := w.pcs.ListTagsForResource(t.Context(), &pcs.ListTagsForResourceInput{ResourceArn: g.Arn})
	if diff := cmp.Diff(map[string]string{"team": "vision", "stage": "test"}, must(t, out, err).Tags); diff != "" {
		t.Error(diff)
	}
	var missing *types.ResourceNotFoundException
	if _, err := w.pcs.ListTagsForResource(t.Context(), &pcs.ListTagsForResourceInput{ResourceArn: aws.String(*g.Arn + "x")}); !errors.As(err, &missing) {
		t.Errorf("unknown ARN: %v", err)
	}
	// The model gives TagResource no ValidationException, so the SDK knows it by its code only.
	var api smithy.APIError
	_, err = w.pcs.TagResource(t.Context(), &pcs.TagResourceInput{ResourceArn: g.Arn, Tags: map[string]string{"AWS:x": "y"}})
	if !errors.As(err, &api) || api.ErrorCode() != "ValidationException" {
		t.Errorf("tag of AWS: %v", err)
	}
}
