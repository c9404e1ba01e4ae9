package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
)

// machines gives simulated instances a life: each boots into a real slurmd
// under its node's name, which ends when the instance does.
type machines struct {
	cluster   *slurmlab.Cluster
	bootDelay time.Duration
	log       *slog.Logger
	// nodeName is the name that the instance would learn from its metadata; empty if it is no node
	// of the cluster.
	nodeName func(context.Context, awssim.Instance) (string, error)
	// metadataURL is where an instance finds its metadata.
	metadataURL func(id string) string

	ctx    context.Context
	cancel context.CancelFunc
	boots  sync.WaitGroup

	mu      sync.Mutex
	booting map[string]context.CancelFunc // by instance id
	node    map[string]string             // instance id to node, once its slurmd was started
	owner   map[string]string             // node to the instance that runs it
}

func newMachines(cluster *slurmlab.Cluster, delay time.Duration, log *slog.Logger,
	nodeName func(context.Context, awssim.Instance) (string, error), metadataURL func(id string) string) *machines {
	m := &machines{
		cluster: cluster, bootDelay: delay, log: log, nodeName: nodeName, metadataURL: metadataURL,
		booting: map[string]context.CancelFunc{}, node: map[string]string{}, owner: map[string]string{},
	}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	return m
}

// metadataFile is where a node's Prolog reads at which URL the metadata of its instance are.
// node may be a shell's expression.
func metadataFile(dir, node string) string { return filepath.Join(dir, "run", "metadata-"+node) }

// observe gets every event of an instance, in order.
func (m *machines) observe(ev awssim.InstanceEvent) {
	m.log.Info("instance "+string(ev.Kind), "id", ev.Instance.ID, "type", ev.Instance.Type,
		"reservation", ev.Instance.ReservationID, "reason", ev.Reason)
	switch ev.Kind {
	case awssim.Launched:
		m.boot(ev.Instance)
	case awssim.Terminated, awssim.HostFailed:
		m.end(ev.Instance)
	}
}

func (m *machines) boot(instance awssim.Instance) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ctx.Err() != nil {
		return // the lab is about to end
	}
	if instance.NoContact != "" {
		m.log.Warn("the node never comes up", "id", instance.ID, "error", instance.NoContact)
		return
	}
	ctx, cancel := context.WithCancel(m.ctx)
	m.booting[instance.ID] = cancel
	m.boots.Go(func() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(m.bootDelay):
		}
		name, err := m.nodeName(ctx, instance)
		if err != nil || name == "" {
			m.log.Warn("instance is no node of the cluster", "id", instance.ID, "error", err)
			return
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		if ctx.Err() != nil {
			return // terminated meanwhile
		}
		if err := os.WriteFile(metadataFile(m.cluster.Dir(), name), []byte(m.metadataURL(instance.ID)+"\n"), 0o644); err != nil {
			m.log.Error("the node does not find its metadata", "id", instance.ID, "node", name, "error", err)
		}
		if err := m.cluster.StartNode(ctx, name, ""); err != nil {
			m.log.Error("slurmd does not start", "id", instance.ID, "node", name, "error", err)
			return
		}
		m.log.Info("slurmd started", "id", instance.ID, "node", name, "address", instance.PrivateIP)
		m.node[instance.ID] = name
		m.owner[name] = instance.ID
	})
}

func (m *machines) end(instance awssim.Instance) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if cancel := m.booting[instance.ID]; cancel != nil {
		cancel()
		delete(m.booting, instance.ID)
	}
	name, ok := m.node[instance.ID]
	delete(m.node, instance.ID)
	if !ok || m.owner[name] != instance.ID {
		return
	}
	delete(m.owner, name)
	if err := m.cluster.StopNode(name); err != nil {
		m.log.Error("slurmd does not end", "id", instance.ID, "node", name, "error", err)
		return
	}
	m.log.Info("slurmd ended", "id", instance.ID, "node", name)
}

// stop ends boots under way; the slurmds themselves end with the cluster.
func (m *machines) stop() {
	m.mu.Lock()
	m.cancel()
	m.mu.Unlock()
	m.boots.Wait()
}
