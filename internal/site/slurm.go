package site

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// askSlurm asks slurmctld for its settings, with the programs that every command takes.
func (r *run) askSlurm(ctx context.Context) {
	cfg, err := r.Slurm.Config(ctx)
	if err != nil {
		r.slurmErr = err
		return
	}
	r.slurmConfig = &cfg
}

// slurm makes the checks of Slurm's commands, daemon and settings.
func (r *run) slurm(ctx context.Context) {
	commands, err := r.Slurm.Version(ctx)
	if err != nil {
		r.fail("slurm", commandsFix(err), "Slurm's commands do not run here: %s", err)
		return
	}
	r.versions(commands)
	if r.slurmConfig == nil {
		r.silent()
		return
	}
	r.ok("slurmctld", "cluster %s answers, with Slurm %s", r.slurmConfig.ClusterName, r.slurmConfig.Version)
	r.rights(ctx)
	var all sync.WaitGroup
	var noPartitions, noNodes error
	all.Go(func() { r.partitions, noPartitions = r.Slurm.Partitions(ctx) })
	all.Go(func() { r.nodes, noNodes = r.Slurm.Nodes(ctx) })
	all.Wait()
	if err := cmp.Or(noPartitions, noNodes); err != nil {
		r.fail("partition", "run this again", "Slurm does not list its partitions and nodes: %s", err)
		return
	}
	for _, judge := range ofSlurm {
		judge(r)
	}
	if r.onEC2() {
		r.hookPrograms(ctx)
	}
}

// ofSlurm judge what Slurm says of itself, each by itself.
var ofSlurm = []func(*run){(*run).softLimits, (*run).overTime, (*run).staticNodes, (*run).powerSettings, (*run).shortWaits,
	(*run).astray, (*run).parallelClusterFences, (*run).ourPartitions}

// commandsFix is the remedy where scontrol does not run.
func commandsFix(err error) string {
	switch text := err.Error(); {
	case errors.Is(err, exec.ErrNotFound):
		return "install Slurm's commands here, or put their folder into PATH"
	case strings.Contains(text, "cannot stat file"), strings.Contains(text, "establish a configuration source"):
		return "put slurm.conf there, or name it with SLURM_CONF; on a configless host see that sackd or slurmd runs"
	}
	return "run `scontrol --version` here and mend what it says, such as a library that is not found"
}

// softLimits looks for settings that let jobs start through a fence.
func (r *run) softLimits() {
	if r.slurmConfig.Version.TimeMinCollapses() {
		r.warn("time-min", "keep `pcs-capacity sync --watch` running, or use Slurm 25.05.3 or newer",
			"Slurm %s cuts jobs to their --time-min while a fence is in the future; sync raises the limits that it chose itself, not those that users state", r.slurmConfig.Version)
	}
	if r.slurmConfig.CrossesFences() {
		r.warn("fences", "take time_min_as_soft_limit out of SchedulerParameters, or keep `pcs-capacity sync --watch` running: it lowers limits that cross a fence",
			"SchedulerParameters has time_min_as_soft_limit: Slurm starts a job with --time-min through a fence, and without sync the job runs into the end of the block")
	}
}

// overTime looks for settings that let jobs run over their limits.
func (r *run) overTime() {
	var ours []string
	for _, p := range r.settings.Partitions {
		ours = append(ours, p.Name)
	}
	switch over := capacity.OverTime(r.partitions, ours, r.slurmConfig.OverTime); {
	case over.Unlimited:
		r.fail("fences", "set it to a number of minutes, or take it out",
			"OverTimeLimit=UNLIMITED: no time limit ends a job, so that jobs run on until EC2 takes their nodes")
	case over.Minutes > 0:
		r.warn("fences", "take OverTimeLimit out, and jobs use blocks for that much longer",
			"OverTimeLimit lets jobs run %d minutes over their limits, so that fences are that much earlier", over.Minutes)
	}
}

// versions compares the programs that every command takes with the cluster.
func (r *run) versions(commands slurm.Version) {
	want, of := "", "the cluster"
	switch {
	case r.slurmConfig != nil:
		of = "slurmctld"
		want = r.slurmConfig.Version.Release()
	case r.Cluster.SlurmVersion != "":
		want = r.Cluster.SlurmVersion
	default:
		return
	}
	if commands.Release() == want {
		r.ok("slurm-version", "Slurm's commands here are %s, as %s", commands, of)
		return
	}
	r.fail("slurm-version", "install Slurm "+want+" here, or put it first into PATH", "Slurm's commands here are %s, the cluster has %s", commands, want)
}

// hookPrograms looks for Slurm's programs in the way of slurmctld's hooks.
func (r *run) hookPrograms(ctx context.Context) {
	const fix = "run `pcs-capacity hooks install settings` here, with that Slurm's folder first in PATH: it writes the folder down"
	conf := r.slurmConfig.ConfPath
	if _, err := os.Stat(conf); err != nil {
		return // slurmctld runs on another host
	}
	folder, err := slurm.HookFolder(conf, slurm.Daemon())
	if err != nil {
		r.fail("slurm-hooks", fix, "slurmctld starts its programs without a PATH, and they would not find Slurm's commands: %s", err)
		return
	}
	found, err := (&slurm.Client{Dir: folder}).Version(ctx)
	switch {
	case err != nil:
		r.fail("slurm-hooks", fix, "what slurmctld starts takes Slurm's commands from %s, and they do not run: %s", folder, err)
	case found.Release() != r.slurmConfig.Version.Release():
		r.fail("slurm-hooks", fix, "what slurmctld starts takes Slurm's commands from %s, which are %s; slurmctld is %s", folder, found, r.slurmConfig.Version)
	default:
		r.ok("slurm-hooks", "what slurmctld starts takes Slurm's commands from %s", folder)
	}
}

// noReservation is the name of a Slurm reservation that does not exist.
const noReservation = "pcs-capacity-check"

// silent reports a slurmctld that does not answer.
func (r *run) silent() {
	fix := "see `systemctl status slurmctld` and its log on the controller, or run this on a host where `scontrol ping` answers"
	if r.onPCS() || r.Cluster.ID != "" {
		fix = "run this on a login node of the cluster, where sackd runs and port 6817 of the cluster is open"
	}
	r.lacks("slurmctld", fix, "slurmctld does not answer here, so no fence can be placed: %s", r.slurmErr)
}

// rights asks slurmctld to delete a reservation that does not exist: slurmctld tells that only to
// users who may delete one.
func (r *run) rights(ctx context.Context) {
	err := r.Slurm.DeleteReservation(ctx, noReservation)
	switch {
	case errors.Is(err, slurm.ErrNoReserve):
		r.ok(string(capacity.SlurmRights), "this user may place reservations")
	case errors.Is(err, slurm.ErrDenied):
		r.lacks(capacity.SlurmRights, "run this as root or SlurmUser, or give this user AdminLevel=Operator with sacctmgr", "this user may place no reservations in Slurm, and so no fences")
	case err != nil:
		r.warn(string(capacity.SlurmRights), "run this again", "whether this user may place reservations is not known: %s", err)
	}
}

// ourPartitions looks for the managed partitions, and for the locks of allow_accounts.
func (r *run) ourPartitions() {
	there := r.partitions
	unchecked := false
	for _, p := range capacity.Build(r.settings, capacity.Seen{}).Partitions {
		at := slices.IndexFunc(there, func(one capacity.SlurmPartition) bool { return one.Name == p.Name })
		if at < 0 {
			fix := "add it with `pcs-capacity hooks install`, or take it out of the settings"
			switch {
			case p.Provider.Configures():
				fix = "run `pcs-capacity setup` for it, or take it out of the settings"
			case p.Provider.Guest():
				fix = "write the name that Slurm has, or take it out of the settings"
			}
			r.problem("partition", Fail, capacity.Problemf(capacity.NoPartition, capacity.Subject{Partition: p.Name}, fix, "Slurm has no partition %s", p.Name))
			continue
		}
		good := true
		for _, m := range capacity.Unlocked(p, there[at].AllowAccounts, r.slurmConfig.Accounting()) {
			if good = false; m.Code == capacity.AccountsUnchecked && unchecked {
				continue // of the cluster, so reported once
			}
			unchecked = unchecked || m.Code == capacity.AccountsUnchecked
			r.problem("accounts", Fail, m)
		}
		if len(there[at].Nodes) == 0 {
			r.warn("partition", "see `sinfo`, and PrivateData=cloud before Slurm 23.02", "partition %s has no nodes", p.Name)
		} else if good {
			r.ok("partition", "%s has nodes %s", p.Name, slurm.Compress(there[at].Nodes))
		}
	}
}

// astray looks for other partitions that contain nodes of ours, such as one with Nodes=ALL.
func (r *run) astray() {
	for _, p := range r.partitions {
		astray := r.settings.Astray(p.Name, p.Nodes)
		if len(astray) == 0 {
			continue
		}
		left := slices.DeleteFunc(slices.Clone(p.Nodes), func(node string) bool { return slices.Contains(astray, node) })
		fix := fmt.Sprintf("take PartitionName=%s out of slurm.conf, and restart slurmctld", p.Name)
		switch {
		case r.onPCS():
			fix = fmt.Sprintf("take their node groups out of queue %s", p.Name)
		case len(left) > 0:
			fix = fmt.Sprintf("write PartitionName=%s Nodes=%s in slurm.conf, with its other settings, and restart slurmctld", p.Name, slurm.Compress(left))
		}
		what := "partition %s holds %s, which the settings have elsewhere: its jobs run on reserved capacity, and nothing here checks them"
		if p.Default {
			r.fail("partition", fix, what+"; it is the default, for jobs without -p", p.Name, slurm.Compress(astray))
			continue
		}
		r.warn("partition", fix, what, p.Name, slurm.Compress(astray))
	}
}

// staticNodes looks for foreign nodes that Slurm powers down with our program, which cannot power them up again.
func (r *run) staticNodes() {
	if !r.onEC2() || filepath.Base(r.slurmConfig.SuspendProgram) != "pcs-capacity-suspend" || slurm.SiteProgram(r.slurmConfig.ConfPath, "SuspendProgram") != "" {
		return // it calls the site's program for them
	}
	var lost []string
	for _, n := range r.nodes {
		if p, _, _, ours := r.settings.PlaceOf(n.Name); (!ours || p.Provider.Guest()) && !n.Has("CLOUD") && r.slurmConfig.PowersDown(n, r.partitions) {
			lost = append(lost, n.Name)
		}
	}
	if len(lost) == 0 {
		r.ok("static-nodes", "no node of yours is powered down by Slurm")
		return
	}
	list := slurm.Compress(lost)
	r.fail("static-nodes", fmt.Sprintf("run `pcs-capacity hooks install`, which sets SuspendTime for our partitions alone; if slurm.conf sets it itself, add SuspendExcNodes=%s there", list),
		"Slurm powers %s down after SuspendTime, and only nodes of the settings are launched again", list)
}

// shortWaits looks for a srun that gives up before its nodes have booted. That of 22.05 waits by the times of slurm.conf
// itself, not by those of a partition.
func (r *run) shortWaits() {
	c, boot := r.slurmConfig, r.settings.Timing.BootAllowance.Duration
	if waits := 5 * (c.ResumeTimeout + c.SuspendTimeout); r.onEC2() && c.Version.Release() == "22.05" && waits < boot {
		r.warn("srun", fmt.Sprintf("raise ResumeTimeout of slurm.conf, for example to %d, which holds for your other nodes as well; jobs of sbatch need nothing", int((boot/5).Seconds())),
			"srun and salloc of Slurm 22.05 give a job's nodes up after %d s, five times ResumeTimeout and SuspendTimeout of slurm.conf, and nodes may take %s to boot", int(waits.Seconds()), capacity.FormatExact(boot))
	}
}

// powerSettings are those of slurm.conf that self-managed Slurm needs.
func (r *run) powerSettings() {
	if !r.onEC2() {
		return
	}
	c := r.slurmConfig
	const fix = "`pcs-capacity hooks install settings` writes it"
	var names []string
	sleeps := c.SuspendTime > 0
	for _, p := range r.settings.Partitions {
		names = append(names, p.Name)
	}
	for _, p := range r.partitions {
		sleeps = sleeps || slices.Contains(names, p.Name) && p.SuspendTime > 0 && p.SuspendTime != slurm.Never
	}
	boot, has := r.settings.Timing.BootAllowance.Duration, c.ShortestResumeTimeout(r.partitions, names)
	if has < boot {
		r.fail("resume-timeout", fmt.Sprintf("run `pcs-capacity hooks install`, which sets ResumeTimeout=%d for our partitions, or set a smaller boot_allowance", int(max(boot.Seconds(), 900))),
			"Slurm gives a node up after ResumeTimeout, %s, but it may take %s to boot", has, boot)
	} else {
		r.ok("resume-timeout", "%s, at least boot_allowance", has)
	}
	if !slices.Contains(c.SlurmctldParameters, "idle_on_node_suspend") {
		r.warn("slurm.conf", fix, "SlurmctldParameters lacks idle_on_node_suspend, so that nodes that failed stay down")
	}
	if !c.ShowsPoweredDown() {
		r.fail("slurm.conf", fix, "PrivateData lacks cloud, without which Slurm %s hides nodes that are powered down", c.Version)
	}
	if !sleeps {
		r.fail("slurm.conf", fix, "neither slurm.conf nor a partition of ours sets SuspendTime, without which Slurm powers no node up or down")
	}
}
