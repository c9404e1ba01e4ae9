package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// Pass makes one pass. The snapshot is what it saw, even if parts could not be read; the report says what it did. The
// error joins every failure: one failure does not stop the rest of the pass. Without the lock for a pass there is no
// snapshot.
func Pass(ctx context.Context, s Sources) (*capacity.Snapshot, Report, error) {
	p := newPass(s)
	if !s.DryRun { // a dry run does not wait for the lock and leaves no file
		unlock, err := p.State.Lock(ctx, state.PassLock, lockWait)
		if err != nil {
			var failed capacity.Said
			failed.Add(capacity.Problemf(lockCode(err), capacity.Subject{}, "", "%v", err))
			return nil, Report{At: s.MachineTime(), Done: []Done{}, Said: failed.Copy(), Failed: true}, err
		}
		defer unlock()
	}
	p.run(ctx)
	return p.seen.Snap, p.report(), errors.Join(p.failed...)
}

// run is a pass: its reads, and the decisions in their order.
func (p *pass) run(ctx context.Context) {
	p.look(ctx)
	// Without an older snapshot and without AWS there is nothing to write or to act on.
	if p.seen.NoAWS && p.seen.Old == nil {
		return
	}
	if p.seen.Cluster != nil {
		p.askGuarded(ctx)
		p.decide(ctx, fences)
		p.changeJobs(ctx)
		p.carryOut(ctx, givenUp(p.seen))
		p.carryOut(ctx, completing(p.seen))
		p.carryOut(ctx, endedBlocks(p.seen))
		p.keepPowerUps(p.carryOut(ctx, openings(p.seen)))
		p.seen.Snap.Orphans = withoutEnded(p.seen.Snap.Orphans, p.carryOut(ctx, endOrphans(p.seen)))
		p.releaseHeld(ctx)
		p.carryOut(ctx, forgetMisplaced(p.seen))
		p.seeSample(ctx)
		p.carryOut(ctx, sample(p.seen))
		p.lookForLeftovers(ctx)
		p.rollOver(ctx)
	}
	p.sayAll(setbackProblems, orphanProblems, leftoverProblems)
	p.carryOut(ctx, published(p.seen, p.Local))
}

// keepPowerUps notes in the snapshot when the nodes of each slot were powered up.
func (p *pass) keepPowerUps(results []Result) {
	up := map[string]bool{}
	for _, r := range results {
		up[r.Effect.About().Slot] = true
	}
	for _, part := range p.seen.Snap.Partitions {
		for _, g := range part.Groups {
			for i := range g.Slots {
				if g.Slots[i].PoweredUp = p.seen.Old.PoweredUp(g.Slots[i].Name); up[g.Slots[i].Name] {
					g.Slots[i].PoweredUp = p.seen.second()
				}
			}
		}
	}
}

// lockWait is how long a pass waits for another program's pass.
const lockWait = time.Minute

// Look reads what a pass reads and changes nothing. cluster is nil if Slurm did not answer. The error joins the
// failed reads, as with Pass.
func Look(ctx context.Context, s Sources) (snap *capacity.Snapshot, cluster *Cluster, answers Answers, err error) {
	p := newPass(s)
	p.look(ctx)
	for _, r := range p.seen.Rolling {
		if !r.Ready && !r.Over {
			p.say(capacity.RollOverDue, capacity.Subject{Partition: r.Partition, Reservation: r.Block.ID}, "",
				"reservation %s has no compute node group in partition %s yet; sync makes it", r.Block.ID, r.Partition)
		}
	}
	p.sayAll(setbackProblems, orphanProblems, leftoverProblems)
	return p.seen.Snap, p.seen.Cluster, p.answers, errors.Join(p.failed...)
}

// look reads AWS and Slurm, side by side. Each half is read even if the other fails.
func (p *pass) look(ctx context.Context) {
	old, err := p.State.ReadSnapshot()
	p.seen.Old = old
	var slurmErr error
	var both sync.WaitGroup
	both.Go(func() { p.seen.Cluster, slurmErr = p.World.Look(ctx) })
	snap, answers, awsErr := p.observe(ctx, old)
	both.Wait()
	p.seen.Snap, p.seen.NoAWS, p.answers = snap, awsErr != nil, answers
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.problem(capacity.StateFile, err)
	}
	p.fail(awsErr)
	if slurmErr != nil {
		p.seen.Cluster = nil
		slurmErr = fmt.Errorf("asking Slurm: %w", slurmErr)
		p.say(capacity.SlurmUnanswered, capacity.Subject{}, "", "%v; fences and time limits are as they were", slurmErr)
		keepSlurm(p.seen.Snap, old)
		p.fail(slurmErr)
	} else {
		p.seen.Cluster.assign(p.Settings)
		p.addSlurm()
		p.forget()
		p.seen.Snap.Add(unlocked(p.seen.Snap, p.seen.Cluster)...)
	}
	p.seen.Now = p.MachineTime().Add(p.seen.Snap.ClockOffset.Duration)
	p.seen.Snap.Add(mismatches(p.seen.Snap, p.seen.Now)...)
	if p.seen.Cluster != nil {
		p.sayAll(unnamedBlocks, otherOwners)
	}
	p.sayAll(neverOpens)
	p.keepLeftovers()
	if p.seen.Cluster != nil {
		p.sayAll(outOfService, relaunched)
	}
	p.lookForMisplaced()
	p.lookForRollOver()
	p.lookForOrphans(ctx)
	p.lookForImpaired(ctx)
	for _, w := range p.seen.Snap.Waiting(p.seen.Now) {
		p.seen.Snap.Add(w.Problem())
	}
}

// sayAll adds what people should know.
func (p *pass) sayAll(problems ...func(Seen) []capacity.Problem) {
	for _, of := range problems {
		p.seen.Snap.Add(of(p.seen)...)
	}
}

func (p *pass) report() Report {
	return Report{At: p.seen.Now.UTC().Truncate(time.Second), DryRun: p.DryRun, Done: append([]Done{}, p.done...),
		Said: p.seen.Snap.Said.Copy(), NoAWS: p.seen.NoAWS, Failed: len(p.failed) > 0, Cluster: p.seen.Cluster, Jobs: p.seen.Jobs, AlsoOurs: p.alsoOurs(), Rolling: p.seen.Rolling}
}

// pass is one pass while it runs: what it saw, and the results of its effects.
type pass struct {
	Sources
	seen    Seen
	answers Answers

	results []Result // in their order
	done    []Done
	failed  []error
}

func newPass(s Sources) *pass {
	return &pass{
		Sources: s,
		seen: Seen{
			Settings: s.Settings,
			Owner:    s.Owner,
			Poll:     s.Poll,
			dir:      s.State,
			Snap:     &capacity.Snapshot{},
		},
	}
}

func (p *pass) fail(err error) {
	if err != nil {
		p.failed = append(p.failed, err)
	}
}

// did notes a change, or an attempted one.
func (p *pass) did(d Done, err error) {
	if err != nil {
		d.Error = err.Error()
		p.fail(fmt.Errorf("%s: %w", d.Do, err))
	}
	p.done = append(p.done, d)
}

// addSlurm copies Slurm's facts into the snapshot.
func (p *pass) addSlurm() {
	p.seen.Snap.TimeMinCollapses, p.seen.Snap.NoRequeue = p.seen.Cluster.TimeMinCollapses, p.seen.Cluster.NoRequeue
	p.seen.Snap.SlurmCluster = p.seen.Cluster.SlurmCluster
	p.seen.Snap.KillWait.Duration = p.seen.Cluster.KillWait
	if uid, err := p.State.OwnerUID(); err == nil && os.Geteuid() == 0 && uid != 0 && uid != p.seen.Cluster.SlurmUID {
		p.problem(capacity.StateFile, fmt.Errorf("%s belongs to user %d, neither root nor SlurmUser, who can change what root writes there: chown -R it back", p.State, uid))
	}
	over := capacity.OverTime(p.seen.Cluster.Partitions, p.seen.Cluster.Ours(p.seen.Snap), p.seen.Cluster.OverTime)
	if p.seen.Snap.Timing.OverTime.Duration = over.Duration(); over.Unlimited {
		p.say(capacity.NoLimitEnds, capacity.Subject{}, "set it to a number of minutes, or take it out",
			"OverTimeLimit=UNLIMITED: no time limit ends a job, so that jobs run on until EC2 takes their nodes")
	}
	p.seen.Snap.Walls = p.seen.Cluster.Walls
	if err := p.seen.Cluster.WallsErr; err != nil {
		p.problem(capacity.AccountingUnanswered, fmt.Errorf("%w; those of before are kept", err))
		p.seen.Snap.Walls = capacity.Walls{Unknown: true}
		if p.seen.Old != nil {
			p.seen.Snap.Walls = p.seen.Old.Walls
		}
	}
	for _, sp := range p.seen.Cluster.Partitions {
		if sp.Default {
			p.seen.Snap.DefaultPartition = sp.Name
		}
		if sp.Unread != "" {
			p.say(capacity.SlurmUnread, capacity.Subject{Partition: sp.Name}, "", "partition %s cannot be read: %s", sp.Name, sp.Unread)
		}
	}
	for _, r := range p.seen.Cluster.Reservations {
		if r.Unread != "" {
			p.say(capacity.SlurmUnread, capacity.Subject{}, "", "Slurm reservation %s cannot be read: %s", r.Name, r.Unread)
		}
	}
	for i := range p.seen.Snap.Former {
		p.addSlots(&p.seen.Snap.Former[i])
	}
	for i := range p.seen.Snap.Partitions {
		part := &p.seen.Snap.Partitions[i]
		found := false
		for _, sp := range p.seen.Cluster.Partitions {
			if sp.Name == part.Name {
				part.MaxTime, part.QOS = sp.MaxTime, sp.QOS
				found = true
			}
		}
		if !found {
			p.say(capacity.NoPartition, capacity.Subject{Partition: part.Name},
				"add it, or take it out of the settings", "Slurm has no partition %s", part.Name)
		}
		p.addSlots(part)
		for _, g := range part.Groups {
			for _, slot := range g.Slots {
				p.sayGone(part.Name, slot.Name)
				if !part.Provider.Configures() {
					p.lacks(part.Provider, g, slot)
				}
			}
		}
	}
}

// sayGone reports nodes of a slot that a Slurm partition lists and Slurm does not show: no job gets them. After one
// pass it may be a restart of slurmctld, so it is a note at first.
func (p *pass) sayGone(partition, slot string) {
	gone := p.seen.Cluster.gone(p.seen.Cluster.SlotNodes(slot))
	if len(gone) == 0 {
		return
	}
	nodes := hostlist.Compress(gone)
	said := capacity.Problemf(capacity.NodesLost, capacity.Subject{Partition: partition, Slot: slot, Node: nodes},
		"restart slurmctld",
		"Slurm no longer shows nodes %s of partition %s, so that no job gets them: they are FUTURE, as `scontrol update state=FUTURE` sets them, and Slurm before 25.05.7 and 25.11.3 by itself",
		nodes, partition)
	said.Severity = capacity.Note
	if p.seen.Old != nil &&
		slices.ContainsFunc(p.seen.Old.All(), func(before capacity.Problem) bool { return before.Text() == said.Text() }) {
		said.Severity = capacity.Admin
	}
	p.seen.Snap.Add(said)
}

// gone returns the nodes that Slurm does not show although it would.
func (c *Cluster) gone(names []string) []string {
	if !c.ShowsPoweredDown {
		return nil
	}
	shown := c.byName()
	var gone []string
	for _, name := range names {
		if _, there := shown[name]; !there {
			gone = append(gone, name)
		}
	}
	return gone
}

// lacks says what slurm.conf lacks for a slot that PCS does not write.
func (p *pass) lacks(provider capacity.Provider, g capacity.NodeGroup, slot capacity.Slot) {
	named := fmt.Sprintf("%s-1, %[1]s-2, …", slot.Name)
	if _, settings, _, ok := p.Settings.PlaceOf(slot.Name + "-1"); !ok || settings.Name != g.Name {
		named = "that its settings list"
	}
	fix := "run `pcs-capacity hooks install` on its controller"
	if provider.Guest() {
		fix = "list the nodes that `sinfo -N` shows as nodes of the node group in the settings"
	}
	switch {
	case slot.Nodes == "":
		p.say(capacity.NoNodes, capacity.Subject{Slot: slot.Name}, fix, "Slurm has no nodes %s for node group %s",
			named, g.Name)
	case len(g.Slots) > 1 && slot.Feature == "" && len(p.seen.Cluster.shown(p.seen.Cluster.SlotNodes(slot.Name))) > 0:
		p.say(capacity.FeatureMissing, capacity.Subject{Slot: slot.Name, Node: slot.Nodes}, "add it",
			"nodes %s lack Features=%s in slurm.conf, so that jobs cannot be kept in the slot of their reservation",
			slot.Nodes, slot.Name)
	}
}

// addSlots copies Slurm's facts about a partition's slots.
func (p *pass) addSlots(part *capacity.Partition) {
	for g := range part.Groups {
		for s := range part.Groups[g].Slots {
			slot := &part.Groups[g].Slots[s]
			nodes := p.seen.Cluster.SlotNodes(slot.Name)
			slot.Nodes = hostlist.Compress(nodes)
			slot.Feature = p.seen.Cluster.feature(slot.Name, nodes)
			slot.Count = len(nodes)
			slot.Out = p.seen.Cluster.out(nodes)
			gpus, cpus := p.seen.Cluster.parts(nodes)
			part.Groups[g].GPUs, part.Groups[g].CPUs = max(part.Groups[g].GPUs, gpus), max(part.Groups[g].CPUs, cpus)
		}
	}
}

// keepSlurm copies Slurm's facts from the old snapshot into one for which Slurm did not answer.
func keepSlurm(snap, old *capacity.Snapshot) {
	if old == nil {
		return
	}
	snap.DefaultPartition, snap.TimeMinCollapses, snap.Walls, snap.KillWait, snap.NoRequeue = old.DefaultPartition, old.TimeMinCollapses, old.Walls, old.KillWait, old.NoRequeue
	snap.SlurmCluster = old.SlurmCluster
	snap.Timing.OverTime = old.Timing.OverTime
	slots, groups := map[string]capacity.Slot{}, map[string]capacity.NodeGroup{}
	for _, p := range old.Partitions {
		for _, g := range p.Groups {
			groups[g.Name] = g
			for _, s := range g.Slots {
				slots[s.Name] = s
			}
		}
	}
	for i := range snap.Partitions {
		p := &snap.Partitions[i]
		if before, ok := old.Partition(p.Name); ok {
			p.MaxTime, p.QOS = before.MaxTime, before.QOS
		}
		for g := range p.Groups {
			was := groups[p.Groups[g].Name]
			p.Groups[g].GPUs, p.Groups[g].CPUs = was.GPUs, was.CPUs
			for s := range p.Groups[g].Slots {
				slot := &p.Groups[g].Slots[s]
				before := slots[slot.Name]
				slot.Nodes, slot.Count, slot.Feature, slot.Out = before.Nodes, before.Count, before.Feature, before.Out
			}
		}
	}
}

// lockCode is the code for a lock that could not be taken.
func lockCode(err error) capacity.Code {
	if errors.As(err, new(*state.LockedError)) {
		return capacity.AnotherRuns
	}
	return capacity.StateFile
}

// problem notes a failure that does not stop the pass and that an administrator should look at.
func (p *pass) problem(code capacity.Code, err error) {
	p.say(code, capacity.Subject{}, "", "%v", err)
}

// say notes what people should know; the code says who has to act.
func (p *pass) say(code capacity.Code, about capacity.Subject, fix, format string, args ...any) {
	p.seen.Snap.Add(capacity.Problemf(code, about, fix, format, args...))
}
