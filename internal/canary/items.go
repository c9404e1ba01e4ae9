package canary

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/pcs"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// Item is a statement that no documentation makes.
type Item struct {
	// ID is stable, for whoever reads the answers.
	ID string
	// States is the statement, in the sense in which the product would be at ease with it.
	States string
	// How says how it is seen; without an ask, how to find out by hand.
	How string
	// Changes says what is changed, and when it is taken back; "" for what is read only.
	Changes string
	When    Phase
	// slurm: it is asked of slurmctld.
	slurm bool
	ask   func(context.Context, *run, *Answer)
}

// probe begins the name of what is made here and removed again.
const probe = "canary"

// foreign is a Slurm reservation of ours that PCS knows nothing of, so far ahead that no job
// minds.
const (
	foreign      = "pcs-capacity-canary"
	foreignAhead = 300 * 24 * time.Hour
)

// Items are all statements, in the order in which docs/canary.md has them.
var Items = []Item{
	{ID: "resume-timeout", States: "ResumeTimeout is at least boot_allowance",
		How: "`scontrol show config`", When: Any, slurm: true, ask: resumeTimeout},
	{ID: "real-memory", States: "RealMemory of a node group is in MB",
		How: "the node group's setting, compared with the nodes in Slurm", When: Any, slurm: true, ask: realMemory},
	{ID: "read-rate", States: "20 reads of a node group in a row are not refused",
		How: "20 × GetComputeNodeGroup", When: Any, ask: readRate},
	{ID: "launch-error", States: "a failed launch leaves `Failed to launch backing instance (Error Code: …)` as the node's Reason",
		How: "the Reason of nodes of the group, if one has failed", When: Any, slurm: true, ask: launchError},
	{ID: "scheduled-before", States: "before the start, Slurm has the reservation GROUP-scheduled with MAINT over all nodes",
		How: "`scontrol show reservation`", When: Before, slurm: true, ask: scheduledBefore},
	{ID: "scheduled-open", States: "GROUP-scheduled is gone once the block is open",
		How: "`scontrol show reservation`, from a minute after the start", When: Open, slurm: true, ask: scheduledOpen},
	{ID: "launch-latency", States: "a static node group has its instances within boot_allowance of the start",
		How: "the launch times of the group's first instances; run this within an hour of the start", When: Open, ask: launchLatency},
	{ID: "scheduled-after", States: "GROUP-scheduled is not made again after the end",
		How: "`scontrol show reservation`", When: After, slurm: true, ask: scheduledAfter},
	{ID: "nodes-after", States: "after the end no node of the group is up",
		How: "the states of the nodes", When: After, slurm: true, ask: nodesAfter},
	{ID: "foreign-reservation", States: "PCS leaves Slurm reservations alone that it did not make",
		How: "one is made, and looked for in a run after `--settle`", When: Any, slurm: true,
		Changes: "Slurm reservation `" + foreign + "`, to begin in 300 days; the run that looks for it deletes it", ask: foreignReservation},
	{ID: "drained-node", States: "PCS leaves the instance of a drained node alone",
		How: "a node is drained, and its instance looked for in a run after `--settle`", When: Open, slurm: true,
		Changes: "one node is drained; the run that looks for it resumes it", ask: drainedNode},
	{ID: "wrong-zone", States: "PCS refuses at once a node group whose subnets are not in the block's zone",
		How: "one is asked for in another subnet of the VPC; the code is in the evidence", When: Any,
		Changes: "compute node group `" + probe + "-zone`, without nodes; deleted at once", ask: wrongZone},
	{ID: "too-many-nodes", States: "PCS refuses at once a node group with a maximum above the block's size",
		How: "one is asked for; the code is in the evidence", When: Any,
		Changes: "compute node group `" + probe + "-size`, without nodes; deleted at once", ask: tooManyNodes},
	{ID: "mixed-scaling", States: "PCS refuses a minimum between 0 and the maximum",
		How: "a node group with minimum 1 and maximum 2 is asked for, while nothing can launch; the block needs two instances", When: Before,
		Changes: "compute node group `" + probe + "-mix`; deleted at once", ask: mixedScaling},

	{ID: "new-block-replaces", States: "an update that changes only the reservation replaces running instances",
		How: "it costs a running node; when the next block is there, set it up in the node group of this one by hand, and see whether instance ids change"},
	{ID: "removal-order", States: "a lower maximum takes away the nodes with the highest numbers",
		How: "it ends running nodes and needs two; lower the maximum of a node group by hand, and see `sinfo`"},
	{ID: "down-node", States: "PCS replaces the instance of a node that is DOWN",
		How: "stop slurmd on a node by hand, and see whether its instance id changes"},
	{ID: "root-jwt", States: "slurmrestd takes a token for root as an administrator's",
		How: "needs slurmrestd in STANDARD mode and the cluster's key; nothing here uses it"},
	{ID: "prolog-glob", States: "PCS takes a Prolog with a glob",
		How: "it would change the settings of the cluster, and restart slurmctld; nothing here uses it"},
}

func resumeTimeout(_ context.Context, r *run, a *Answer) {
	boot := r.Timing.BootAllowance.Duration
	a.decide(r.config.ResumeTimeout >= boot, "ResumeTimeout is %s, boot_allowance %s", r.config.ResumeTimeout, boot)
}

func realMemory(_ context.Context, r *run, a *Answer) {
	asked, err := strconv.Atoi(r.group.SlurmSettings["RealMemory"])
	if err != nil {
		a.unknown("the node group sets no RealMemory; setup takes that of --like where the type is the same")
		return
	}
	a.decide(r.nodes[0].Memory == asked, "set is RealMemory=%d, %s has %d MB", asked, r.nodes[0].Name, r.nodes[0].Memory)
}

func readRate(ctx context.Context, r *run, a *Answer) {
	const reads = 20
	began := time.Now()
	for n := range reads {
		if _, _, err := r.PCS.NodeGroup(ctx, r.cluster.ID, r.group.ID); err != nil {
			a.refute("read %d of %d: %s", n+1, reads, err)
			if ctx.Err() != nil || pcs.Code(err) != "ThrottlingException" {
				a.Outcome = Unknown
			}
			return
		}
	}
	a.confirm("%d reads in %s, none refused beyond what the SDK sends again", reads, time.Since(began).Round(time.Millisecond))
}

// launchReason begins the Reason that PCS gives to a node whose instance could not be launched.
const launchReason = "Failed to launch backing instance (Error Code: "

func launchError(_ context.Context, r *run, a *Answer) {
	a.unknown("no node of the group has a Reason")
	for _, n := range r.nodes {
		if n.Reason == "" || strings.HasPrefix(n.Reason, "pcs-capacity") {
			continue
		}
		if a.decide(strings.HasPrefix(n.Reason, launchReason), "%s: %s", n.Name, n.Reason); a.Outcome == Refuted && !strings.Contains(strings.ToLower(n.Reason), "launch") {
			a.Outcome = Unknown // a Reason for something else
		}
		return
	}
}

// scheduled is the reservation that PCS keeps before a block opens.
func (r *run) scheduled() (capacity.SlurmReservation, bool) {
	at := slices.IndexFunc(r.held, func(one capacity.SlurmReservation) bool { return one.Name == r.group.Name+"-scheduled" })
	if at < 0 {
		return capacity.SlurmReservation{}, false
	}
	return r.held[at], true
}

func (r *run) states() string {
	var parts []string
	for _, n := range r.nodes {
		parts = append(parts, n.Name+" "+n.State)
	}
	return strings.Join(parts, ", ")
}

func scheduledBefore(_ context.Context, r *run, a *Answer) {
	held, found := r.scheduled()
	if !found {
		a.refute("Slurm has no reservation %s-scheduled; %s", r.group.Name, r.states())
		return
	}
	a.decide(slices.Contains(held.Flags, "MAINT") && held.Active && len(held.Nodes) == r.group.Max, "%s on %s, %s, from %s to %s; %s",
		held.Name, slurm.Compress(held.Nodes), strings.Join(held.Flags, ","), held.Start.Format(time.RFC3339), held.End.Format(time.RFC3339), r.states())
}

// opened is how long after the start PCS may still have the reservation.
const opened = time.Minute

func thereOrGone(found bool) string {
	if found {
		return "there"
	}
	return "gone"
}

func scheduledOpen(_ context.Context, r *run, a *Answer) {
	_, found := r.scheduled()
	if since := r.now.Sub(r.window.Start); found && since < opened {
		a.unknown("it is there %s after the start; run this again", since.Round(time.Second))
		return
	}
	a.decide(!found, "It was %s %s after the start; %s", thereOrGone(found), r.now.Sub(r.window.Start).Round(time.Second), r.states())
}

func scheduledAfter(_ context.Context, r *run, a *Answer) {
	_, found := r.scheduled()
	a.decide(!found, "It was %s %s after the end; %s", thereOrGone(found), r.now.Sub(r.window.End).Round(time.Second), r.states())
}

func nodesAfter(_ context.Context, r *run, a *Answer) {
	up := slices.ContainsFunc(r.nodes, func(n capacity.Node) bool { return n.Base() != "DOWN" && !n.PoweredDown() && !n.PoweringDown() })
	a.decide(!up, "%s after the end: %s", r.now.Sub(r.window.End).Round(time.Second), r.states())
}

// first is how long after the start an instance counts as one of the first.
const first = time.Hour

func launchLatency(ctx context.Context, r *run, a *Answer) {
	if r.group.Min == 0 {
		a.unknown("the node group is dynamic: its instances come with jobs")
		return
	}
	all, err := r.EC2.InstancesByTag(ctx, map[string][]string{pcs.TagNodeGroupID: {r.group.ID}})
	if err != nil {
		a.unknown("%s", err)
		return
	}
	var last time.Duration
	for _, i := range all {
		last = max(last, i.Launched.Sub(r.window.Start))
	}
	boot, since := r.Timing.BootAllowance.Duration, r.now.Sub(r.window.Start)
	a.decide(len(all) >= r.group.Min && last <= boot, "%d of %d instances %s after the start, the last launched %s after it", len(all), r.group.Min, since.Round(time.Second), last.Round(time.Second))
	if len(all) < r.group.Min && (since < boot || since > first) || last > first { // not yet, or not the first ones any more
		a.Outcome = Unknown
	}
}

func (r *run) settled(a *Answer) bool {
	if r.now.Sub(a.Began) < r.Settle {
		a.unknown("made at %s; run this again after %s", a.Began.Format(time.RFC3339), a.Began.Add(r.Settle).Format(time.RFC3339))
		return false
	}
	return true
}

func foreignReservation(ctx context.Context, r *run, a *Answer) {
	there := slices.ContainsFunc(r.held, func(one capacity.SlurmReservation) bool { return one.Name == foreign })
	switch {
	case a.Began.IsZero() && !there:
		a.Began = r.now // recorded even if the answer is lost: the next run finds out
		at := r.now.Add(foreignAhead)
		err := r.Slurm.CreateReservation(ctx, capacity.SlurmReservation{Name: foreign, Nodes: r.nodeNames(), Start: at, End: at.Add(time.Hour), Flags: []string{"MAINT", "IGNORE_JOBS"}, Users: []string{"root"}})
		if err != nil {
			a.Began = time.Time{}
			a.unknown("%s", err)
			return
		}
		r.settled(a)
	case a.Began.IsZero(): // of a run whose answers are lost
		a.Began = r.now
		r.settled(a)
	case !there:
		a.refute("made at %s, and gone", a.Began.Format(time.RFC3339))
		a.Began = time.Time{}
	case r.settled(a):
		a.confirm("made at %s, and there %s later", a.Began.Format(time.RFC3339), r.now.Sub(a.Began).Round(time.Second))
		if err := r.Slurm.DeleteReservation(ctx, foreign); err != nil {
			a.unknown("delete Slurm reservation %s by hand: %s", foreign, err)
			return
		}
		a.Began = time.Time{}
	}
}

func (r *run) nodeNames() (names []string) {
	for _, n := range r.nodes {
		names = append(names, n.Name)
	}
	return names
}

// drained is the Reason of the node that is drained here.
const drained = "pcs-capacity canary"

func drainedNode(ctx context.Context, r *run, a *Answer) {
	ids, err := r.EC2.InstanceIDsByTag(ctx, map[string][]string{pcs.TagNodeGroupID: {r.group.ID}})
	if err != nil {
		a.unknown("%s", err)
		return
	}
	slices.Sort(ids)
	now := strings.Join(ids, " ")
	node := r.nodes[0]
	switch {
	case a.Began.IsZero() && (node.Busy() || node.PoweredDown() || node.PoweringUp()):
		a.unknown("%s is not idle: %s", node.Name, r.states())
	case a.Began.IsZero():
		if err := r.Slurm.Drain(ctx, []string{node.Name}, drained); err != nil {
			a.unknown("%s", err)
			return
		}
		a.Began, a.Saw = r.now, now
		r.settled(a)
	case r.phase != Open:
		r.resume(ctx, a, node)
		a.unknown("drained at %s, and the block has ended since", a.Began.Format(time.RFC3339))
	case r.settled(a):
		a.decide(now == a.Saw, "drained at %s with %s, %s later there is %s; %s", a.Began.Format(time.RFC3339), a.Saw, r.now.Sub(a.Began).Round(time.Second), now, r.states())
		r.resume(ctx, a, node)
	}
}

// resume takes the drain back.
func (r *run) resume(ctx context.Context, a *Answer, node capacity.Node) {
	if node.Has("DRAIN") && node.Reason == drained {
		if err := r.Slurm.Resume(ctx, []string{node.Name}); err != nil {
			a.Evidence += fmt.Sprintf("; resume %s by hand: %s", node.Name, err)
			return
		}
	}
	a.Began, a.Saw = time.Time{}, ""
}

func wrongZone(ctx context.Context, r *run, a *Answer) {
	all, err := r.EC2.NeighbourSubnets(ctx, r.group.SubnetIDs)
	if err != nil {
		a.unknown("%s", err)
		return
	}
	at := slices.IndexFunc(all, func(s capacity.Subnet) bool { return s.AZID != r.block.AZID })
	if at < 0 {
		a.unknown("the VPC has no subnet in another zone than %s", r.block.AZID)
		return
	}
	r.refuses(ctx, a, "zone", func(g *pcs.NodeGroup) { g.SubnetIDs = []string{all[at].ID} })
}

func tooManyNodes(ctx context.Context, r *run, a *Answer) {
	r.refuses(ctx, a, "size", func(g *pcs.NodeGroup) { g.Max = r.block.Size() + 1 })
}

func mixedScaling(ctx context.Context, r *run, a *Answer) {
	if r.block.Size() < 2 {
		a.unknown("the block has %d instance; PCS could refuse the maximum", r.block.Size())
		return
	}
	r.refuses(ctx, a, "mix", func(g *pcs.NodeGroup) { g.Min, g.Max = 1, 2 })
}

// refuses asks for a node group like the block's but for one thing, and removes it again
// whatever becomes of it.
func (r *run) refuses(ctx context.Context, a *Answer, what string, change func(*pcs.NodeGroup)) {
	g := r.group
	g.Name, g.ID, g.ARN, g.Min, g.Max = probe+"-"+what, "", "", 0, 1
	g.Tags = map[string]string{capacity.TagCluster: r.cluster.Name, capacity.TagReservation: r.block.ID}
	g.SlurmSettings, g.IdleSeconds = maps.Clone(g.SlurmSettings), nil
	change(&g)
	p := pcs.Provisioner{PCS: r.PCS, EC2: r.EC2, Poll: r.Poll}
	if err := p.DeleteNodeGroup(ctx, r.cluster, g.Name); err != nil { // of a run that was cut off
		a.unknown("%s", err)
		return
	}
	_, _, err := p.EnsureNodeGroup(ctx, g, true)
	made, found, readErr := r.PCS.NodeGroup(context.WithoutCancel(ctx), r.cluster.ID, g.Name)
	switch {
	case readErr != nil:
		a.unknown("%s", readErr)
	case found && made.Status == pcs.CreateFailed:
		a.refute("PCS took it, and then %s: %s", made.Status, made.Failures)
	case found:
		a.refute("PCS took it: %s", made.Status)
	case pcs.Code(err) == "ValidationException":
		a.confirm("%s", err)
	default:
		a.unknown("%s", errors.Join(err, fmt.Errorf("the node group is not there")))
	}
	if !found && readErr == nil {
		return
	}
	if err := p.DeleteNodeGroup(context.WithoutCancel(ctx), r.cluster, g.Name); err != nil {
		a.Evidence += fmt.Sprintf("; delete compute node group %s by hand: %s", g.Name, err)
	}
}
