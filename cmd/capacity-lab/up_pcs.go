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

	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/slurmlab"
)

// startPCS starts a Slurm that follows the simulated PCS cluster: the first of the home region.
func (l *lab) startPCS(ctx context.Context) error {
	p := &pcsPlayer{sim: l.sim, region: l.region(), log: l.log}
	cluster, ok := p.cluster()
	if !ok {
		return errors.New("the scenario's region " + p.region + " has no PCS cluster")
	}

	if err := l.writeProductConfig(cluster.Name); err != nil {
		return err
	}

	prologs, err := l.prologs()
	if err != nil {
		return err
	}

	p.name, p.static = cluster.Name, staticGroup(cluster)
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.base = slurmlab.Config{Dir: l.Dir, CLIFilterLua: l.cliFilter(), ResumeTimeout: 60 * time.Second, Extra: prologs}
	l.pcs = p
	p.config = p.configOf(cluster)
	p.reloading.Lock()
	l.cluster, err = slurmlab.Start(ctx, p.powered(p.config))
	p.slurm = l.cluster
	p.reloading.Unlock()

	if err != nil {
		return err
	}

	l.bootNodes()
	p.done.Go(p.follow)

	return nil
}

// powered returns a configuration whose nodes the player powers up and down. Functions cannot be compared.
func (p *pcsPlayer) powered(config slurmlab.Config) slurmlab.Config {
	config.Resume = p.resume
	config.Suspend = p.suspend
	return config
}

// staticGroup names the node group that becomes the static nodes, which need no instance, so that jobs which nothing of
// ours manages have a place: the first one that the scenario launches on demand, into no reservation.
func staticGroup(cluster awssim.PCSCluster) string {
	for _, group := range cluster.NodeGroups {
		if group.PurchaseOption == "ONDEMAND" && group.ReservationID == "" && group.ReservationGroup == "" {
			return group.Name
		}
	}

	return ""
}

// configOf turns node groups, queues and settings into nodes, partitions and lines of slurm.conf.
func (p *pcsPlayer) configOf(cluster awssim.PCSCluster) slurmlab.Config {
	c := p.base

	c.SuspendTime = cluster.IdleTime
	c.Partitions = map[string]string{}
	queues := map[string][]string{} // by node group
	for _, queue := range cluster.Queues {
		if inSlurm(queue.Status) || queue.Status == "CREATING" { // jobs can be submitted as soon as it is ACTIVE
			c.Partitions[queue.Name] = options(queue.Settings)
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
		if group.Name == p.static {
			c.Static = nodes
		} else {
			c.CloudGroups = append(c.CloudGroups, nodes)
		}
	}

	settings := map[string]string{}
	for _, line := range c.Extra { // the cluster's own come first
		key, value, _ := strings.Cut(line, "=")
		settings[key] = value
	}

	maps.Copy(settings, cluster.Settings)
	delete(settings, "CliFilterPlugins") // the lab sets it with the script
	c.Extra = lines(settings)

	return c
}

// inSlurm reports whether PCS shows Slurm a node group or queue in this status.
func inSlurm(status string) bool { return status == "ACTIVE" || status == "UPDATING" }

// nodesOf makes nodes GROUP-1 to GROUP-MAX; the name of the group is a feature
// of theirs, as on PCS. A group of a fixed size is static: its nodes stay up.
func nodesOf(group awssim.PCSNodeGroup) slurmlab.NodeGroup {
	nodes := slurmlab.NodeGroup{
		Prefix:   group.Name + "-",
		Count:    group.Max,
		CPUs:     group.VCPUs,
		MemoryMB: int(group.MemoryMiB),
		GPUs:     group.GPUs,
		Features: group.Name,
		AlwaysOn: group.Min > 0 && group.Min == group.Max,
	}
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

func options(settings map[string]string) string { return strings.Join(lines(settings), " ") }

func lines(settings map[string]string) (all []string) {
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		all = append(all, key+"="+settings[key])
	}
	return all
}

// groupOf returns the node group of a node: names are GROUP-N.
func groupOf(node string) string {
	i := strings.LastIndexByte(node, '-')
	return node[:max(i, 0)]
}

// isScheduled reports whether the group waits for its reservation to begin.
func isScheduled(group awssim.PCSNodeGroup) bool {
	return slices.Contains([]string{"scheduled", "payment-pending", "pending"}, group.ReservationState)
}

// launchFailure returns the reason that PCS gives to a node: AWS PCS User Guide, "Capacity Blocks FAQ".
func launchFailure(err error) string {
	code := "InternalError"

	var api *awssim.APIError
	if errors.As(err, &api) {
		code = api.Code
	}

	return fmt.Sprintf("Failed to launch backing instance (Error Code: %s)", code)
}
