package setup

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// Worlds of TestPlansInFull: what was set up before.
func first(t *testing.T, w *world)      { w.setUp(t, askFor(now1)) }
func both(t *testing.T, w *world)       { first(t, w); w.setUp(t, askFor(next1)) }
func firstOnEC2(t *testing.T, w *world) { w.setUp(t, askForOnEC2(now1)) }

func firstWith(change func(*Request)) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		r := askFor(now1)
		change(&r)
		w.setUp(t, r)
	}
}

// written has settings with one partition of one node group.
func written(
	partition string,
	provider capacity.Provider,
	change func(*capacity.GroupSettings),
) func(*testing.T, *world) {
	return func(_ *testing.T, w *world) {
		g := capacity.GroupSettings{
			Name: "gpu", InstanceType: "p5.48xlarge", SubnetIDs: []string{subnet},
			PurchaseOption: capacity.CapacityBlock, ReservationIDs: []string{next1}, MaxNodes: 4,
		}
		change(&g)
		w.withSettings(config.NewPartition(partition, provider, g))
	}
}

// Requests: what is asked for, beside the first block.
func next(r *Request)      { r.Reservation = next1 }
func onEC2(r *Request)     { *r = askForOnEC2(r.Reservation) }
func nextOnEC2(r *Request) { next(r); onEC2(r); r.MaxNodes = 4 }

func nodes(n int) func(*Request)              { return func(r *Request) { r.MaxNodes = n } }
func mode(m capacity.EFAMode) func(*Request)  { return func(r *Request) { r.EFA = m } }
func accounts(names ...string) func(*Request) { return func(r *Request) { r.AllowAccounts = names } }

func onDemand(r *Request) { *r = askOnDemand() }

func firstOnDemand(t *testing.T, w *world) {
	holding(t, w)
	w.setUp(t, askOnDemand())
}

func lending(name string) func(*Request) { return func(r *Request) { r.Spare = name } }

// preempts has Slurm preempt jobs.
func preempts(preemptBy, mode string) func(*inspection) {
	return func(in *inspection) {
		in.Cluster.SlurmSettings = map[string]string{preemptType: preemptBy, preemptMode: mode}
	}
}

func settings(c func(*config.Config)) func(*inspection) {
	return func(in *inspection) { now := *in.request.Config; c(&now); in.request.Config = &now }
}

// TestPlansInFull compares plans of setup and teardown, each with every detail, problem and warning, with
// testdata/plans.txt. A step that stands there in full before has no details again, and with a problem no step is
// taken. UPDATE_TRANSCRIPTS=1 writes the file: read what has changed.
func TestPlansInFull(t *testing.T) {
	var out strings.Builder

	shown := map[string]bool{}
	say := func(name string, p *Plan) {
		fmt.Fprintf(&out, "== %s\n", name)

		for _, s := range p.Actions {
			step := fmt.Sprintf("%s %s %s\n", s.Verb, s.What, s.Name)
			full := step
			for _, d := range s.Details {
				full += fmt.Sprintf("  %s: %s\n", d.Key, d.Value)
			}

			if shown[full] {
				full = strings.TrimSuffix(step, "\n") + ", as above\n"
			}

			if len(p.Mismatches()) == 0 {
				shown[full] = true
				out.WriteString(full)
			}
		}

		for _, p := range p.Mismatches() {
			fmt.Fprintf(&out, "! %s %s: %s (%s)\n", p.Code, p.About.Partition, p.Sentence, p.Fix)
		}

		for _, w := range slices.Concat(p.Texts(capacity.Note), p.ByHand) {
			fmt.Fprintf(&out, "* %s\n", w)
		}

		if p.Done() {
			out.WriteString("nothing is left to do\n")
		}

		out.WriteString("\n")
	}

	const third = "cr-0e2000000000000a3"

	withThird := func(change func(*capacity.Reservation)) func(t *testing.T, w *world) {
		return func(t *testing.T, w *world) {
			both(t, w)

			r := blockOf(third, 12, 19)
			change(&r)
			w.Reserve(r)
		}
	}
	askThird := func(r *Request) { r.Reservation = third }
	foreign := map[string]string{capacity.TagCluster: "other"}
	nlp := map[string]string{"team": "nlp"}
	selects := func(g *capacity.GroupSettings) { g.Select, g.ReservationIDs = &capacity.Select{Tags: nlp}, nil }
	odcr := func(in *inspection) { in.reservation.Kind = capacity.ODCR }
	free := func(n int) func(*inspection) {
		return func(in *inspection) {
			in.chosen = slices.Clone(in.chosen)
			in.chosen[0].Free = n
		}
	}
	groups := func(n int, size string) func(*inspection) {
		return func(in *inspection) { in.Groups, in.Cluster.Size = slices.Repeat(in.Groups, n), size }
	}
	others := func(most int, who string) func(*inspection) { return func(in *inspection) { in.users.add(most, who) } }
	unknownOfQueue := func(in *inspection) {
		in.Queues = slices.Clone(in.Queues)
		in.Queues[1].Unknown = []string{"computeNodeGroupConfigurations.weight"}
	}
	lost := func(t *testing.T, w *world) { first(t, w); w.config = nil }

	notCreated := func(t *testing.T, w *world) {
		first(t, w)
		w.Group("gpu-a").Status, w.Group("gpu-a").Failures = pcs.CreateFailed, pcs.Failures{{Code: "x", Message: "no"}}
	}
	mime := func(in *inspection) {
		in.userData = []byte("MIME-Version: 1.0\n")
		in.source.UserData = in.userData
	}
	efa := func(in *inspection) { in.launch.Type = efaType }
	for _, c := range []struct {
		name  string
		world func(t *testing.T, w *world)
		ask   func(r *Request)
		seen  func(in *inspection)
	}{
		{name: "the first block"},
		{name: "again", world: first},
		{name: "the next block", world: first, ask: next},
		{name: "the next block again", world: both, ask: next},
		{
			name:  "a third block, where both slots hold one",
			world: withThird(func(*capacity.Reservation) {}),
			ask:   askThird,
		},
		{name: "of another size", world: first, ask: func(r *Request) { r.MaxNodes, r.Dynamic = 2, true }},
		{name: "more nodes than it has", ask: nodes(5)},
		{
			name: "more nodes than it has, not yet known",
			ask:  nodes(5),
			seen: func(in *inspection) { in.reservation.Total, in.reservation.State = 0, capacity.StateScheduled },
		},
		{
			name:  "another image and subnet",
			world: first,
			ask:   func(r *Request) { r.AMI, r.SubnetIDs = "ami-2", []string{subnet} },
		},
		{name: "user data of the copy", seen: mime},
		{name: "other user data", world: first, seen: mime},
		{name: "with EFA", ask: mode(capacity.EFAOnly), seen: efa},
		{name: "with EFA by default", seen: efa},
		{name: "without EFA", ask: mode(capacity.NoEFA), seen: efa},
		{name: "EFA on what was without", world: first, ask: mode(capacity.EFA), seen: efa},
		{name: "EFA that the type has not", ask: mode(capacity.EFAOnly)},
		{name: "with interfaces to copy", seen: func(in *inspection) {
			in.source.NetworkInterfaces, in.source.InstanceType = make([]capacity.Interface, 2), "p4d.24xlarge"
		}},
		{name: "for accounts", ask: accounts("nlp", "cv")},
		{name: "with a spare queue", ask: lending("scavenge")},
		{name: "with a spare queue, again", world: firstWith(lending("scavenge")), ask: lending("scavenge")},
		{name: "without saying so again", world: firstWith(lending("scavenge"))},
		{name: "the next block, which is lent too", world: firstWith(lending("scavenge")), ask: next},
		{name: "a spare queue later", world: first, ask: lending("scavenge")},
		{name: "another spare queue", world: firstWith(lending("scavenge")), ask: lending("low")},
		{name: "a spare queue of the site's", ask: lending("cpu")},
		{name: "a spare queue without a name", ask: lending("x")},
		{name: "a spare queue that is the queue", ask: lending("gpu")},
		{
			name: "lending where Slurm preempts already", ask: lending("scavenge"),
			seen: preempts("preempt/partition_prio", "CANCEL"),
		},
		{name: "lending where Slurm preempts by QOS", ask: lending("scavenge"), seen: preempts("preempt/qos", "REQUEUE")},
		{name: "lending where Slurm shares nodes", ask: lending("scavenge"), seen: preempts("", "GANG")},
		{
			name: "lending beside a queue that would preempt", ask: lending("scavenge"),
			world: func(_ *testing.T, w *world) {
				w.Queue("cpu").SlurmSettings = map[string]string{"PriorityTier": "5"}
			},
		},
		{
			name: "one queue too many to lend", ask: lending("scavenge"),
			seen: func(in *inspection) { in.Queues = slices.Repeat(in.Queues[:1], 9) },
		},
		{name: "lending, self-managed", ask: func(r *Request) { onEC2(r); r.Spare = "scavenge" }},
		{
			name: "lending where Slurm preempts by QOS, self-managed",
			ask: func(r *Request) {
				onEC2(r)

				r.Spare = "scavenge"
				r.Preemption.Type = "qos"
			},
		},
		{name: "for other accounts", world: firstWith(accounts("nlp")), ask: accounts("cv")},
		{
			name: "without the accounts of the queue",
			world: func(t *testing.T, w *world) {
				firstWith(accounts("nlp"))(t, w)
				w.Queue("gpu").SlurmSettings = nil
			},
		},
		{
			name: "accounts in another order",
			world: func(t *testing.T, w *world) {
				firstWith(accounts("nlp", "cv"))(t, w)
				w.Queue("gpu").SlurmSettings[lock] = " CV,nlp"
			},
			ask: accounts("cv", "nlp"),
		},
		{name: "a queue with a group more", world: func(t *testing.T, w *world) {
			first(t, w)
			w.Queue("gpu").GroupIDs = append(w.Queue("gpu").GroupIDs, "pcs_0")
		}},
		{name: "could not be created", world: notCreated},
		{
			name: "an ODCR",
			seen: func(in *inspection) { in.reservation.Kind, in.reservation.End = capacity.ODCR, time.Time{} },
		},
		{name: "a fence that is gone", world: func(t *testing.T, w *world) { first(t, w); clear(w.Fences) }},
		{name: "where nobody waits for Slurm", seen: func(in *inspection) { in.waits = false }},
		{name: "by sync, which writes no settings", seen: func(in *inspection) { in.unattended = true }},
		{name: "on demand", world: holding, ask: onDemand},
		{name: "on demand, again", world: firstOnDemand, ask: onDemand},
		{
			name:  "on demand, more nodes",
			world: firstOnDemand,
			ask:   func(r *Request) { onDemand(r); r.MaxNodes = 4 },
		},
		{
			name:  "on demand, as many as before",
			world: firstOnDemand,
			ask:   func(r *Request) { onDemand(r); r.MaxNodes = 0 },
		},
		{name: "on demand, of unknown number", world: holding, ask: func(r *Request) { onDemand(r); r.MaxNodes = 0 }},
		{name: "on demand, where nothing may be held", ask: onDemand},
		{name: "on demand, in a queue of blocks", world: first, ask: onDemand},
		{
			name:  "on demand, of another type",
			world: firstOnDemand,
			ask:   func(r *Request) { onDemand(r); r.InstanceType = "p5e.48xlarge" },
		},
		{
			name: "on demand, with EFA in two zones",
			world: func(t *testing.T, w *world) {
				holding(t, w)
				w.VPC = append(w.VPC, distant)
			},
			ask:  func(r *Request) { onDemand(r); r.SubnetIDs = []string{subnet, distant.ID} },
			seen: efa,
		},
		{
			name: "on demand, beside a group of others",
			world: func(t *testing.T, w *world) {
				holding(t, w)

				name := capacity.HoldGroupName(ourMark, "gpu")
				w.Pools.All[name], w.Pools.Tags[name] = nil, foreign
			},
			ask: onDemand,
		},
		{
			name: "on demand, where somebody has deleted the group",
			world: func(t *testing.T, w *world) {
				firstOnDemand(t, w)
				clear(w.Pools.All)
			},
			ask: onDemand,
		},
		{name: "on EC2", ask: onEC2},
		{name: "again on EC2", world: firstOnEC2, ask: onEC2},
		{name: "the next block on EC2", world: firstOnEC2, ask: nextOnEC2},
		{
			name:  "another profile and script on EC2",
			world: firstOnEC2,
			ask:   onEC2,
			seen: func(in *inspection) {
				in.source.InstanceProfile, in.nodeScript = "nodes", "slurmd --conf-server ctl"
			},
		},
		{name: "a copy on EC2", ask: onEC2, seen: func(in *inspection) {
			in.source = capacity.LaunchTemplate{
				ID:               "lt-9",
				Name:             "theirs",
				Version:          "3",
				ImageID:          "ami-1",
				SecurityGroupIDs: []string{"sg-1"},
			}
		}},
		{
			name:  "a copy of itself on EC2",
			world: firstOnEC2,
			ask:   onEC2,
			seen:  func(in *inspection) { in.source = in.slots[0].Template },
		},

		{name: "a cluster at work", seen: func(in *inspection) { in.Cluster.Status = pcs.Updating }},
		{name: "an old Slurm", seen: func(in *inspection) { in.Cluster.SlurmVersion = "23.11" }},
		{name: "the oldest Slurm that will do", seen: func(in *inspection) { in.Cluster.SlurmVersion = "24.05" }},
		{
			name: "an old Slurm and an ODCR",
			seen: func(in *inspection) { in.Cluster.SlurmVersion, in.reservation.Kind = "23.11", capacity.ODCR },
		},
		{
			name: "no cluster, a reservation that ends",
			seen: func(in *inspection) {
				in.Inventory, in.reservation.State = pcs.Inventory{}, capacity.StateCancelled
			},
		},
		{name: "a short queue", ask: func(r *Request) { r.Queue, r.MaxNodes = "gp", 5 }},
		{name: "a long node group", ask: func(r *Request) { r.NodeGroup = strings.Repeat("g", 24) }},
		{name: "names in Slurm", ask: func(r *Request) { onEC2(r); r.Queue, r.NodeGroup = "7", "a b" }},
		{name: "no image", seen: func(in *inspection) { in.like.AMI, in.source.ImageID = "", "" }},
		{name: "no profile", seen: func(in *inspection) { in.like.InstanceProfile = "" }},
		{name: "another OS", seen: func(in *inspection) { in.launch.Image.Platform = "Windows" }},
		{name: "no security group", seen: func(in *inspection) { in.source.SecurityGroupIDs = nil }},
		{name: "a subnet elsewhere", seen: func(in *inspection) { in.unknownSubnets = []string{"subnet-9"} }},
		{
			name: "no subnet, self-managed",
			ask:  func(r *Request) { onEC2(r); r.SubnetIDs = nil },
			seen: func(in *inspection) { in.vpc, in.chosen = nil, nil },
		},
		{name: "another zone", seen: func(in *inspection) { in.reservation.AZID = "use2-az2" }},
		{name: "a zone that is not known yet", seen: func(in *inspection) { in.reservation.AZID = "" }},
		{
			name:  "no subnet is there to name",
			world: func(_ *testing.T, w *world) { w.VPC[0].AZID = "use2-az9" },
			seen:  func(in *inspection) { in.unknownSubnets = []string{"subnet-9"} },
		},
		{name: "all nodes", ask: nodes(4)},
		{name: "no instances", seen: func(in *inspection) { in.reservation.Total = 0 }},
		{name: "ended", seen: func(in *inspection) {
			in.Now = in.reservation.End.Add(time.Second)
			in.users.add(4, "compute node group big-a")
		}},
		{name: "that has ended", seen: func(in *inspection) { in.reservation.State = capacity.StateExpired }},
		{name: "too few addresses", seen: free(3)},
		{name: "just enough addresses", seen: free(4)},
		{name: "too few addresses for EFA", seen: func(in *inspection) {
			free(7)(in)
			in.launch.Type, in.chosen = efaType, append(in.chosen, spare)
		}},
		{
			name:  "addresses in another zone",
			world: func(_ *testing.T, w *world) { w.VPC = append(w.VPC, distant) },
			ask:   func(r *Request) { r.SubnetIDs = []string{subnet, distant.ID} },
			seen:  free(3),
		},
		{name: "ten node groups", seen: groups(10, "SMALL")},
		{name: "nine node groups", seen: groups(9, "MEDIUM")},
		{name: "ten queues", seen: func(in *inspection) { in.Queues = slices.Repeat(in.Queues, 10) }},
		{name: "nine queues", seen: func(in *inspection) { in.Queues = slices.Repeat(in.Queues, 9) }},
		{
			name:  "ten queues, and one of them",
			world: first,
			seen:  func(in *inspection) { in.Queues = append(slices.Repeat(in.Queues[:1], 9), in.Queues[1]) },
		},
		{
			name: "a cluster that is too small",
			seen: func(in *inspection) { in.Groups = slices.Clone(in.Groups); in.Groups[0].Max = 29 },
		},
		{
			name: "a cluster that just does",
			seen: func(in *inspection) { in.Groups = slices.Clone(in.Groups); in.Groups[0].Max = 28 },
		},
		{name: "nodes that run", world: first, ask: nodes(3), seen: func(in *inspection) { in.slots[0].Instances = 1 }},
		{
			name:  "more nodes beside those that run",
			world: firstWith(nodes(2)),
			ask:   nodes(3),
			seen:  func(in *inspection) { in.slots[0].Instances = 1 },
		},
		{name: "a launch template of others", seen: func(in *inspection) {
			in.slots[0].Template = capacity.LaunchTemplate{ID: "lt-9", Name: "pcs-capacity-ml-gpu-a", Tags: foreign}
		}},
		{name: "slots of others", seen: func(in *inspection) {
			in.slots[0].Group = &pcs.NodeGroup{Name: "gpu-a", ARN: "arn:1"}
			in.slots[1].Group = &pcs.NodeGroup{Name: "gpu-b", ARN: "arn:2"}
		}},
		{name: "a queue of others", ask: func(r *Request) { r.Queue = "cpu" }},
		{name: "another kind in the entry", world: first, ask: next, seen: odcr},
		{name: "another kind for demand", world: written("gpu", capacity.ProviderPCS, func(g *capacity.GroupSettings) {
			g.PurchaseOption, g.ReservationIDs = capacity.OnDemand, nil
		})},
		{
			name:  "another kind for tags that find nothing else",
			world: written("gpu", capacity.ProviderPCS, selects),
			seen:  func(in *inspection) { odcr(in); in.reservation.Tags = nlp },
		},
		{
			name: "another kind, alone in its entry",
			world: written("gpu", capacity.ProviderPCS,
				func(g *capacity.GroupSettings) { g.ReservationIDs = []string{now1} }),
			seen: odcr,
		},
		{name: "another kind beside the other slot, settings lost", world: lost, ask: next, seen: odcr},
		{
			name:  "another kind beside a slot whose block has ended",
			world: lost,
			ask:   next,
			seen:  func(in *inspection) { odcr(in); in.Now = in.known[in.slots[0].ReservationID].End },
		},
		{
			name:  "another kind, and a file of the administrator's",
			world: first,
			ask:   next,
			seen:  func(in *inspection) { odcr(in); in.partitionFile.owned = false },
		},
		{
			name:  "another type beside the other slot, settings lost",
			world: lost,
			ask:   next,
			seen:  func(in *inspection) { in.reservation.InstanceType = "p4d.24xlarge" },
		},
		{
			name: "another type in the settings",
			world: written("gpu", capacity.ProviderPCS,
				func(g *capacity.GroupSettings) { g.InstanceType = "p4d.24xlarge" }),
		},
		{
			name: "an ODCR where both slots are taken",
			world: withThird(func(r *capacity.Reservation) {
				r.Kind, r.InstanceType, r.Total = capacity.ODCR, "g6.12xlarge", 2
			}),
			ask: askThird,
		},
		{
			name:  "a node group that says no type",
			world: first,
			seen:  func(in *inspection) { in.slots[0].Group.InstanceTypes = nil },
		},
		{name: "none that is selected", world: written("gpu", capacity.ProviderPCS, selects)},
		{name: "used by others", ask: nodes(3), seen: others(2, "x")},
		{name: "used up by others", seen: others(4, "x")},
		{name: "some left by others", ask: nodes(2), seen: others(2, "x")},
		{name: "beside others", seen: func(in *inspection) {
			in.users.add(2, "queue x")
			in.users.add(1, "instances")
		}},
		{
			name:  "settings that are new",
			world: written("other", capacity.ProviderPCS, func(g *capacity.GroupSettings) { g.Name = "other" }),
		},
		{
			name:  "settings of another cluster",
			world: first,
			seen:  settings(func(c *config.Config) { c.Cluster = "other" }),
		},
		{
			name: "settings as the package has them",
			seen: func(in *inspection) { in.request.Config = config.Default(); in.request.Config.Path = etc },
		},
		{name: "settings of PCS", world: first, ask: onEC2},
		{
			name:  "settings of another region",
			world: first,
			seen:  settings(func(c *config.Config) { c.Region = "us-west-2" }),
		},
		{
			name:  "another region, self-managed",
			world: firstOnEC2,
			ask:   onEC2,
			seen:  settings(func(c *config.Config) { c.Region = "us-west-2" }),
		},
		{
			name:  "another provider",
			world: written("gpu", capacity.ProviderPCS, func(*capacity.GroupSettings) {}),
			ask:   onEC2,
		},
		{
			name:  "a node group of another partition",
			world: written("other", capacity.ProviderPCS, func(*capacity.GroupSettings) {}),
		},
		{name: "a file that cannot be read", seen: func(in *inspection) { in.partitionFile.err = errNoFence }},
		{name: "a file of others", seen: func(in *inspection) { in.partitionFile.owned = false }},
		{
			name:  "a file of the administrator's",
			world: first,
			ask:   next,
			seen:  func(in *inspection) { in.partitionFile.owned = false },
		},
		{
			name:  "a file of the administrator's that does",
			world: first,
			seen:  func(in *inspection) { in.partitionFile.owned = false },
		},
		{
			name:  "a block that has shrunk, self-managed",
			world: firstOnEC2,
			ask:   func(r *Request) { onEC2(r); r.MaxNodes = 4 },
			seen:  func(in *inspection) { in.reservation.Total = 2 },
		},
		{
			name:  "a smaller block joins, self-managed",
			world: firstOnEC2,
			ask:   nextOnEC2,
			seen:  func(in *inspection) { in.reservation.Total = 2 },
		},
		{
			name:  "a smaller block beside another",
			world: first,
			ask:   func(r *Request) { next(r); r.MaxNodes = 4 },
			seen:  func(in *inspection) { in.reservation.Total = 2 },
		},
		{
			name:  "blocks that overlap, self-managed",
			world: firstOnEC2,
			ask:   nextOnEC2,
			seen:  func(in *inspection) { in.reservation.Start = in.known[now1].Start },
		},

		{
			name:  "unknown settings of the group",
			world: first,
			ask:   nodes(3),
			seen:  func(in *inspection) { in.slots[0].Group.Unknown = []string{"scalingConfiguration.spare"} },
		},
		{
			name:  "unknown settings of what could not be created",
			world: notCreated,
			seen:  func(in *inspection) { in.slots[0].Group.Unknown = []string{"spare"} },
		},
		{name: "unknown settings of the queue", world: first, ask: next, seen: unknownOfQueue},
		{name: "unknown settings of a queue that stays", world: first, seen: unknownOfQueue},
		{
			name: "unknown settings of what is copied",
			seen: func(in *inspection) { in.like.Unknown = []string{"spare"} },
		},
		{
			name:  "unknown settings of what nothing is copied from",
			world: first,
			seen:  func(in *inspection) { in.like.Unknown = []string{"spare"} },
		},
		{name: "settings of the hardware copied", seen: func(in *inspection) {
			in.like.SlurmSettings = map[string]string{"Features": "site", "RealMemory": "1000"}
		}},
		{
			name: "Gres copied",
			seen: func(in *inspection) { in.like.SlurmSettings = map[string]string{"Gres": "gpu:8"} },
		},
	} {
		w, r := newWorld(), askFor(now1)
		if c.world != nil {
			c.world(t, w)
		}

		if c.ask != nil {
			c.ask(&r)
		}

		in := w.see(r)
		if c.seen != nil {
			c.seen(&in)
			in.launch.Template, _ = w.PlannedTemplate(t.Context(), in.templateSpec())
		}

		say(c.name, plan(in))
	}

	jobs := func(in *view) { in.slots[0].Instances, in.slots[0].Slurm.Jobs = 1, []string{"12", "13_1"} }
	away := func(in *view) { in.SlurmErr, in.slots[0].Instances = errNoFence, 1 }
	theirs := func(in *view) { in.partitionFile.owned = false }
	inQueue := func(name string, change func(*pcs.Queue)) func(t *testing.T, w *world) {
		return func(t *testing.T, w *world) { both(t, w); change(w.Queue(name)) }
	}

	of := func(provider capacity.Provider) func(*testing.T, *world) { // two partitions, and what may be left of others
		return func(_ *testing.T, w *world) {
			w.withSettings(
				capacity.PartitionSettings{
					Name:     "gpu",
					Provider: provider,
					Groups:   []capacity.GroupSettings{{Name: "gpu", Nodes: []string{"n-1", "n-2"}}, {Name: "big"}},
				},
				capacity.PartitionSettings{
					Name:     "other",
					Provider: capacity.ProviderEC2,
					Groups:   []capacity.GroupSettings{{Name: "other", Slots: 2}},
				},
			)

			w.config.Partitions[0].Groups[1].Slots = 2
			if provider == capacity.ProviderNone {
				w.fence("gpu", now1)
				w.config.Partitions[0].Groups = w.config.Partitions[0].Groups[:1]
				return
			}

			for _, slot := range []string{"n", "big-b", "old", "old-a", "other-a", "x", "former"} {
				w.launch(slot)
			}

			for _, name := range []string{"gpu", "big", "old"} {
				w.Templates[name] = capacity.LaunchTemplate{
					ID:   "lt-" + name,
					Name: capacity.TemplateName(ourMark, name),
					Tags: map[string]string{capacity.TagCluster: ourMark, capacity.TagPartition: "gpu"},
				}
			}
		}
	}

	lendsBoth := func(t *testing.T, w *world) { firstWith(lending("scavenge"))(t, w); w.setUp(t, askFor(next1)) }
	selfManaged := func(group string) Request {
		return Request{Provider: capacity.ProviderEC2, Mark: ourMark, Queue: "gpu", NodeGroup: group}
	}
	teardownOnEC2 := Request{Provider: capacity.ProviderEC2, Mark: ourMark, Queue: "gpu"}
	for _, c := range []struct {
		name  string
		world func(t *testing.T, w *world)
		ask   Request
		seen  func(in *view)
	}{
		{name: "teardown"},
		{name: "teardown of a slot", ask: Request{NodeGroup: "gpu-a"}},
		{
			name: "teardown of a slot beside a node group of its name",
			ask:  Request{NodeGroup: "gpu-a"},
			world: func(t *testing.T, w *world) {
				both(t, w)
				w.Groups = append(w.Groups,
					pcs.NodeGroup{
						ID:   "pcs_9",
						Name: "gpu-a-a",
						Tags: map[string]string{capacity.TagCluster: ourMark, capacity.TagPartition: "gpu"},
					})
			},
		},
		{name: "teardown with a spare queue", world: firstWith(lending("scavenge"))},
		{name: "teardown of a slot that is lent", world: lendsBoth, ask: Request{NodeGroup: "gpu-a"}},
		{name: "teardown of a spare queue", world: lendsBoth, ask: Request{Queue: "scavenge"}},
		{
			name: "teardown of a spare queue with jobs", world: lendsBoth, ask: Request{Queue: "scavenge"},
			seen: func(in *view) { in.jobs.Running, in.jobs.Waiting = []string{"7"}, 3 },
		},
		{
			name: "teardown of a spare queue with jobs, by force", world: lendsBoth,
			ask:  Request{Queue: "scavenge", Force: true},
			seen: func(in *view) { in.jobs.Running = []string{"7", "8"} },
		},
		{
			name: "teardown of a spare queue without Slurm", world: lendsBoth, ask: Request{Queue: "scavenge"},
			seen: func(in *view) { in.SlurmErr = errNoFence },
		},
		{
			name:  "teardown of a spare queue beside a file of the administrator's",
			world: lendsBoth,
			ask:   Request{Queue: "scavenge"},
			seen:  theirs,
		},
		{
			name: "teardown of a spare partition, self-managed",
			world: func(t *testing.T, w *world) {
				r := askForOnEC2(now1)
				r.Spare = "scavenge"
				w.setUp(t, r)
			},
			ask: Request{Provider: capacity.ProviderEC2, Mark: ourMark, Queue: "scavenge"},
		},
		{name: "teardown with jobs", seen: jobs},
		{name: "teardown with jobs, by force", ask: Request{Force: true}, seen: jobs},
		{name: "teardown with jobs that wait", seen: func(in *view) { in.jobs.Waiting = 2 }},
		{
			name: "teardown of a slot with jobs that wait",
			ask:  Request{NodeGroup: "gpu-a"},
			seen: func(in *view) { in.jobs.Waiting = 2 },
		},
		{name: "teardown beside a file of the administrator's", seen: theirs},
		{
			name: "teardown of a slot beside a file of the administrator's",
			ask:  Request{NodeGroup: "gpu-a"},
			seen: theirs,
		},
		{name: "teardown where Slurm does not answer", seen: func(in *view) {
			in.SlurmErr = errNoFence
			for i := range in.slots {
				in.slots[i].Slurm = SlurmSlot{}
			}
		}},
		{name: "teardown without Slurm", seen: away},
		{name: "teardown without Slurm, by force", ask: Request{Force: true}, seen: away},
		{
			name: "teardown by sync without Slurm",
			seen: func(in *view) { in.unattended, in.SlurmErr = true, errNoFence },
		},
		{
			name: "teardown by sync with instances",
			seen: func(in *view) { in.unattended, in.slots[0].Instances = true, 1 },
		},
		{
			name:  "teardown of what is in another queue",
			world: inQueue("cpu", func(q *pcs.Queue) { q.GroupIDs = append(slices.Clone(q.GroupIDs), "pcs_gpu-a") }),
		},
		{
			name:  "teardown of what is in a queue of others",
			world: inQueue("gpu", func(q *pcs.Queue) { q.Tags = foreign }),
		},
		{name: "teardown of a queue of others", ask: Request{Queue: "cpu"}},
		{name: "teardown of what was made for another queue", ask: Request{Queue: "other", NodeGroup: "gpu"}},
		{
			name: "teardown beside an unreadable file",
			seen: func(in *view) {
				in.partitionFile = settingsFile{path: in.partitionFile.path, err: errNoFence}
			},
		},
		{name: "teardown of nodes on demand", world: firstOnDemand},
		{name: "teardown of nothing", world: func(*testing.T, *world) {}},
		{
			name: "teardown on EC2",
			world: func(t *testing.T, w *world) {
				firstOnEC2(t, w)
				w.launch("gpu")
				w.fence("gpu", now1)
			},
			ask: teardownOnEC2,
		},
		{name: "teardown on EC2 without instances", world: firstOnEC2, ask: teardownOnEC2},
		{name: "teardown of node groups on EC2", world: of(capacity.ProviderEC2), ask: selfManaged("")},
		{name: "teardown of one with two slots", world: of(capacity.ProviderEC2), ask: selfManaged("big")},
		{name: "teardown of one that the settings have lost", world: of(capacity.ProviderEC2), ask: selfManaged("old")},
		{name: "teardown of one that is unheard of", world: of(capacity.ProviderEC2), ask: selfManaged("unheard")},
		{name: "teardown of another partition's slot", world: of(capacity.ProviderEC2), ask: selfManaged("other-a")},
		{
			name:  "teardown of a guest",
			world: of(capacity.ProviderNone),
			ask:   Request{Provider: capacity.ProviderNone, Mark: ourMark, Queue: "gpu"},
		},
		{name: "teardown of nothing on EC2", world: func(*testing.T, *world) {}, ask: teardownOnEC2},
	} {
		w := newWorld()

		if c.world == nil {
			c.world = both
		}

		c.world(t, w)

		if c.ask.Queue == "" {
			c.ask.Queue = "gpu"
		}

		in := w.seeRemains(c.ask)
		if c.seen != nil {
			c.seen(&in)
		}

		say(c.name, planTeardown(in))
	}

	const path = "testdata/plans.txt"
	if os.Getenv("UPDATE_TRANSCRIPTS") != "" {
		if err := os.WriteFile(path, []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(out.String(), "\n")); diff != "" {
		t.Errorf("%s is not what is planned; UPDATE_TRANSCRIPTS=1 writes it (-want +got):\n%s", path, diff)
	}
}
