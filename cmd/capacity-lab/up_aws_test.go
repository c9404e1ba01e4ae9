package main

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// awsConfig reaches the lab's AWS as its env file says.
func (p *upProcess) awsConfig(t *testing.T) aws.Config {
	t.Helper()
	for _, key := range []string{"AWS_ENDPOINT_URL", "AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		t.Setenv(key, p.sh(t, "echo $"+key))
	}
	cfg, err := config.LoadDefaultConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// advance moves AWS's clock; Slurm's is the machine's.
func (p *upProcess) advance(t *testing.T, by string) {
	t.Helper()
	p.sh(t, labProgram+" sim clock advance="+by)
}

// instanceClient sends requests to the metadata service of one instance.
type instanceClient string

func (base instanceClient) Do(r *http.Request) (*http.Response, error) {
	at, err := url.Parse(string(base) + r.URL.Path)
	if err != nil {
		return nil, err
	}
	r.URL, r.Host = at, at.Host
	return http.DefaultClient.Do(r)
}

// What the product's ResumeProgram does, done by hand: the instance finds its
// node in the launch's tag and boots into it.
func TestLongUpEC2InstancesBecomeNodes(t *testing.T) {
	before := traces(t)
	p := startUp(t, "", nil, "--mode", "ec2", "--scenario", scenario, "--boot-delay", "100ms", "--accounting")
	p.waitReady(t)
	p.accounts(t)
	api := ec2.NewFromConfig(p.awsConfig(t))
	job := p.sh(t, "sbatch --parsable -p gpu -N2 --gpus-per-node=8 -o job.out --wrap 'srun hostname; echo $SLURM_JOB_NODELIST'")
	p.jobState(t, job, "CONFIGURING")
	launched, err := api.RunInstances(t.Context(), &ec2.RunInstancesInput{
		MinCount: aws.Int32(2), MaxCount: aws.Int32(2),
		LaunchTemplate:        &ec2types.LaunchTemplateSpecification{LaunchTemplateId: aws.String("lt-0aaaaaaaaaaaaaaaa")},
		SubnetId:              aws.String("subnet-0aaaaaaaaaaaaaaaa"),
		InstanceMarketOptions: &ec2types.InstanceMarketOptionsRequest{MarketType: ec2types.MarketTypeCapacityBlock},
		CapacityReservationSpecification: &ec2types.CapacityReservationSpecification{
			CapacityReservationTarget: &ec2types.CapacityReservationTarget{CapacityReservationId: aws.String("cr-0aaaaaaaaaaaaaaaa")},
		},
		TagSpecifications: []ec2types.TagSpecification{{
			ResourceType: ec2types.ResourceTypeInstance,
			Tags:         []ec2types.Tag{{Key: aws.String(capacity.TagNodes), Value: aws.String("gpu-[1-2]")}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var ids, addresses []string
	for _, instance := range launched.Instances {
		ids = append(ids, *instance.InstanceId)
		addresses = append(addresses, *instance.PrivateIpAddress)
	}
	list := strings.Join(addresses, ",")
	p.sh(t, "scontrol update nodename=gpu-[1-2] nodeaddr="+list+" nodehostname="+list)
	p.jobState(t, job, "COMPLETED")
	if out := p.sh(t, "cat job.out"); strings.Count(out, "\n") != 2 || !strings.HasSuffix(out, "gpu-[1-2]") {
		t.Errorf("output of the job: %q", out)
	}
	// The nodes run the TaskProlog, which takes away what the job brought along, and find the
	// metadata of their own instances.
	if out := p.sh(t, "PCS_CAPACITY_END=1 srun -p gpu -w gpu-2 sh -c 'echo ${PCS_CAPACITY_END-unset}'"); out != "unset" {
		t.Errorf("the environment of a task has PCS_CAPACITY_END=%s", out)
	}
	for i, node := range []string{"gpu-1", "gpu-2"} {
		service := imds.New(imds.Options{HTTPClient: instanceClient(p.sh(t, "cat run/metadata-"+node))})
		out, err := service.GetMetadata(t.Context(), &imds.GetMetadataInput{Path: "instance-id"})
		if err != nil {
			t.Fatal(err)
		}
		if id, err := io.ReadAll(out.Content); err != nil || string(id) != ids[i] {
			t.Errorf("%v, %s is %s, want %s", err, node, id, ids[i])
		}
	}
	if _, err := api.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: ids}); err != nil {
		t.Fatal(err)
	}
	p.until(t, "cat log/capacity-lab.log", func(log string) bool { return strings.Count(log, "the instance has ended") == 2 })
	for _, process := range processesOf(p.dir) {
		if strings.Contains(process, "-N gpu-") {
			t.Errorf("the slurmd of a terminated instance runs: %s", process)
		}
	}

	// What a killed lab leaves is ended by the next one in its folder.
	p.sh(t, "sbatch -o /dev/null --wrap 'sleep 1000'")
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	orphans := processesOf(p.dir)
	if len(orphans) < 4 {
		t.Fatalf("expected daemons to outlive the lab, found %q", orphans)
	}
	second := startUp(t, p.dir, nil, "--mode", "ec2") // with the built-in scenario
	second.waitReady(t)
	now := strings.Join(processesOf(p.dir), "\n")
	for _, orphan := range orphans {
		if pid, _, _ := strings.Cut(orphan, " "); strings.Contains(now, pid+" ") {
			t.Errorf("still there: %s", orphan)
		}
	}
	second.jobState(t, second.sh(t, "sbatch --parsable -o /dev/null --wrap true"), "COMPLETED") // in the default partition
	second.end(t, syscall.SIGINT, before)
}
