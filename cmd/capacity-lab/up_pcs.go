package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
)

// startPCS starts a Slurm that follows the simulated PCS cluster.
func (l *lab) startPCS(ctx context.Context) error {
	cluster, err := l.pcsCluster()
	if err != nil {
		return err
	}
	if err := l.writeProductConfig(cluster.Name); err != nil {
		return err
	}
	prologs, err := l.prologs()
	if err != nil {
		return err
	}
	p := &pcsPlayer{sim: l.sim, region: cluster.Region, name: cluster.Name, static: staticGroup(cluster), log: l.log}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.base = slurmlab.Config{Dir: l.Dir, CLIFilterLua: l.cliFilter(),
		ResumeTimeout: 60 * time.Second, Resume: p.resume, Suspend: p.suspend, Extra: prologs}
	l.pcs = p
	p.layout = layoutOf(cluster, p.static)
	p.reloading.Lock()
	l.cluster, err = slurmlab.Start(ctx, p.layout.apply(p.base))
	p.slurm = l.cluster
	p.reloading.Unlock()
	if err != nil {
		return err
	}
	l.bootNodes()
	p.done.Go(p.follow)
	return nil
}

// pcsCluster is the cluster that the lab plays: the first of the home region.
func (l *lab) pcsCluster() (awssim.PCSCluster, error) {
	for _, cluster := range l.sim.PCSClusters() {
		if cluster.Region == l.region() {
			return cluster, nil
		}
	}
	return awssim.PCSCluster{}, errors.New("the scenario's region " + l.region() + " has no PCS cluster")
}

// layout is the slurm.conf of a PCS cluster.
type layout struct {
	static      slurmlab.NodeGroup
	groups      []slurmlab.NodeGroup
	partitions  map[string]string
	extra       []string
	suspendTime time.Duration
}

func (y layout) apply(config slurmlab.Config) slurmlab.Config {
	config.Static, config.CloudGroups, config.Partitions = y.static, y.groups, y.partitions
	config.SuspendTime = y.suspendTime
	config.Extra = slices.DeleteFunc(slices.Clone(config.Extra), func(line string) bool { // the cluster's own settings come first
		return slices.ContainsFunc(y.extra, func(own string) bool { return key(own) == key(line) })
	})
	config.Extra = append(config.Extra, y.extra...)
	return config
}

// key is the setting that a line of slurm.conf is about.
func key(line string) string {
	name, _, _ := strings.Cut(line, "=")
	return strings.ToLower(name)
}

// staticGroup names the node group that becomes the static nodes, which need no instance, so that jobs which nothing of
// ours manages have a place: the first one that the scenario launches on demand.
func staticGroup(cluster awssim.PCSCluster) string {
	for _, group := range cluster.NodeGroups {
		if group.PurchaseOption == "ONDEMAND" && group.ReservationID == "" {
			return group.Name
		}
	}
	return ""
}

// layoutOf turns node groups and queues into nodes and partitions.
func layoutOf(cluster awssim.PCSCluster, static string) layout {
	y := layout{suspendTime: cluster.IdleTime, partitions: map[string]string{}}
	queues := map[string][]string{} // by node group
	for _, queue := range cluster.Queues {
		if inSlurm(queue.Status) || queue.Status == "CREATING" { // jobs can be submitted as soon as it is ACTIVE
			y.partitions[queue.Name] = options(queue.Settings)
			for _, name := range queue.NodeGroups {
				queues[name] = append(queues[name], queue.Name)
			}
		}
	}
	for _, group := range cluster.NodeGroups {
		if !inSlurm(group.Status) || group.Max == 0 {
			continue
		}
		nodes := nodesOf(group)
		nodes.Partition = strings.Join(queues[group.Name], ",")
		if group.Name == static {
			y.static = nodes
		} else {
			y.groups = append(y.groups, nodes)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(cluster.Settings)) {
		if key != "CliFilterPlugins" { // the lab sets it with the script
			y.extra = append(y.extra, key+"="+cluster.Settings[key])
		}
	}
	return y
}

// inSlurm tells whether PCS shows Slurm a node group or queue in this status.
func inSlurm(status string) bool { return status == "ACTIVE" || status == "UPDATING" }

// nodesOf makes nodes GROUP-1 to GROUP-MAX; the name of the group is a feature
// of theirs, as on PCS. A group of a fixed size is static: its nodes stay up.
func nodesOf(group awssim.PCSNodeGroup) slurmlab.NodeGroup {
	nodes := slurmlab.NodeGroup{Prefix: group.Name + "-", Count: group.Max, CPUs: group.VCPUs, MemoryMB: int(
		group.MemoryMiB), GPUs: group.GPUs, Features: group.Name, AlwaysOn: group.Min > 0 && group.Min == group.Max}
	if group.GPUs > 0 {
		nodes.Features += ",gpu"
	}
	settings := map[string]string{}
	for key, value := range group.Settings {
		switch key {
		case "Features":
			nodes.Features += "," + value
		case "RealMemory":
			nodes.MemoryMB, _ = strconv.Atoi(value)
		default:
			settings[key] = value
		}
	}
	nodes.Options = options(settings)
	return nodes
}

func options(settings map[string]string) string {
	var words []string
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		words = append(words, key+"="+settings[key])
	}
	return strings.Join(words, " ")
}

// groupOf is the node group of a node: names are GROUP-N.
func groupOf(node string) string {
	i := strings.LastIndexByte(node, '-')
	return node[:max(i, 0)]
}

// notYetOpen tells whether the group waits for its reservation to begin.
func notYetOpen(group awssim.PCSNodeGroup) bool {
	return slices.Contains([]string{"scheduled", "payment-pending", "pending"}, group.ReservationState)
}

// launchFailure is the reason that PCS gives to a node: AWS PCS User Guide, "Capacity Blocks FAQ".
func launchFailure(err error) string {
	code := "InternalError"
	var api *awssim.APIError
	if errors.As(err, &api) {
		code = api.Code
	}
	return fmt.Sprintf("Failed to launch backing instance (Error Code: %s)", code)
}
