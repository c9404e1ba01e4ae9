package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/permissions"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// restricted is an AWS whose callers have a policy, and a machine whose Slurm is down.
type restricted struct {
	*testing.T
	sim *awssim.Sim
	env []string
	dir string
	// settings is the path of config.toml, slurm the PATH of a Slurm that answers.
	settings, slurm string
	// said is all that the programs wrote.
	said string
}

// The reservations that the scenes are about, and a pair of names in the cluster "ml" of
// the simulator's default account.
const (
	openBlock = "cr-0e2000000000000a1"
	nextBlock = "cr-0e2000000000000a2"
	groupODCR = "cr-0e20000000000aa01"
)

func newRestricted(t *testing.T, clock *awssim.Clock) *restricted {
	t.Helper()
	scenario := awssim.DefaultScenario()
	scenario.PCSDelay, scenario.PaymentDelay, scenario.ShutdownDelay, scenario.CleanupDelay = 0, 0, 0, 0 // the clock stands still
	region := &scenario.Regions[0]
	region.KeyPairs = append(region.KeyPairs, awssim.KeyPairScenario{Name: "ops"})
	region.LaunchTemplates[0].KeyName = "ops"
	region.Images = append(region.Images, awssim.ImageScenario{ID: "ami-0e200000000000d04", Name: "named", Parameter: "/nodes/image"})
	region.LaunchTemplates = append(region.LaunchTemplates, awssim.LaunchTemplateScenario{ID: "lt-0e2000000000000a3", Name: "named-image", Image: "resolve:ssm:/nodes/image", MetadataTags: true,
		SecurityGroups: []string{"sg-0e2000000000000a1"}, InstanceProfile: "arn:aws:iam::111122223333:instance-profile/nodes"},
		awssim.LaunchTemplateScenario{ID: "lt-0e2000000000000a4", Name: "named-nodes", Image: "ami-0e200000000000a01", MetadataTags: true, SecurityGroups: []string{"sg-0e2000000000000a1"}},
		awssim.LaunchTemplateScenario{ID: "lt-0e2000000000000a5", Name: "rhel-nodes", Image: "ami-0e200000000000c03", MetadataTags: true, SecurityGroups: []string{"sg-0e2000000000000a1"}},
		awssim.LaunchTemplateScenario{ID: "lt-0e2000000000000a6", Name: "gone-image", Image: "ami-0e200000000000fff", MetadataTags: true, SecurityGroups: []string{"sg-0e2000000000000a1"}})
	region.Reservations = append(region.Reservations, awssim.ReservationScenario{ID: groupODCR, Kind: "odcr", Type: "p5.48xlarge", Zone: "us-east-2a", Count: 2, PlacementGroup: "ml-cluster"})
	// A VPC without a way out, so that its endpoints are read.
	region.RouteTables = []awssim.RouteTableScenario{{ID: "rtb-0e2000000000000a1", VPC: region.VPCs[0].ID, Main: true}}
	region.VPCEndpoints = []awssim.VPCEndpointScenario{{ID: "vpce-0e2000000000000a1", VPC: region.VPCs[0].ID, Service: "pcs", SecurityGroups: []string{"sg-0e2000000000000a1"}}}
	region.ResourceGroups = []awssim.ResourceGroupScenario{{Name: "open", Reservations: []string{openBlock}}, {Name: "next", Reservations: []string{nextBlock}}, {Name: "empty"}}
	// UltraServers of which only DescribeCapacityBlocks says so.
	chips := slices.IndexFunc(region.Reservations, func(one awssim.ReservationScenario) bool { return one.ID == "cr-0e2000000000000c6" })
	scenario.HideLaunchStatus = true
	scenario.BootDelay = awssim.Duration(time.Second) // who holds an ODCR for a launch waits for the instance
	for i := range region.Offerings {
		if o := &region.Offerings[i]; o.Type == region.Reservations[chips].Type {
			o.Type = "trn1.32xlarge"
		}
	}
	region.Reservations[chips].Type, region.Reservations[chips].Tags = "trn1.32xlarge", map[string]string{"team": "chips"}
	r := &restricted{T: t, dir: t.TempDir()}
	var err error
	if r.sim, err = awssim.New(scenario, clock); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.sim.Close() })
	if _, err := r.sim.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	r.env = append(os.Environ(), r.sim.Env()...)
	r.env = append(r.env, "SLURM_CONF="+filepath.Join(r.dir, "slurm.conf"), "AWS_EC2_METADATA_DISABLED=true", "AWS_MAX_ATTEMPTS=1", "TZ=UTC",
		"XDG_CACHE_HOME="+filepath.Join(r.dir, "cache"))
	r.write("slurm.conf", downConf)
	if err := os.Mkdir(filepath.Join(r.dir, "pcs-capacity"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.settings = filepath.Join(r.dir, "pcs-capacity", "config.toml")
	r.write("pcs-capacity/config.toml", "region = \"us-east-2\"\ncluster = \"ml\"\nstate_dir = \"state\"\n[log]\ndir = \"log\"\n")
	r.slurm = fakeSlurmFor(t, filepath.Join(r.dir, "slurm"), "gpu-a-[1-3]", "gpu-b-[1-3]")
	r.mustAdmin("hooks", "install", "cli_filter")
	return r
}

func (r *restricted) write(name, text string) {
	r.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o644); err != nil {
		r.Fatal(err)
	}
}

// run runs a program in the machine's folder.
func (r *restricted) run(name string, args ...string) (status int) {
	r.Helper()
	command := exec.CommandContext(r.Context(), name, args...)
	command.Dir, command.Env = r.dir, r.env
	if slices.Contains(args, "setup") { // which needs Slurm
		command.Env = append(slices.Clone(r.env), r.slurm)
	}
	out, err := command.CombinedOutput()
	if exit := (&exec.ExitError{}); err != nil && !errors.As(err, &exit) {
		r.Fatal(err)
	}
	r.said += string(out)
	return command.ProcessState.ExitCode()
}

// admin runs a command of the administrator.
func (r *restricted) admin(args ...string) int {
	r.Helper()
	return r.run("pcs-capacity", append([]string{"--config", r.settings, "--yes"}, args...)...)
}

// hook runs a program of Slurm's, which writes to its log. One that was denied something
// would try for long: it is terminated as soon as it has said so.
func (r *restricted) hook(name, nodes string) (status int) {
	r.Helper()
	path := filepath.Join(r.dir, "log", name+".log")
	os.Remove(path)
	command := exec.CommandContext(r.Context(), "pcs-capacity-"+name, nodes)
	command.Dir, command.Env = r.dir, r.env
	if err := command.Start(); err != nil {
		r.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	for running := true; running; {
		select {
		case <-ended:
			running = false
		case <-time.After(20 * time.Millisecond):
			if log, _ := os.ReadFile(path); name == "suspend" && strings.Contains(string(log), "is not allowed") {
				_ = command.Process.Signal(syscall.SIGTERM)
			}
		}
	}
	log, err := os.ReadFile(path)
	if err != nil {
		r.Fatal(err)
	}
	r.said = string(log)
	return command.ProcessState.ExitCode()
}

// mustAdmin does so before anybody has a policy.
func (r *restricted) mustAdmin(args ...string) {
	r.Helper()
	if status := r.admin(args...); status != 0 {
		r.Fatalf("%q: %d\n%s", args, status, r.said)
	}
	r.said = ""
}

func setupArgs(reservation string, more ...string) []string {
	return append([]string{"setup", "--reservation", reservation, "--queue", "gpu", "--node-group", "gpu", "--like", "compute"}, more...)
}

// ownSlurm has settings without a PCS cluster, and a cluster that has its mark.
func ownSlurm(r *restricted) {
	r.write("pcs-capacity/config.toml", "region = \"us-east-2\"\nstate_dir = \"state\"\n[log]\ndir = \"log\"\n")
	if err := os.MkdirAll(filepath.Join(r.dir, "state"), 0o755); err != nil {
		r.Fatal(err)
	}
	r.write("state/mark", "ml/0123456789abcdef\n")
}

func setupEC2(more ...string) []string {
	return append([]string{"setup", "--provider", "ec2", "--reservation", openBlock, "--queue", "gpu", "--node-group", "gpu", "--like", "ml-compute",
		"--ami", "ami-0e200000000000a01", "--instance-profile", "AWSPCS-nodes", "--subnet-ids", "subnet-0e200000000000a01", "--max-nodes", "3"}, more...)
}

// only is the policy for one program in the cluster "ml", but for one action.
func only(p permissions.Program, without string) []byte {
	policy := permissions.Policy(permissions.Place{Cluster: "ml"}, []permissions.Program{p}, without)
	if len(policy.Statement) == 0 { // of a program that needs one action: what remains is something else
		return []byte(`{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "ec2:DescribeRegions", "Resource": "*"}]}`)
	}
	document, err := json.Marshal(policy)
	if err != nil {
		panic(err)
	}
	return document
}

// printed is what `iam-policy` prints for a role.
func (r *restricted) printed(role permissions.Role) []byte {
	r.Helper()
	r.said = ""
	if status := r.admin("iam-policy", string(role)); status != 0 {
		r.Fatal(r.said)
	}
	return []byte(r.said[strings.Index(r.said, "{"):]) // behind what goes to the standard error
}

// TestLaunchesIntoListed has the policy of hooks allow launches into what the settings list.
func TestLaunchesIntoListed(t *testing.T) {
	r := newRestricted(t, awssim.NewClock(simStart, 0))
	const templateID, chips = "lt-0e2000000000000a1", "cr-0e2000000000000c6"
	client, _ := r.clients()
	into := func(reservation string) string {
		found, _, err := client.Reservations(t.Context(), []string{reservation})
		if err != nil || len(found) != 1 {
			t.Fatal(found, err)
		}
		return ec2.DeniedAction(client.TryLaunch(t.Context(), capacity.Launch{ClientToken: reservation, LaunchTemplate: templateID, InstanceType: found[0].InstanceType,
			SubnetID: "subnet-0e200000000000a01", Kind: found[0].Kind, ReservationID: reservation, Count: 1, Tags: map[string]string{capacity.TagCluster: "ml/0123456789abcdef"}}))
	}
	group := "[[partition]]\nname = \"own\"\nprovider = \"ec2\"\n[[partition.node_group]]\nname = \"own\"\ninstance_type = \"p5.48xlarge\"\nsubnet_ids = [\"subnet-0e200000000000a01\"]\n" +
		"purchase_option = \"capacity-block\"\nmax_nodes = 2\nlaunch_template = \"" + templateID + "\"\n"
	settings, err := os.ReadFile(r.settings)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, groups string
		role         permissions.Role
		allowed      []string
	}{
		{"nothing is listed", "", permissions.Hooks, []string{openBlock, nextBlock, chips, groupODCR}},
		{"on PCS", strings.Replace(group, "\"ec2\"", "\"pcs\"", 1), permissions.Hooks, []string{openBlock, nextBlock, chips, groupODCR}},
		{"by id", group + "capacity_reservation_ids = [\"" + openBlock + "\"]\n", permissions.Hooks, []string{openBlock}},
		{"by tag", group + "select = {tags = {team = \"chips\"}}\n", permissions.Hooks, []string{chips}},
		{"by resource group", group + "select = {group = \"open\"}\n", permissions.Hooks, []string{openBlock, nextBlock, chips, groupODCR}},
		{"both", group + "capacity_reservation_ids = [\"" + openBlock + "\", \"" + groupODCR + "\"]\n" +
			strings.NewReplacer(`"own"`, `"more"`).Replace(group) + "select = {tags = {team = \"chips\"}}\n", permissions.HooksReserve, []string{openBlock, chips, groupODCR}},
	} {
		r.write("pcs-capacity/config.toml", string(settings)+c.groups)
		r.sim.ClearPolicies()
		r.policy(r.printed(c.role))
		for _, id := range []string{openBlock, nextBlock, chips, groupODCR} {
			want := "ec2:RunInstances"
			if slices.Contains(c.allowed, id) {
				want = ""
			}
			if got := into(id); got != want {
				t.Errorf("%s: %s: denied %q, want %q", c.name, id, got, want)
			}
		}
	}
}

// policy is everybody's from now on.
func (r *restricted) policy(document []byte) {
	r.Helper()
	r.said = ""
	r.sim.ClearPolicies()
	if err := r.sim.SetPolicy(awssim.AttachedPolicy{Document: document}); err != nil {
		r.Fatalf("%v\n%s", err, document)
	}
}

// clients are those of a caller who may do everything: before there is a policy.
func (r *restricted) clients() (*ec2.Client, *pcs.Client) {
	r.Helper()
	shared, err := awsconfig.Load(r.Context(), awsconfig.Options{Region: "us-east-2"})
	if err != nil {
		r.Fatal(err)
	}
	for _, variable := range r.sim.Env() {
		if url, ok := strings.CutPrefix(variable, "AWS_ENDPOINT_URL="); ok {
			shared.Config.BaseEndpoint = &url
		}
	}
	return ec2.From(shared), pcs.From(shared)
}

// scene is a use of a program: with all its permissions it ends with this status.
type scene struct {
	program permissions.Program
	before  func(*restricted)
	run     func(*restricted) (status int)
	status  int
}

func command(args ...string) func(*restricted) int {
	return func(r *restricted) int { return r.admin(args...) }
}

const offered, fee, extensionFee = "cb-0d05ecddf72412d79", "21143.81", "84575.23"

// buy buys a block, or makes sure that nothing was bought: R3.
func buy(r *restricted) int {
	return r.buys("purchase", offered, "--confirm-fee", fee)
}

func extendBlock(r *restricted) int {
	return r.buys("extend", openBlock, "-d", "7d", "--confirm-fee", extensionFee)
}

func (r *restricted) buys(args ...string) int {
	status := r.admin(args...)
	if bought := len(r.sim.Ledger()); bought != 1-status {
		r.Errorf("%q: status %d, %d bought\n%s", args, status, bought, r.said)
	}
	files, _ := filepath.Glob(filepath.Join(r.dir, "state", "private", "intents", "*.json"))
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			r.Fatal(err)
		}
		if strings.Contains(string(text), `"sending"`) || status != 0 && !strings.Contains(string(text), `"failed"`) {
			r.Errorf("%q: status %d, recorded is %s", args, status, text)
		}
	}
	return status
}

// setUpForNext has a node group that a run of setup for the open block was cut off in: it
// carries the block's tag, and the template is still that of another block.
func setUpForNext(r *restricted) {
	r.mustAdmin(setupArgs(openBlock, "--max-nodes", "3")...)
	aws, pcsClient := r.clients()
	provisioner := pcs.Provisioner{PCS: pcsClient, EC2: aws, Poll: time.Millisecond}
	next, err := aws.Reservation(r.Context(), nextBlock)
	if err != nil {
		r.Fatal(err)
	}
	if _, err := provisioner.Configure(r.Context(), pcs.ConfigureRequest{Cluster: "ml", Group: "gpu-a", Reservation: next, SubnetIDs: []string{"subnet-0e200000000000a01"}, MaxNodes: 3, Dynamic: true}); err != nil {
		r.Fatal(err)
	}
	r.tagGroup(map[string]string{capacity.TagReservation: openBlock})
}

// tagGroup tags the node group that setup has made; it returns the group.
func (r *restricted) tagGroup(tags map[string]string) pcs.NodeGroup {
	r.Helper()
	_, pcsClient := r.clients()
	inv, err := pcsClient.Inventory(r.Context(), "ml")
	if err != nil {
		r.Fatal(err)
	}
	group, _ := inv.Group("gpu-a")
	if err := pcsClient.Tag(r.Context(), group.ARN, tags); err != nil {
		r.Fatal(err)
	}
	return group
}

// reserveOn has settings that let capacity be held.
func reserveOn(r *restricted) {
	r.write("pcs-capacity/config.toml", "region = \"us-east-2\"\ncluster = \"ml\"\nstate_dir = \"state\"\n[log]\ndir = \"log\"\n[reserve]\nenabled = true\n")
}

// selects has settings with a node group that selects a resource group.
func (r *restricted) selects(provider, group string) {
	r.Helper()
	text, err := os.ReadFile(r.settings)
	if err != nil {
		r.Fatal(err)
	}
	template := ""
	if provider == "ec2" {
		template = "launch_template = \"lt-0e2000000000000a1\"\n"
	}
	name := map[string]string{"pcs": "gpu", "ec2": "own"}[provider]
	r.write("pcs-capacity/config.toml", string(text)+fmt.Sprintf("[[partition]]\nname = %q\nprovider = %q\n[[partition.node_group]]\nname = %[1]q\ninstance_type = \"p5.48xlarge\"\n"+
		"subnet_ids = [\"subnet-0e200000000000a01\"]\nselect = { group = %[3]q }\nmax_nodes = 3\n%[4]s", name, provider, group, template))
}

// heldID is the first id that the simulator gives to a reservation.
const heldID = "cr-040d29eb57de1d510"

// held has a reservation that no job uses.
func held(r *restricted) {
	reserveOn(r)
	aws, _ := r.clients()
	one, err := aws.Hold(r.Context(), capacity.HoldOrder{ClientToken: "t", InstanceType: "g6.12xlarge", AZID: "use2-az1", Platform: "Linux/UNIX", Count: 1, End: r.sim.Clock().Now().Add(time.Hour),
		Tags: map[string]string{capacity.TagCluster: "ml", capacity.TagHold: capacity.HoldProbe}})
	if err != nil || one.ID != heldID {
		r.Fatal(one.ID, err)
	}
	r.sim.Clock().Advance(2 * time.Minute)
}

var scenes = []scene{
	{program: permissions.List, run: command("list", "--regions", "all")},
	{program: permissions.Offerings, run: command("offerings", "-t", "p5.48xlarge", "-n", "4", "-d", "2d", "--regions", "all")},
	{program: permissions.Fit, run: command("fit", "-t", "p5.48xlarge", "-n", "4", "-d", "2d", "--regions", "all")},
	{program: permissions.Fit, run: command("fit", "-t", "p5.48xlarge", "-n", "20", "-d", "2d"), status: 1},
	{program: permissions.Timeline, run: command("timeline")},
	{program: permissions.Topology, before: func(r *restricted) {
		ownSlurm(r)
		r.write("state/snapshot.json", `{"version": 1, "partitions": [{"name": "gpu", "provider": "ec2", "node_groups": [{"name": "gpu", "instance_type": "p5.48xlarge", "max_nodes": 2,
  "slots": [{"name": "gpu", "reservation_ids": ["`+openBlock+`"]}]}]}], "reservations": [{"id": "`+openBlock+`", "state": "active", "total": 2}]}`)
	}, run: command("topology")},
	{program: permissions.Setup, run: func(r *restricted) int {
		if status := r.admin(setupArgs(openBlock, "--max-nodes", "3")...); status != 0 {
			return status
		}
		return r.admin(setupArgs(openBlock, "--max-nodes", "3", "--efa", "efa-only")...)
	}},
	// The next block: one more node group in the queue.
	{program: permissions.Setup, before: func(r *restricted) { r.mustAdmin(setupArgs(openBlock, "--max-nodes", "3")...) }, run: command(setupArgs(nextBlock, "--max-nodes", "3")...)},
	// One that PCS could not create.
	{program: permissions.Setup, before: func(r *restricted) {
		r.sim.FailNodeGroups(1, "InsufficientCapacity", "no")
		r.admin(setupArgs(openBlock, "--max-nodes", "3")...)
		r.said = ""
	}, run: command(setupArgs(openBlock, "--max-nodes", "3")...)},
	// The image that PCS publishes.
	{program: permissions.Setup, run: command(setupArgs(openBlock, "--ami", "pcs-dlami", "--dry-run")...)},
	// An ODCR in a placement group.
	{program: permissions.Setup, run: command(setupArgs(groupODCR)...)},
	// A cluster that there is not.
	{program: permissions.Setup, run: command("setup", "--reservation", openBlock, "--cluster", "mp", "--queue", "gpu", "--node-group", "gpu"), status: 1},
	{program: permissions.Teardown, before: func(r *restricted) { r.mustAdmin(setupArgs(openBlock, "--max-nodes", "3")...) }, run: command("teardown", "--queue", "gpu")},
	{program: permissions.Teardown, before: func(r *restricted) {
		r.mustAdmin(setupArgs(openBlock, "--max-nodes", "3")...)
		r.mustAdmin(setupArgs(nextBlock, "--max-nodes", "3")...)
	}, run: command("teardown", "--queue", "gpu", "--node-group", "gpu-b")},
	// Slurm that one runs oneself.
	{program: permissions.Setup, before: ownSlurm, run: func(r *restricted) int {
		if status := r.admin(setupEC2()...); status != 0 {
			return status
		}
		return r.admin(setupEC2("--root-volume-size", "300")...)
	}},
	{program: permissions.Teardown, before: func(r *restricted) {
		ownSlurm(r)
		r.mustAdmin(setupEC2()...)
		aws, _ := r.clients()
		if _, err := aws.Launch(r.Context(), capacity.Launch{ClientToken: "t", LaunchTemplate: "lt-0e2000000000000a4", InstanceType: "p5.48xlarge", SubnetID: "subnet-0e200000000000a01",
			ReservationID: openBlock, Kind: capacity.CapacityBlock, Count: 1,
			Tags: map[string]string{capacity.TagCluster: "ml/0123456789abcdef", capacity.TagPartition: "gpu", capacity.TagNodes: "gpu-1"}}); err != nil {
			r.Fatal(err)
		}
	}, run: command("teardown", "--queue", "gpu", "--force")},
	// What an older version, or somebody by hand, has given other tags.
	{program: permissions.Teardown, before: func(r *restricted) {
		r.mustAdmin(setupArgs(openBlock, "--max-nodes", "3")...)
		other := map[string]string{capacity.TagPartition: "other"}
		group := r.tagGroup(other)
		aws, _ := r.clients()
		if err := aws.TagLaunchTemplate(r.Context(), group.TemplateID, other); err != nil {
			r.Fatal(err)
		}
	}, run: command("teardown", "--queue", "gpu")},
	{program: permissions.Release, before: held, run: command("release", "--unused")},
	{program: permissions.Purchase, before: func(r *restricted) { r.mustAdmin("offerings", "-t", "p5.48xlarge", "-n", "4", "-d", "7d") }, run: buy},
	{program: permissions.Purchase, run: command("purchase", openBlock, "--fee", "1000.00")},
	{program: permissions.Extend, run: extendBlock},
	{program: permissions.Reserve, before: reserveOn, run: command("reserve", "--probe", "-t", "g6.12xlarge", "-n", "1", "--subnet-ids", "subnet-0e200000000000a01")},
	{program: permissions.Release, before: held, run: command("release", heldID)},
	{program: permissions.Wire, before: func(r *restricted) {
		r.mustAdmin(setupArgs(nextBlock, "--max-nodes", "3")...)
	}, run: command("hooks", "install", "settings")},
	{program: permissions.Wire, before: func(r *restricted) {
		r.mustAdmin(setupArgs(nextBlock, "--max-nodes", "3")...)
		r.mustAdmin("hooks", "install", "settings")
	}, run: command("hooks", "remove", "settings")},
	// While a block is open.
	{program: permissions.Wire, before: func(r *restricted) {
		r.mustAdmin(setupArgs(openBlock, "--max-nodes", "3")...)
	}, run: command("hooks", "install", "settings"), status: 1},
	// Slurm that one runs oneself.
	{program: permissions.Wire, before: func(r *restricted) {
		r.write("pcs-capacity/config.toml", strings.Replace(fmt.Sprintf(restrictedConfig, "state", "log"), `cluster = "ml"`, "", 1))
	}, run: command("hooks", "install", "settings")},
	// What the settings select by a resource group.
	{program: permissions.Setup, before: func(r *restricted) { r.selects("pcs", "open") }, run: command(setupArgs(openBlock, "--max-nodes", "3")...)},
	{program: permissions.Wire, before: func(r *restricted) {
		r.mustAdmin(setupArgs(nextBlock, "--max-nodes", "3")...)
		r.selects("ec2", "next")
	}, run: command("hooks", "install", "settings")},
	{program: permissions.ResumePCS, before: func(r *restricted) {
		setUpForNext(r)
		path := filepath.Join(r.dir, "pcs-capacity", "conf.d", "gpu.toml")
		text, err := os.ReadFile(path)
		if err != nil {
			r.Fatal(err)
		}
		r.write("pcs-capacity/conf.d/gpu.toml", strings.Replace(string(text), `capacity_reservation_ids = ["`+openBlock+`"]`, `select = { group = "open" }`, 1))
	}, run: func(r *restricted) int { return r.hook("resume", "gpu-a-[1-3]") }},
	{program: permissions.ResumePCS, before: setUpForNext, run: func(r *restricted) int { return r.hook("resume", "gpu-a-[1-3]") }},
}

const restrictedConfig = `
region = "us-east-2"
cluster = "ml"
state_dir = %[1]q
local_dir = %[1]q
[log]
dir = %[2]q
[reserve]
enabled = true
[[partition]]
name = "own"
provider = "ec2"
[[partition.node_group]]
name = "own"
instance_type = "p5.48xlarge"
subnet_ids = ["subnet-0e200000000000a01"]
select = { group = "open" }
max_nodes = 16
launch_template = "lt-0e2000000000000a3"
[[partition.node_group]]
name = "ultra"
instance_type = "trn1.32xlarge"
subnet_ids = ["subnet-0e200000000000c03"]
select = { tags = { team = "chips" } }
max_nodes = 1
launch_template = "lt-0e2000000000000a4"
[[partition.node_group]]
name = "held"
instance_type = "c7i.4xlarge"
subnet_ids = ["subnet-0e200000000000a01"]
purchase_option = "on-demand"
max_nodes = 20
launch_template = "lt-0e2000000000000a3"
`

// TestPermissions runs every program under exactly the permissions that are documented for it.
func TestPermissions(t *testing.T) {
	t.Parallel()
	played := map[permissions.Program]bool{}
	for _, s := range scenes {
		if played[s.program] {
			continue
		}
		played[s.program] = true
		t.Run(string(s.program), func(t *testing.T) {
			t.Parallel()
			if effect, r := s.play(t, ""); effect != permissions.Unused {
				t.Errorf("with all permissions:\n%s", tail(r.said))
			}
		})
	}
}

// play shows a scene to a caller who may do all but one action.
func (s scene) play(t *testing.T, without string) (effect permissions.Effect, r *restricted) {
	t.Helper()
	return s.playWith(t, without, func(*restricted) []byte { return only(s.program, without) })
}

func (s scene) playWith(t *testing.T, without string, document func(*restricted) []byte) (effect permissions.Effect, r *restricted) {
	t.Helper()
	r = newRestricted(t, awssim.NewClock(simStart, 0))
	defer r.sim.Close()
	if s.before != nil {
		s.before(r)
	}
	r.policy(document(r))
	status := s.run(r)
	return r.judge(without, status != s.status), r
}

// judge says what the program did without an action, and that it has named it.
func (r *restricted) judge(without string, failed bool) permissions.Effect {
	r.Helper()
	denied := false
	for action, allowed := range r.sim.Asked() {
		if !allowed {
			denied = true
			if action != without {
				r.Errorf("without %q it is denied %s, which docs/permissions.md does not list", without, action)
			} else if !strings.Contains(r.said, without+" is not allowed") {
				r.Errorf("without %s it does not name that:\n%s", without, tail(r.said))
			}
		}
	}
	switch {
	case failed && !denied:
		r.Errorf("without %q it fails, and was denied nothing:\n%s", without, tail(r.said))
		return permissions.Stops
	case failed:
		return permissions.Stops
	case denied:
		return permissions.Lessens
	}
	return permissions.Unused
}

func tail(said string) string {
	lines := strings.Split(said, "\n")
	return strings.Join(lines[max(0, len(lines)-8):], "\n")
}
