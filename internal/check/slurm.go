package check

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// checkCommands judges the programs that every command takes, and compares them with the cluster.
func (s survey) checkCommands(f *findings) {
	want := s.Cluster.SlurmVersion
	of := "the cluster"
	if s.Slurmctld != nil {
		want = s.Slurmctld.Version.Release()
		of = "slurmctld"
	}

	switch is, err := s.Commands.Value, s.Commands.Err; {
	case err != nil:
		f.fail("slurm", commandsFix(err), "Slurm's commands do not run here: %s", err)
	case want == "":
	case is.Release() == want:
		f.ok("slurm-version", "Slurm's commands here are %s, the same as %s", is, of)
	default:
		f.fail("slurm-version", "install Slurm "+want+" here, or put it first into PATH",
			"Slurm's commands here are %s, the cluster has %s", is, want)
	}
}

// commandsFix returns the remedy where scontrol does not run.
func commandsFix(err error) string {
	switch text := err.Error(); {
	case slurm.IsMissing(err):
		return "install Slurm's commands here, or put their folder into PATH"
	case strings.Contains(text, "cannot stat file"), strings.Contains(text, "establish a configuration source"):
		return "put slurm.conf there, or name it with SLURM_CONF; on a configless host make sure that sackd or " +
			"slurmd runs"
	}

	return "run `scontrol --version` here and fix what it says, such as a library that is not found"
}

// checkSoftLimits looks for settings that let jobs start through a fence.
func (s survey) checkSoftLimits(f *findings) {
	if s.Slurmctld.Version.TimeMinCollapses() {
		f.warn("time-min", "keep `pcs-capacity sync --watch` running, or use Slurm 25.05.3 or newer",
			"Slurm %s cuts jobs to their --time-min while a fence is in the future; sync raises the limits that it "+
				"chose itself, not those that users state",
			s.Slurmctld.Version)
	}

	if s.Slurmctld.CrossesFences() {
		f.warn("fences",
			"remove time_min_as_soft_limit from SchedulerParameters, or keep `pcs-capacity sync --watch` running: "+
				"it lowers limits that cross a fence",
			"SchedulerParameters has time_min_as_soft_limit: Slurm starts a job with --time-min through a fence, "+
				"and without sync the job runs into the end of the block")
	}
}

// checkReservedJobs looks for reservations of the site whose jobs heed no fence.
func (s survey) checkReservedJobs(f *findings) {
	past := capacity.FindFenceBypasses(s.Guards.Value)
	for _, name := range slices.Sorted(maps.Keys(past)) {
		f.problem("fences", capacity.Note, capacity.FenceBypassProblem(name, past[name].ShiftTimes(s.Offset)))
	}
}

// checkOverTime looks for settings that let jobs run over their limits.
func (s survey) checkOverTime(f *findings) {
	switch over := capacity.MaxOverTime(s.Partitions.Value, s.Settings.SlurmNames(), s.Slurmctld.OverTime); {
	case over.Unlimited:
		f.fail("fences", "set it to a number of minutes, or remove it",
			"OverTimeLimit=UNLIMITED: no time limit ends a job, so jobs run until EC2 takes their nodes")
	case over.Minutes > 0:
		f.warn("fences", "remove OverTimeLimit, and jobs use blocks for that much longer",
			"OverTimeLimit lets jobs run %d minutes over their limits, so that fences are that much earlier",
			over.Minutes)
	}
}

// checkHookCommands looks for Slurm's programs in the way of slurmctld's hooks.
func (s survey) checkHookCommands(f *findings) {
	const fix = "run `pcs-capacity hooks install settings` here, with that Slurm's folder first in PATH: it writes " +
		"the folder down"

	folder := s.HookFolder
	found := s.HookCommands.Value
	err := s.HookCommands.Err
	switch {
	case !s.Controller: // slurmctld runs on another host
	case err != nil:
		f.fail("slurm-hooks", fix,
			"programs started by slurmctld have no PATH and cannot find Slurm's commands: %s", err)
	case found.Release() != s.Slurmctld.Version.Release():
		f.fail("slurm-hooks", fix,
			"programs started by slurmctld run Slurm's commands from %s, which are %s; slurmctld is %s", folder, found,
			s.Slurmctld.Version)
	default:
		f.ok("slurm-hooks", "programs started by slurmctld run Slurm's commands from %s", folder)
	}
}

// checkSlurmctld judges whether slurmctld answers.
func (s survey) checkSlurmctld(f *findings) {
	if c := s.Slurmctld; c != nil {
		f.ok("slurmctld", "cluster %s answers, with Slurm %s", c.ClusterName, c.Version)
		return
	}

	fix := "see `systemctl status slurmctld` and its log on the controller, or run this on a host where `scontrol " +
		"ping` answers"
	if s.UsesPCS() || s.Cluster.ID != "" {
		fix = "run this on a login node of the cluster, where sackd runs and port 6817 of the cluster is open"
	}

	f.problem("slurmctld", capacity.Admin, capacity.Problemf(capacity.SlurmctldSilent, capacity.Subject{}, fix,
		"slurmctld does not answer here, so no fence can be placed: %s", s.SlurmErr))
}

func (s survey) listErr() error { return cmp.Or(s.Partitions.Err, s.Nodes.Err, s.Guards.Err) }

// checkListing judges whether slurmctld tells what it has.
func (s survey) checkListing(f *findings) {
	if err := s.listErr(); err != nil {
		f.fail("partition", "run this again", "Slurm does not list its partitions, nodes and reservations: %s", err)
	}
}

// checkRights judges whether this user may place fences.
func (s survey) checkRights(f *findings) {
	switch err := s.Rights; {
	case err == nil && s.Slurmctld != nil:
		f.ok(string(capacity.SlurmRights), "this user may create reservations in Slurm")
	case errors.Is(err, slurm.ErrDenied):
		f.fail(string(capacity.SlurmRights),
			"run this as root or SlurmUser, or give this user AdminLevel=Operator with sacctmgr",
			"this user may not create reservations in Slurm, and so no fences")
	case err != nil:
		f.warn(string(capacity.SlurmRights), "run this again",
			"could not determine whether this user may create reservations in Slurm: %s", err)
	}
}

// checkPartitions looks for the managed partitions, and for the locks of allow_accounts.
func (s survey) checkPartitions(f *findings) {
	there := s.Partitions.Value
	for _, p := range capacity.Build(s.Settings, capacity.Facts{}).Partitions {
		at := findPartition(there, p.Name)
		if at < 0 {
			f.noPartition(p.Name, p.Provider)
			continue
		}

		if p.Spare.Name != "" {
			s.checkSpare(f, p, there[at])
		}

		good := true
		for _, m := range capacity.CheckAccounts(p, there[at].AllowAccounts, s.Slurmctld.Accounting()) {
			good = false

			f.problem("accounts", capacity.Admin, m)
		}

		if len(there[at].Nodes) == 0 {
			f.warn("partition", "see `sinfo`, and PrivateData=cloud before Slurm 23.02",
				"partition %s has no nodes", p.Name)
		} else if good {
			f.ok("partition", "%s has nodes %s", p.Name, hostlist.Compress(there[at].Nodes))
		}
	}
}

func findPartition(there []capacity.SlurmPartition, name string) int {
	return slices.IndexFunc(there, func(one capacity.SlurmPartition) bool { return one.Name == name })
}

// noPartition says how Slurm gets a partition of the settings that it does not have.
func (f *findings) noPartition(name string, provider capacity.Provider) {
	fix := "add it with `pcs-capacity hooks install`, or remove it from the settings"
	switch {
	case provider.Configures():
		fix = "run `pcs-capacity setup` for it, or remove it from the settings"
	case provider.IsGuest():
		fix = "write the name that Slurm has, or remove it from the settings"
	}

	f.problem("partition", capacity.Admin, capacity.Problemf(capacity.NoPartition,
		capacity.Subject{Partition: name}, fix, "Slurm has no partition %s", name))
}

// checkSpare looks for what keeps jobs of a partition from getting the nodes back that it lends.
func (s survey) checkSpare(f *findings, p capacity.Partition, lender capacity.SlurmPartition) {
	at := findPartition(s.Partitions.Value, p.Spare.Name)
	if at < 0 {
		f.noPartition(p.Spare.Name, p.Provider)
		return
	}

	const check = "spare"

	preemption := s.Slurmctld.Preemption

	wrong := capacity.CheckSpare(lender, s.Partitions.Value[at], preemption)
	for _, m := range wrong {
		f.problem(check, capacity.Admin, m)
	}

	if exempt := preemption.ExemptTime; exempt > 0 {
		f.warn(check, "remove PreemptExemptTime, or make it shorter",
			"PreemptExemptTime: jobs of partition %s keep their nodes for %s after their start, whatever jobs of "+
				"partition %s wait for", p.Spare.Name, capacity.FormatExact(exempt), p.Name)
	}

	if len(wrong) == 0 {
		f.ok(check, "jobs of partition %s get nodes back from jobs of partition %s within %s (GraceTime, KillWait)",
			p.Name, p.Spare.Name, capacity.FormatExact(s.Partitions.Value[at].GraceTime+s.Slurmctld.KillWait))
	}
}

// checkAstray looks for other partitions that contain nodes of ours, such as one with Nodes=ALL.
func (s survey) checkAstray(f *findings) {
	for _, p := range s.Partitions.Value {
		astray := s.Settings.StrayNodes(p.Name, p.Nodes)
		if len(astray) == 0 {
			continue
		}

		left := slices.DeleteFunc(slices.Clone(p.Nodes),
			func(node string) bool { return slices.Contains(astray, node) })
		fix := fmt.Sprintf("remove PartitionName=%s from slurm.conf, and restart slurmctld", p.Name)
		switch {
		case s.UsesPCS():
			fix = fmt.Sprintf("remove their node groups from queue %s", p.Name)
		case len(left) > 0:
			fix = fmt.Sprintf(
				"write PartitionName=%s Nodes=%s in slurm.conf, with its other settings, and restart slurmctld", p.Name,
				hostlist.Compress(left))
		}

		what := "partition %s contains %s, which the settings have in another partition: its jobs run on reserved " +
			"capacity unchecked"
		if p.Default {
			f.fail("partition", fix, what+"; it is the default, for jobs without -p", p.Name, hostlist.Compress(astray))
			continue
		}

		f.warn("partition", fix, what, p.Name, hostlist.Compress(astray))
	}
}

// checkStaticNodes looks for foreign nodes that Slurm powers down with our program, which cannot power them up again.
func (s survey) checkStaticNodes(f *findings) {
	if !s.UsesEC2() || filepath.Base(s.Slurmctld.SuspendProgram) != "pcs-capacity-suspend" || s.SiteSuspends {
		return // it calls the site's program for them
	}

	var lost []string
	for _, n := range s.Nodes.Value {
		if p, _, _, ours := s.Settings.FindNode(n.Name); (!ours || p.Provider.IsGuest()) && !n.HasFlag("CLOUD") &&
			s.Slurmctld.PowersDown(n, s.Partitions.Value) {
			lost = append(lost, n.Name)
		}
	}

	if len(lost) == 0 {
		f.ok("static-nodes", "Slurm powers down none of your nodes")
		return
	}

	list := hostlist.Compress(lost)
	f.fail(
		"static-nodes",
		fmt.Sprintf(
			"run `pcs-capacity hooks install`, which sets SuspendTime for our partitions alone; if slurm.conf sets "+
				"it itself, add SuspendExcNodes=%s there",
			list),
		"Slurm powers %s down after SuspendTime, and only nodes of the settings are launched again",
		list,
	)
}

// checkSrunWait looks for a srun that gives up before its nodes have booted. That of 22.05 waits by the times of
// slurm.conf itself, not by those of a partition.
func (s survey) checkSrunWait(f *findings) {
	c := s.Slurmctld
	boot := s.Settings.Timing.BootAllowance.Duration
	if waits := 5 * (c.ResumeTimeout + c.SuspendTimeout); s.UsesEC2() && c.Version.Release() == "22.05" && waits < boot {
		f.warn(
			"srun",
			fmt.Sprintf(
				"raise ResumeTimeout of slurm.conf, for example to %d, which holds for your other nodes as well; "+
					"jobs of sbatch are not affected",
				int((boot/5).Seconds())),
			"srun and salloc of Slurm 22.05 give up on a job's nodes after %d s, five times ResumeTimeout and "+
				"SuspendTimeout of slurm.conf, and nodes may take %s to boot",
			int(waits.Seconds()),
			capacity.FormatExact(boot),
		)
	}
}

// checkPowerSettings checks the lines of slurm.conf that self-managed Slurm needs.
func (s survey) checkPowerSettings(f *findings) {
	if !s.UsesEC2() {
		return
	}

	c := s.Slurmctld

	const fix = "`pcs-capacity hooks install settings` writes it"

	names := s.Settings.SlurmNames()
	sleeps := c.SuspendTime > 0

	for _, p := range s.Partitions.Value {
		sleeps = sleeps || slices.Contains(names, p.Name) && p.SuspendTime > 0 && p.SuspendTime != slurm.Never
	}

	boot := s.Settings.Timing.BootAllowance.Duration
	has := c.ShortestResumeTimeout(s.Partitions.Value, names)
	if has < boot {
		f.fail(
			"resume-timeout",
			fmt.Sprintf(
				"run `pcs-capacity hooks install`, which sets ResumeTimeout=%d for our partitions, or set a smaller "+
					"boot_allowance",
				int(max(boot.Seconds(), 900))),
			"Slurm gives up on a node after ResumeTimeout, %s, but it may take %s to boot",
			capacity.FormatExact(has),
			capacity.FormatExact(boot),
		)
	} else {
		f.ok("resume-timeout", "%s, at least boot_allowance", capacity.FormatExact(has))
	}

	if !slices.Contains(c.SlurmctldParameters, "idle_on_node_suspend") {
		f.warn("slurm.conf", fix, "SlurmctldParameters lacks idle_on_node_suspend, so that nodes that failed stay down")
	}

	if !c.ShowsPoweredDown() {
		f.fail("slurm.conf", fix,
			"PrivateData lacks cloud, without which Slurm %s hides nodes that are powered down", c.Version)
	}

	if !sleeps {
		f.fail("slurm.conf", fix, "neither slurm.conf nor a partition of ours sets SuspendTime, without which Slurm "+
			"powers no node up or down")
	}
}
