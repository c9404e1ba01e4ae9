package setup

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// codesOf are those of mismatches, sorted.
func codesOf(all []capacity.Problem) string {
	var codes []string
	for _, m := range all {
		codes = append(codes, string(m.Code))
	}
	slices.Sort(codes)
	return strings.Join(codes, " ")
}

// TestRefusalsOfSetup has each thing that is in the way of setup, from what was read. says is part of
// a message or of what to do.
func TestRefusalsOfSetup(t *testing.T) {
	foreign := map[string]string{capacity.TagCluster: "other"}
	was := func(t *testing.T, w *world) { w.setUp(t, askFor(now1)) }
	both := func(t *testing.T, w *world) { was(t, w); w.setUp(t, askFor(next1)) }
	wasOnEC2 := func(t *testing.T, w *world) { w.setUp(t, askForOnEC2(now1)) }
	onEC2 := func(r *Request) { *r = askForOnEC2(now1) }
	next := func(r *Request) { r.Reservation = next1 }
	own := func(p capacity.PartitionSettings) func(t *testing.T, w *world) {
		return func(t *testing.T, w *world) {
			w.config = config.Default()
			w.config.Path, w.config.Region, w.config.Cluster = etc, "us-east-2", ourMark
			if p.Provider == capacity.ProviderEC2 {
				w.config.Cluster = ""
			}
			p.File = "/etc/pcs-capacity/conf.d/" + p.Name + ".toml"
			w.config.Partitions = []capacity.PartitionSettings{p}
		}
	}
	failed := func(t *testing.T, w *world) {
		was(t, w)
		w.group("gpu-a").Status, w.group("gpu-a").Unknown = pcs.CreateFailed, []string{"spare"}
	}
	lost := func(t *testing.T, w *world) { was(t, w); w.config = nil }
	selects := func(g capacity.GroupSettings) func(*testing.T, *world) {
		g.Name, g.InstanceType, g.SubnetIDs, g.MaxNodes = "gpu", "p5.48xlarge", []string{subnet}, 4
		return func(_ *testing.T, w *world) { w.withSettings(config.NewPartition("gpu", capacity.ProviderPCS, g)) }
	}
	odcr := func(in *inspection) { in.reservation.Kind = capacity.ODCR }
	four := func(r *Request) { r.MaxNodes = 4 }
	fourOnEC2 := func(r *Request) { *r = askForOnEC2(r.Reservation); r.MaxNodes = 4 }
	all := func(changes ...func(*inspection)) func(*inspection) {
		return func(in *inspection) {
			for _, change := range changes {
				change(in)
			}
		}
	}
	entry := capacity.GroupSettings{Name: "gpu", InstanceType: "p5.48xlarge", SubnetIDs: []string{subnet}, PurchaseOption: capacity.CapacityBlock, ReservationIDs: []string{next1}, MaxNodes: 4}
	for name, c := range map[string]struct {
		world func(t *testing.T, w *world)
		ask   func(r *Request)
		seen  func(in *inspection)
		codes string
		says  string
		warns string // part of the only warning
		// reservation is that of askFor; "" for now1.
		reservation string
	}{
		"nothing":                             {},
		"nothing, self-managed":               {ask: onEC2},
		"a cluster at work":                   {seen: func(in *inspection) { in.Cluster.Status = pcs.Updating }, codes: "cluster-status", says: "run this again once it is ACTIVE"},
		"an old Slurm":                        {seen: func(in *inspection) { in.Cluster.SlurmVersion = "23.11" }, codes: "slurm-version", says: "PCS needs 24.05"},
		"an old Slurm and an ODCR":            {seen: func(in *inspection) { in.Cluster.SlurmVersion, in.reservation.Kind = "23.11", capacity.ODCR }},
		"no cluster, a reservation that ends": {seen: func(in *inspection) { in.Inventory, in.reservation.State = pcs.Inventory{}, capacity.StateCancelled }, codes: "expired"},
		"a short queue":                       {ask: func(r *Request) { r.Queue = "gp" }, codes: "name", says: "choose another --queue"},
		"a long node group":                   {ask: func(r *Request) { r.NodeGroup = strings.Repeat("g", 24) }, codes: "name", says: "choose another --node-group"},
		"names in Slurm":                      {ask: func(r *Request) { onEC2(r); r.Queue, r.NodeGroup = "7", "a b" }, codes: "name name", says: "cannot be a name in Slurm"},
		"no image":                            {seen: func(in *inspection) { in.like.AMI, in.source.ImageID = "", "" }, codes: "image", says: "no image is given"},
		"no profile":                          {seen: func(in *inspection) { in.like.InstanceProfile = "" }, codes: "instance-profile", says: "no instance profile is given"},
		"user data at the limit":              {seen: func(in *inspection) { in.userData = make([]byte, 16384) }},
		"long user data":                      {seen: func(in *inspection) { in.userData = make([]byte, 16385) }, codes: "user-data", says: "EC2 takes 16384"},
		"another architecture":                {seen: func(in *inspection) { in.launch.Image.Architecture = "arm64" }, codes: "architecture", says: "p5.48xlarge runs x86_64"},
		"no security group":                   {seen: func(in *inspection) { in.source.SecurityGroupIDs = nil }, codes: "security-groups", says: "no security group is given"},
		"an unknown group":                    {seen: func(in *inspection) { in.launch.Network.Groups = map[string]ec2.SecurityGroup{} }, codes: "security-groups", says: "EC2 has no security group sg-1"},
		"a group elsewhere":                   {seen: func(in *inspection) { in.launch.Network.Groups = map[string]ec2.SecurityGroup{"sg-1": {VPC: "vpc-2"}} }, codes: "security-groups", says: "sg-1 is in vpc-2, but the nodes are in vpc-1"},
		"no key pair":                         {seen: func(in *inspection) { in.launch.NoKeyPair, in.source.KeyName = true, "ops" }, codes: "key-pair", says: "which ml-compute names"},
		"no placement group":                  {seen: func(in *inspection) { in.noPlacementGroup = true }, codes: "placement-group"},
		"an unknown subnet":                   {seen: func(in *inspection) { in.unknownSubnets = []string{"subnet-9"} }, codes: "subnet-unknown", says: "EC2 has no subnet subnet-9 in us-east-2"},
		"a subnet elsewhere":                  {seen: func(in *inspection) { in.elsewhere = []string{"subnet-9"} }, codes: "subnet-vpc", says: "outside the VPC of cluster ml"},
		"another zone":                        {seen: func(in *inspection) { in.reservation.AZID = "use2-az2" }, codes: "az", says: "the VPC has none there, so create one"},
		"too many nodes":                      {ask: func(r *Request) { r.MaxNodes = 5 }, codes: "size", says: "give --max-nodes 4 or less"},
		"all nodes":                           {ask: func(r *Request) { r.MaxNodes = 4 }},
		"no instances":                        {seen: func(in *inspection) { in.reservation.Total = 0 }, codes: "no-instances", says: "has no instances"},
		"no size yet":                         {seen: func(in *inspection) { in.reservation.Total, in.reservation.State = 0, capacity.StateScheduled }, codes: "size", says: "EC2 does not say yet how many"},
		"ended":                               {seen: func(in *inspection) { in.Now = in.reservation.End.Add(time.Second) }, codes: "expired"},
		"another OS":                          {seen: func(in *inspection) { in.launch.Image.Platform = "Windows" }, codes: "platform"},
		"too few addresses": {seen: func(in *inspection) {
			in.chosen = []ec2.Subnet{in.VPC[0]}
			in.chosen[0].Free = 3
		}, codes: "addresses",
			says: "free addresses for 3 nodes, but there are to be 4"},
		"just enough addresses": {seen: func(in *inspection) {
			in.chosen = []ec2.Subnet{in.VPC[0]}
			in.chosen[0].Free = 4
		}},
		"EFA where there is none": {ask: func(r *Request) { r.EFA = capacity.EFAOnly }, codes: "efa", says: "leave out --efa"},
		"ten node groups":         {seen: func(in *inspection) { in.Groups = slices.Repeat(in.Groups, 10) }, codes: "cluster-size quota-node-groups", says: "no more than 10"},
		"nine node groups": {seen: func(in *inspection) {
			in.Groups = slices.Repeat(in.Groups, 9)
			in.Cluster.Size = "MEDIUM"
		}},
		"ten queues":                  {seen: func(in *inspection) { in.Queues = slices.Repeat(in.Queues, 10) }, codes: "quota-queues", says: "no more than 10"},
		"nine queues":                 {seen: func(in *inspection) { in.Queues = slices.Repeat(in.Queues, 9) }},
		"ten queues, and one of them": {world: was, seen: func(in *inspection) { in.Queues = append(slices.Repeat(in.Queues[:1], 9), in.Queues[1]) }},
		"a cluster that is too small": {seen: func(in *inspection) { in.Groups = slices.Clone(in.Groups); in.Groups[0].Max = 29 }, codes: "cluster-size", says: "give --max-nodes 3 or less"},
		"a cluster that just does":    {seen: func(in *inspection) { in.Groups = slices.Clone(in.Groups); in.Groups[0].Max = 28 }},
		"nodes that run": {world: was, ask: func(r *Request) { r.MaxNodes = 3 }, seen: func(in *inspection) { in.Slots[0].Instances = 1 }, codes: "in-use",
			says: "1 instances, which this change would replace under their jobs: nodes"},
		"more nodes beside those that run": {world: func(t *testing.T, w *world) { r := askFor(now1); r.MaxNodes = 2; w.setUp(t, r) }, ask: func(r *Request) { r.MaxNodes = 3 },
			seen: func(in *inspection) { in.Slots[0].Instances = 1 }},
		"a launch template of others": {seen: func(in *inspection) {
			in.Slots[0].Template = capacity.LaunchTemplate{ID: "lt-9", Name: "pcs-capacity-ml-gpu-a", Tags: foreign}
		}, codes: "not-ours", says: capacity.TagCluster + "=ml"},
		"a node group of others":    {seen: func(in *inspection) { in.Slots[0].Group = &pcs.NodeGroup{Name: "gpu-a", ARN: "arn:1"} }, codes: "not-ours", says: "compute node group gpu-a"},
		"a queue of others":         {ask: func(r *Request) { r.Queue = "cpu" }, codes: "not-ours", says: "queue cpu"},
		"both slots are taken":      {world: both, ask: func(r *Request) { r.Reservation = "cr-0e2000000000000a3" }, seen: func(in *inspection) { in.reservation = blockOf("cr-0e2000000000000a3", 12, 19) }, codes: "slots-taken", says: "gpu-a has " + now1 + " until 2026-11-25 12:00 UTC"},
		"another kind in the entry": {world: was, ask: next, seen: func(in *inspection) { in.reservation.Kind = capacity.ODCR }, codes: "purchase-option", says: `set purchase_option = "odcr" there`},
		"another kind for demand": {world: own(config.NewPartition("gpu", capacity.ProviderPCS, func() capacity.GroupSettings {
			g := entry
			g.PurchaseOption, g.ReservationIDs = capacity.OnDemand, nil
			return g
		}())), codes: "purchase-option"},
		"none that is selected": {world: own(config.NewPartition("gpu", capacity.ProviderPCS, func() capacity.GroupSettings {
			g := entry
			g.Select, g.ReservationIDs = &capacity.Select{Tags: map[string]string{"team": "nlp"}}, nil
			return g
		}())), codes: "select", says: "selects its reservations"},
		"other accounts": {world: func(t *testing.T, w *world) { r := askFor(now1); r.AllowAccounts = []string{"nlp"}; w.setUp(t, r) }, ask: func(r *Request) { r.AllowAccounts = []string{"others"} },
			codes: "allow-accounts", says: `partition "gpu" lets accounts nlp in, not others`},
		"the same accounts": {world: func(t *testing.T, w *world) { r := askFor(now1); r.AllowAccounts = []string{"nlp", "a"}; w.setUp(t, r) }, ask: func(r *Request) { r.AllowAccounts = []string{"a", "nlp"} }},
		"used by others": {ask: func(r *Request) { r.MaxNodes = 3 }, seen: func(in *inspection) { in.users = []user{{who: "x", most: 2, running: 1}} }, codes: "reservation-in-use",
			says: "give --max-nodes 2 or less"},
		"used up by others":     {seen: func(in *inspection) { in.users = []user{{who: "x", most: 1, running: 4}} }, codes: "reservation-in-use", says: "choose another reservation"},
		"some left by others":   {ask: func(r *Request) { r.MaxNodes = 2 }, seen: func(in *inspection) { in.users = []user{{who: "x", most: 2}} }},
		"settings that are new": {world: own(config.NewPartition("other", capacity.ProviderPCS, func() capacity.GroupSettings { g := entry; g.Name = "other"; return g }()))},
		"settings of another cluster": {world: was, seen: func(in *inspection) { c := *in.request.Config; c.Cluster = "other"; in.request.Config = &c }, codes: "config-cluster",
			says: `is for cluster "other", not for ml`},
		"settings as the package has them":        {seen: func(in *inspection) { in.request.Config = config.Default() }},
		"settings of PCS":                         {world: was, ask: onEC2, codes: "config-cluster provider", says: "leave out --provider ec2"},
		"settings of another region":              {world: was, seen: func(in *inspection) { c := *in.request.Config; c.Region = "us-west-2"; in.request.Config = &c }, codes: "config-region"},
		"another region, self-managed":            {world: wasOnEC2, ask: onEC2, seen: func(in *inspection) { c := *in.request.Config; c.Region = "us-west-2"; in.request.Config = &c }, codes: "config-region"},
		"a file that cannot be read":              {seen: func(in *inspection) { in.file.err = errNoFence }, codes: "config-file", says: "make the file readable"},
		"a file of others":                        {seen: func(in *inspection) { in.file.ours = false }, codes: "config-file", says: "is not ours and has no partition"},
		"a file of the administrator's":           {world: was, ask: next, seen: func(in *inspection) { in.file.ours = false }, codes: "partition-file", says: "capacity_reservation_ids = [\"" + now1 + "\", \"" + next1 + "\"]"},
		"a file of the administrator's that does": {world: was, seen: func(in *inspection) { in.file.ours = false }},
		"a node group of another partition":       {world: own(config.NewPartition("other", capacity.ProviderPCS, entry)), codes: "node-group-name"},
		"another type in the settings":            {world: own(config.NewPartition("gpu", capacity.ProviderPCS, func() capacity.GroupSettings { g := entry; g.InstanceType = "p4d.24xlarge"; return g }())), codes: "instance-type"},
		"another provider":                        {world: own(config.NewPartition("gpu", capacity.ProviderPCS, entry)), ask: onEC2, codes: "config-cluster provider"},
		"what is not known of the group": {world: was, ask: func(r *Request) { r.MaxNodes = 3 }, seen: func(in *inspection) { in.Slots[0].Group.Unknown = []string{"scalingConfiguration.spare"} }, codes: "unknown-settings",
			says: "this change could lose them: scalingConfiguration.spare"},
		"what is not known of the queue": {world: was, ask: next, seen: func(in *inspection) {
			in.Queues = slices.Clone(in.Queues)
			in.Queues[1].Unknown = []string{"computeNodeGroupConfigurations.weight"}
		}, codes: "unknown-settings"},
		"ended, and another queue has it": {seen: func(in *inspection) {
			in.Now = in.reservation.End.Add(time.Second)
			in.users = []user{{who: "compute node group big-a of queue big", most: 4, freedBy: "pcs-capacity teardown --queue big"}}
		}, codes: "expired"},
		"an ODCR where both slots are taken": {world: both, ask: func(r *Request) { r.Reservation = "cr-0e2000000000000a3" }, seen: func(in *inspection) {
			in.reservation = blockOf("cr-0e2000000000000a3", 12, 19)
			in.reservation.Kind, in.reservation.InstanceType, in.reservation.Total = capacity.ODCR, "g6.12xlarge", 2
		}, codes: "instance-type", says: "choose another --node-group"},
		"a zone that is not known yet":          {seen: func(in *inspection) { in.reservation.AZID = "" }, codes: "az-unknown"},
		"a block that has shrunk, self-managed": {world: wasOnEC2, reservation: now1, ask: fourOnEC2, codes: "size", seen: func(in *inspection) { in.reservation.Total = 2 }},
		"a smaller block beside another":        {world: was, reservation: next1, ask: four, codes: "size", seen: func(in *inspection) { in.reservation.Total = 2 }},

		"another kind for tags that find nothing else": {world: selects(capacity.GroupSettings{PurchaseOption: capacity.CapacityBlock, Select: &capacity.Select{Tags: map[string]string{"team": "nlp"}}}),
			seen: all(odcr, func(in *inspection) { in.reservation.Tags = map[string]string{"team": "nlp"} }), codes: "purchase-option", says: "buys capacity-block"},
		"another kind, alone in its entry": {world: selects(capacity.GroupSettings{PurchaseOption: capacity.CapacityBlock, ReservationIDs: []string{now1}}), seen: odcr},
		"another kind beside the other slot, settings lost": {world: lost, reservation: next1, seen: odcr, codes: "purchase-option",
			says: "reservation " + next1 + " is of kind odcr, but gpu-a holds " + now1 + " of kind capacity-block"},
		"another kind beside a slot whose block has ended":  {world: lost, reservation: next1, seen: all(odcr, func(in *inspection) { in.Slots[0].Live = false })},
		"another kind, and a file of the administrator's":   {world: was, reservation: next1, seen: all(odcr, func(in *inspection) { in.file.ours = false }), codes: "purchase-option"},
		"another type beside the other slot, settings lost": {world: lost, reservation: next1, seen: func(in *inspection) { in.reservation.InstanceType = "p4d.24xlarge" }, codes: "instance-type"},
		"a node group that says no type":                    {world: was, seen: func(in *inspection) { in.Slots[0].Group.InstanceTypes = nil }},

		"unknown settings of what could not be created": {world: failed, codes: "unknown-settings", says: "could lose them: spare"},
		"unknown settings of a queue that stays": {world: was, seen: func(in *inspection) {
			in.Queues = slices.Clone(in.Queues)
			in.Queues[1].Unknown = []string{"computeNodeGroupConfigurations.weight"}
		}},
		"unknown settings of what is copied":              {seen: func(in *inspection) { in.like.Unknown = []string{"spare"} }, warns: "they are not copied: spare"},
		"unknown settings of what nothing is copied from": {world: was, seen: func(in *inspection) { in.like.Unknown = []string{"spare"} }},

		"slots of others": {seen: func(in *inspection) {
			in.Slots[0].Group, in.Slots[1].Group = &pcs.NodeGroup{Name: "gpu-a"}, &pcs.NodeGroup{Name: "gpu-b"}
		}, codes: "not-ours not-ours"},
		"no subnet, self-managed": {ask: func(r *Request) { *r = askForOnEC2(now1); r.SubnetIDs = nil }, seen: func(in *inspection) { in.VPC, in.chosen = nil, nil }, codes: "subnets",
			says: "name subnets of one VPC in use2-az1 with --subnet-ids"},
		"no subnet is there to name": {seen: func(in *inspection) { in.VPC[0].AZID, in.unknownSubnets = "use2-az9", []string{"subnet-9"} }, codes: "az subnet-unknown",
			says: "name subnets of the cluster's VPC with --subnet-ids"},
		"addresses in another zone": {ask: func(r *Request) { r.SubnetIDs = []string{subnet, distant.ID} }, seen: func(in *inspection) {
			in.chosen = append(slices.Clone(in.chosen), distant)
			in.chosen[0].Free = 3
		}, codes: "addresses"},
		"addresses outside the subnet of the interfaces": {seen: func(in *inspection) {
			in.instanceType = efaType
			in.chosen = append(slices.Clone(in.chosen), spare)
			in.chosen[0].Free = 7
		}, codes: "addresses", says: "a node takes 2 addresses"},
		"blocks that overlap, self-managed":   {world: wasOnEC2, reservation: next1, ask: fourOnEC2, seen: func(in *inspection) { in.reservation.Start = in.others[0].Start }, warns: "set slots = 2"},
		"alone, self-managed":                 {world: wasOnEC2, ask: onEC2},
		"a smaller block joins, self-managed": {world: wasOnEC2, reservation: next1, ask: fourOnEC2, seen: func(in *inspection) { in.reservation.Total = 2 }, warns: "has 2 instances"},
		"a roll over":                         {seen: func(in *inspection) { in.unattended, in.launch.Image.Architecture = true, "arm64" }, codes: "architecture"},
		"settings of the hardware copied": {seen: func(in *inspection) {
			in.like.SlurmSettings = map[string]string{"Features": "site", "RealMemory": "1000"}
		}, warns: "Slurm settings of compute describe c7i.4xlarge and are not copied: RealMemory"},
		"protection copied":  {seen: func(in *inspection) { in.source.Protected = true }, warns: "protects instances from termination, which is not copied"},
		"volume keys copied": {seen: func(in *inspection) { in.planned.VolumeKeys = []string{"key/1"} }, warns: "`aws kms describe-key --region us-east-2 --key-id key/1`"},
		"Gres copied":        {seen: func(in *inspection) { in.like.SlurmSettings = map[string]string{"Gres": "gpu:8"} }, warns: "Gres=gpu:8 of compute is not copied: it needs records of gres.conf"},
		"several at once":    {ask: func(r *Request) { r.Queue, r.MaxNodes = "1", 5 }, seen: func(in *inspection) { in.launch.NoKeyPair = true }, codes: "name"},
	} {
		t.Run(name, func(t *testing.T) {
			w, ask := newWorld(), askFor(cmp.Or(c.reservation, now1))
			if c.world != nil {
				c.world(t, w)
			}
			if c.ask != nil {
				c.ask(&ask)
			}
			in := w.see(ask)
			if c.seen != nil {
				c.seen(&in)
			}
			p := plan(in)
			var text []string
			for _, m := range p.Mismatches {
				text = append(text, m.String())
			}
			if got := codesOf(p.Mismatches); got != c.codes || !strings.Contains(strings.Join(text, "\n"), c.says) {
				t.Errorf("%q, want %q with %q:\n%s", got, c.codes, c.says, strings.Join(text, "\n"))
			}
			if got := strings.Join(p.Warnings, "\n"); !strings.Contains(got, c.warns) || c.warns != "" && len(p.Warnings) != 1 {
				t.Errorf("warnings %q, want %q", got, c.warns)
			}
			if p.Done() && c.codes != "" {
				t.Error("it is done")
			}
		})
	}
}

// TestRefusalsOfTeardown has each thing that is in the way of teardown, and what it warns of.
func TestRefusalsOfTeardown(t *testing.T) {
	foreign := map[string]string{capacity.TagCluster: "other"}
	jobs := func(t *inspection) { t.Slots[0].Slurm.Jobs, t.Slots[0].Instances = []string{"12", "13_1"}, 1 }
	away := func(t *inspection) { t.SlurmErr, t.Slots[0].Instances = errNoFence, 1 }
	queueIn := func(name string, change func(*pcs.Queue)) func(*world) {
		return func(w *world) {
			w.queues = slices.Clone(w.queues)
			change(w.queue(name))
		}
	}
	for name, c := range map[string]struct {
		ask      Request
		world    func(w *world)
		seen     func(t *inspection)
		codes    string
		says     string
		warnings string
	}{
		"nothing":              {},
		"jobs":                 {seen: jobs, codes: "jobs-run", says: "jobs 12, 13_1 are running on these nodes"},
		"jobs, by force":       {ask: Request{Force: true}, seen: jobs, warnings: "jobs 12, 13_1 are running on these nodes; jobs end with their nodes"},
		"no Slurm":             {seen: away, codes: "slurm", says: "add --force"},
		"no Slurm, by force":   {ask: Request{Force: true}, seen: away},
		"no Slurm, no nodes":   {seen: func(t *inspection) { t.SlurmErr = errNoFence }},
		"sync without Slurm":   {seen: func(t *inspection) { t.unattended, t.SlurmErr = true, errNoFence }, codes: "slurm"},
		"sync with instances":  {seen: func(t *inspection) { t.unattended, t.Slots[0].Instances = true, 1 }, codes: "instances"},
		"jobs that wait":       {seen: func(t *inspection) { t.Waiting = 2 }, warnings: "partition gpu goes, and 2 jobs wait in it"},
		"jobs in what stays":   {ask: Request{NodeGroup: "gpu-a"}, seen: func(t *inspection) { t.Waiting = 2 }},
		"in another queue":     {world: queueIn("cpu", func(q *pcs.Queue) { q.GroupIDs = append(slices.Clone(q.GroupIDs), "pcs_102") }), codes: "other-queue", says: "is in queue cpu as well"},
		"a queue of others":    {world: queueIn("gpu", func(q *pcs.Queue) { q.Tags = foreign }), codes: "not-ours not-ours", says: "take gpu-a out of it by hand"},
		"the queue of others":  {ask: Request{Queue: "cpu"}, codes: "not-ours", says: "choose a queue that"},
		"an unreadable file":   {seen: func(t *inspection) { t.file = partitionFile{path: t.file.path, err: errNoFence} }, codes: "config-file"},
		"made for another one": {ask: Request{Queue: "other", NodeGroup: "gpu"}, codes: "other-queue other-queue other-queue other-queue", says: "give --queue gpu"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.setUp(t, askFor(now1))
			w.setUp(t, askFor(next1))
			if c.world != nil {
				c.world(w)
			}
			if c.ask.Queue == "" {
				c.ask.Queue = "gpu"
			}
			in := w.seeRemains(c.ask)
			if c.seen != nil {
				c.seen(&in)
			}
			p := planTeardown(in)
			var text []string
			for _, m := range p.Mismatches {
				text = append(text, m.String())
			}
			if got := codesOf(p.Mismatches); got != c.codes || !strings.Contains(strings.Join(text, "\n"), c.says) {
				t.Errorf("%q, want %q with %q:\n%s", got, c.codes, c.says, strings.Join(text, "\n"))
			}
			if got := strings.Join(p.Warnings, "\n"); !strings.HasPrefix(got, c.warnings) || (got == "") != (c.warnings == "") {
				t.Errorf("warnings %q", got)
			}
		})
	}
}
