package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

// machines gives simulated instances a life: each boots, and ends when the instance does.
type machines struct {
	bootDelay time.Duration
	log       *slog.Logger
	// boot starts what an instance is on this machine; ctx ends with the instance.
	boot func(ctx context.Context, instance awssim.Instance) (stop func() error, err error)

	ctx    context.Context
	cancel context.CancelFunc
	boots  sync.WaitGroup

	mu   sync.Mutex
	live map[string]*booted // by instance id
}

// booted is an instance that boots or has booted; stop is nil before.
type booted struct {
	cancel context.CancelFunc
	stop   func() error
}

// boot boots the instances of the lab from now on.
func (l *lab) boot(boot func(ctx context.Context, instance awssim.Instance) (stop func() error, err error)) {
	m := &machines{bootDelay: time.Duration(l.scenario.BootDelay), log: l.log, boot: boot, live: map[string]*booted{}}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	l.machines = m
	l.sim.OnInstance(m.observe)
}

// observe gets every event of an instance, in order.
func (m *machines) observe(ev awssim.InstanceEvent) {
	m.log.Info("instance "+string(ev.Kind), "id", ev.Instance.ID, "type", ev.Instance.Type,
		"reservation", ev.Instance.ReservationID, "reason", ev.Reason)
	m.mu.Lock()
	defer m.mu.Unlock()
	id := ev.Instance.ID
	switch {
	case ev.Kind != awssim.Launched:
		if b := m.live[id]; b != nil {
			delete(m.live, id)
			b.end(m.log, id)
		}
	case m.ctx.Err() == nil: // else the lab is about to end
		ctx, cancel := context.WithCancel(m.ctx)
		b := &booted{cancel: cancel}
		m.live[id] = b
		m.boots.Go(func() { m.start(ctx, b, ev.Instance) })
	}
}

func (m *machines) start(ctx context.Context, b *booted, instance awssim.Instance) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(m.bootDelay):
	}
	stop, err := m.boot(ctx, instance)
	if err != nil {
		m.log.Error("the instance does not boot", "id", instance.ID, "error", err)
		return
	}
	m.log.Info("the instance runs", "id", instance.ID, "address", instance.PrivateIP)
	m.mu.Lock()
	defer m.mu.Unlock()
	if b.stop = stop; ctx.Err() != nil { // terminated meanwhile
		b.end(m.log, instance.ID)
	}
}

func (b *booted) end(log *slog.Logger, id string) {
	b.cancel()
	if b.stop == nil {
		return
	}
	if err := b.stop(); err != nil {
		log.Error("the instance does not end", "id", id, "error", err)
	}
	log.Info("the instance has ended", "id", id)
	b.stop = nil
}

// stopBoots ends boots under way.
func (m *machines) stopBoots() {
	m.cancel()
	m.boots.Wait()
}

// stop ends what has booted.
func (m *machines) stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, b := range m.live {
		b.end(m.log, id)
	}
}

// metadataFile is where a node's Prolog reads at which URL the metadata of its instance are.
// node may be a shell's expression.
func metadataFile(dir, node string) string { return filepath.Join(dir, "run", "metadata-"+node) }

// bootNodes has each instance boot into a real slurmd under the name of its node. A newer instance takes a node over.
func (l *lab) bootNodes() {
	var mu sync.Mutex
	owner := map[string]string{} // node to the instance that runs it
	l.boot(func(ctx context.Context, instance awssim.Instance) (func() error, error) {
		name := l.pcs.nodeOf(instance)
		if name == "" {
			return nil, errors.New("it is not a node of the cluster")
		}
		if err := os.WriteFile(metadataFile(l.Dir, name), []byte(l.sim.MetadataURL(instance.ID)+"\n"), 0o644); err != nil {
			return nil, err
		}
		mu.Lock()
		owner[name] = instance.ID
		mu.Unlock()
		return func() error {
			mu.Lock()
			defer mu.Unlock()
			if owner[name] != instance.ID {
				return nil
			}
			return l.cluster.StopNode(name)
		}, l.cluster.StartNode(ctx, name, "")
	})
}
