package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
)

// booter starts what an instance is on this machine; ctx ends with the instance, and with the lab.
type booter func(ctx context.Context, instance awssim.Instance) (stop func() error, err error)

// boot boots the instances of the lab from now on.
func (l *lab) boot(boot booter) {
	var running context.Context

	running, l.halt = context.WithCancel(context.Background())
	ends := map[string]context.CancelFunc{}          // by instance id
	l.sim.OnInstance(func(ev awssim.InstanceEvent) { // one call at a time
		id := ev.Instance.ID
		l.log.Info(
			"instance "+string(ev.Kind),
			"id",
			id,
			"type",
			ev.Instance.Type,
			"reservation",
			ev.Instance.ReservationID,
			"reason",
			ev.Reason,
		)

		if end := ends[id]; end != nil && ev.Kind != awssim.Launched {
			end()
			delete(ends, id)
		} else if ev.Kind == awssim.Launched && running.Err() == nil {
			ctx, cancel := context.WithCancel(running)
			ends[id] = cancel

			l.instances.Go(func() { l.live(ctx, ev.Instance, boot) })
		}
	})
}

// live boots an instance, and ends it when ctx does.
func (l *lab) live(ctx context.Context, instance awssim.Instance, boot booter) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(time.Duration(l.scenario.BootDelay)):
	}

	stop, err := boot(ctx, instance)
	if err != nil {
		l.log.Error("the instance does not boot", "id", instance.ID, "error", err)
		return
	}

	l.log.Info("the instance runs", "id", instance.ID, "address", instance.PrivateIP)
	<-ctx.Done()

	if err := stop(); err != nil {
		l.log.Error("the instance does not end", "id", instance.ID, "error", err)
	}

	l.log.Info("the instance has ended", "id", instance.ID)
}

// metadataFile names the file in which a node's Prolog reads the URL of its instance's metadata.
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

		url := l.sim.MetadataURL(instance.ID) + "\n"
		if err := os.WriteFile(metadataFile(l.Dir, name), []byte(url), 0o644); err != nil {
			return nil, err
		}

		mu.Lock()
		former := owner[name]
		owner[name] = instance.ID
		mu.Unlock()

		if former != "" { // it may end later than this one boots
			if err := l.cluster.StopNode(name); err != nil {
				return nil, err
			}
		}

		return func() error {
			mu.Lock()
			defer mu.Unlock()

			if owner[name] != instance.ID {
				return nil
			}

			delete(owner, name)

			return l.cluster.StopNode(name)
		}, l.cluster.StartNode(ctx, name, "")
	})
}
