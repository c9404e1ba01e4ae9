package main

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/slurmlab"
)

// pcsPlayer plays PCS's part for one cluster: it owns slurm.conf and follows the node groups and queues of the
// simulator, launches the nodes that Slurm asks for, keeps the nodes of static groups up, and holds a reservation over
// the nodes of a block that is not open yet.
type pcsPlayer struct {
	sim    *awssim.Sim
	slurm  *slurmlab.Cluster
	region string
	name   string // of the PCS cluster; "" for the first
	static string // the node group whose nodes need no instance
	base   slurmlab.Config
	log    *slog.Logger

	ctx    context.Context
	cancel context.CancelFunc
	done   sync.WaitGroup

	reloading sync.RWMutex // held for writing while slurmctld is away
	config    slurmlab.Config

	// Of the goroutine of follow alone.
	held     map[string]string    // the nodes under a reservation, by node group
	powerUp  map[string]time.Time // node to the last attempt to power it up
	replaced map[string]string    // node to the instance that was asked to go
}

// Times of PCS that AWS does not document; short, so that a rehearsal is.
const (
	playerPoll  = time.Second
	launchRetry = 10 * time.Second // between attempts to launch a static node
)

func (p *pcsPlayer) stop() {
	p.cancel()
	p.done.Wait()
}

// follow compares PCS with Slurm until stop: every second, and soon where a group or queue has changed.
func (p *pcsPlayer) follow() {
	p.held = map[string]string{}
	p.powerUp = map[string]time.Time{}
	p.replaced = map[string]string{}

	tick := time.NewTicker(playerPoll / 10)
	defer tick.Stop()

	for n := 0; ; n++ {
		if cluster, ok := p.cluster(); n%10 == 0 || ok && !reflect.DeepEqual(p.configOf(cluster), p.config) {
			if err := p.pass(); err != nil && p.ctx.Err() == nil {
				p.log.Error("playing PCS", "error", err)
			}
		}

		select {
		case <-p.ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (p *pcsPlayer) pass() error {
	cluster, ok := p.cluster()
	if !ok {
		return nil // deleted: Slurm keeps what it has
	}

	if err := p.dropHolds(cluster); err != nil {
		return err
	}

	if err := p.reload(p.configOf(cluster)); err != nil {
		return err
	}

	states, err := p.slurm.NodeStates(p.ctx)
	if err != nil {
		return err
	}
	// Again, now newer than the states: an instance comes before its node is up.
	cluster, ok = p.cluster()
	if !ok {
		return nil
	}

	for _, group := range cluster.NodeGroups {
		if !inSlurm(group.Status) || group.Name == p.static {
			continue
		}

		if isScheduled(group) {
			if err := p.keepHold(group); err != nil {
				return err
			}
			continue
		}

		for i := 1; i <= group.Max; i++ {
			if err := p.passNode(group, fmt.Sprintf("%s-%d", group.Name, i), i, states); err != nil {
				return err
			}
		}
	}

	return nil
}

func (p *pcsPlayer) cluster() (awssim.PCSCluster, bool) {
	for _, cluster := range p.sim.PCSClusters() {
		if cluster.Region == p.region && (p.name == "" || cluster.Name == p.name) {
			return cluster, true
		}
	}

	return awssim.PCSCluster{}, false
}

// reload rewrites slurm.conf when the cluster means another one.
func (p *pcsPlayer) reload(config slurmlab.Config) error {
	if reflect.DeepEqual(config, p.config) {
		return nil
	}

	p.reloading.Lock()
	defer p.reloading.Unlock()

	p.log.Info("node groups or queues have changed: restarting slurmctld")

	if err := p.slurm.Reload(p.ctx, p.powered(config)); err != nil {
		return err
	}

	p.config = config

	return nil
}

// passNode brings one node nearer to what its group wants.
func (p *pcsPlayer) passNode(group awssim.PCSNodeGroup, node string, number int, states map[string]string) error {
	state := states[node]
	instance, backed := group.Instances[node]
	down := strings.Contains(state, "POWERED_DOWN") || strings.Contains(state, "POWERING_DOWN") ||
		strings.Contains(state, "POWER_DOWN")
	switch {
	case state == "":
		return nil // Slurm has not read it yet
	case !backed && !down && !strings.Contains(state, "POWERING_UP") && !strings.Contains(state, "POWER_UP"):
		// EC2 took the instance away. PCS powers the node down; its jobs are requeued.
		return p.update(node, "state=POWER_DOWN_FORCE", "reason=Backing instance terminated")
	case backed && slices.Contains(group.Replace, node) && p.replaced[node] != instance:
		// The node goes when its jobs have ended, and comes back as a new instance.
		p.replaced[node] = instance
		return p.update(node, "state=POWER_DOWN_ASAP", "reason=Node group was updated")
	case strings.HasPrefix(state, "DOWN") && strings.Contains(state, "POWERED_DOWN"):
		return p.update(node, "state=POWER_DOWN_FORCE") // a boot that took too long: usable again
	case number <= group.Min && strings.Contains(state, "POWERED_DOWN") && !strings.Contains(state, "POWER_UP") &&
		(group.ReservationID == "" || group.ReservationState == "active"):
		if time.Since(p.powerUp[node]) < launchRetry {
			return nil
		}

		p.powerUp[node] = time.Now()

		return p.update(node, "state=POWER_UP")
	}

	return nil
}

// update runs scontrol update for one node.
func (p *pcsPlayer) update(node string, settings ...string) error {
	p.log.Info("node", "name", node, "update", settings)
	_, err := p.slurm.Command(p.ctx, "scontrol", append([]string{"update", "nodename=" + node}, settings...)...)
	return err
}

// keepHold keeps the reservation GROUP-scheduled over the nodes of a block that is not open.
func (p *pcsPlayer) keepHold(group awssim.PCSNodeGroup) error {
	if p.held[group.Name] != "" {
		return nil
	}

	nodes := nodesOf(group).Hostlist()

	_, err := p.slurm.Command(
		p.ctx,
		"scontrol",
		"create",
		"reservationname="+group.Name+"-scheduled",
		"starttime=now",
		"duration=infinite",
		"nodes="+nodes,
		"flags=maint",
		"users=root",
	)
	if err == nil {
		p.held[group.Name] = nodes
	}

	return err
}

// dropHolds deletes the reservations of groups whose block has opened, or that are gone or have other nodes.
func (p *pcsPlayer) dropHolds(cluster awssim.PCSCluster) error {
	for name, nodes := range p.held {
		i := slices.IndexFunc(
			cluster.NodeGroups,
			func(g awssim.PCSNodeGroup) bool { return g.Name == name && inSlurm(g.Status) },
		)
		if i >= 0 && isScheduled(cluster.NodeGroups[i]) && nodes == nodesOf(cluster.NodeGroups[i]).Hostlist() {
			continue
		}

		p.log.Info("deleting the reservation of a block that has opened or is gone", "group", name)

		if _, err := p.slurm.Command(p.ctx, "scontrol", "delete", "reservation="+name+"-scheduled"); err != nil {
			return err
		}

		delete(p.held, name)
	}

	return nil
}

// resume acts as Slurm's ResumeProgram: it launches an instance behind each node.
// A slurmctld that is restarted while nodes power up calls it for them again.
func (p *pcsPlayer) resume(ctx context.Context, nodes []string) {
	p.reloading.RLock()
	defer p.reloading.RUnlock()

	for _, node := range nodes {
		instance, err := p.sim.LaunchForNodeGroup(p.name, groupOf(node), node)
		settings := []string{"nodeaddr=" + instance.PrivateIP, "nodehostname=" + instance.PrivateIP}
		if err != nil {
			p.log.Warn("launch failed", "node", node, "error", err)
			settings = []string{"state=POWER_DOWN_FORCE", "reason=" + launchFailure(err)}
		}

		if err := p.update(node, settings...); err != nil && ctx.Err() == nil {
			p.log.Error("node", "name", node, "error", err)
		}
	}
}

// suspend acts as Slurm's SuspendProgram.
func (p *pcsPlayer) suspend(ctx context.Context, nodes []string) {
	p.reloading.RLock()
	defer p.reloading.RUnlock()

	for _, node := range nodes {
		if err := p.sim.TerminateNode(p.name, groupOf(node), node); err != nil && ctx.Err() == nil {
			p.log.Error("terminating", "node", node, "error", err)
		}
	}
}

// nodeOf returns the name that PCS gave to the node of an instance.
func (p *pcsPlayer) nodeOf(instance awssim.Instance) string {
	cluster, _ := p.cluster()
	for _, group := range cluster.NodeGroups {
		for node, id := range group.Instances {
			if id == instance.ID {
				return node
			}
		}
	}

	return ""
}
