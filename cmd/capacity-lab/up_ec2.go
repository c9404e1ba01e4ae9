package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
)

// startEC2 starts a self-managed Slurm whose cloud nodes the product launches: partition gpu, which
// the product manages, and partition big, which it does not.
func (l *lab) startEC2(ctx context.Context) error {
	region, err := l.homeRegion()
	if err != nil {
		return err
	}
	if len(region.LaunchTemplates) == 0 || len(region.Subnets) == 0 {
		return fmt.Errorf("the scenario's region %s needs a launch template and a subnet for mode ec2", region.Name)
	}
	template := region.LaunchTemplates[0]
	partition := ec2Partition(region, template, time.Now())
	if err := l.writeProductConfig("", partition); err != nil {
		return err
	}
	config := slurmlab.Config{Dir: l.Dir, Accounting: l.Accounting, CloudGroups: l.ec2Groups(template.Type),
		SuspendTime: 60 * time.Second, ResumeTimeout: 60 * time.Second}
	for program, setting := range map[string]*string{
		"pcs-capacity-resume":  &config.ResumeProgram,
		"pcs-capacity-suspend": &config.SuspendProgram,
	} {
		if *setting, err = l.writeHook(program); err != nil {
			return err
		}
	}
	config.ResumeFailProgram = config.SuspendProgram
	config.CLIFilterLua, config.JobSubmitLua = l.luaHooks()
	if config.Extra, err = l.prologs(); err != nil {
		return err
	}
	if l.cluster, err = slurmlab.Start(ctx, config); err != nil {
		return err
	}
	l.bootNodes(l.taggedNode)
	return nil
}

// ec2Groups are the cloud nodes of slurm.conf, as large as the instance type.
func (l *lab) ec2Groups(instanceType string) []slurmlab.NodeGroup {
	gpu := slurmlab.NodeGroup{Prefix: "gpu-", Count: 4, Features: "gpu", Partition: "gpu"}
	l.sizeNodes(&gpu, instanceType)
	big := gpu
	big.Prefix, big.Count, big.Features, big.Partition = "big-", 8, "big", "big"
	return []slurmlab.NodeGroup{gpu, big}
}

// sizeNodes gives nodes the processors, memory and GPUs of an instance type.
func (l *lab) sizeNodes(group *slurmlab.NodeGroup, instanceType string) {
	for _, t := range l.scenario.InstanceTypes {
		if t.Name == instanceType {
			group.CPUs, group.GPUs = t.VCPUs, t.GPUs
			group.MemoryMB = int(t.MemoryMiB)
		}
	}
}

// ec2Partition is the [[partition]] of config.toml. A block that is open
// already is listed; others come by the product's own commands.
func ec2Partition(region awssim.RegionScenario, template awssim.LaunchTemplateScenario, now time.Time) string {
	var subnets, blocks []string
	for _, subnet := range region.Subnets {
		subnets = append(subnets, fmt.Sprintf("%q", subnet.ID))
	}
	for _, r := range region.Reservations {
		if r.Kind == "capacity-block" && r.Type == template.Type && r.State == "" &&
			!r.Start.At(now).After(now) && r.End.At(now).After(now) {
			blocks = append(blocks, fmt.Sprintf("%q", r.ID))
		}
	}
	return fmt.Sprintf(`
[[partition]]
name = "gpu"
provider = "ec2"
min_time = "1m"

  [[partition.node_group]]
  name = "gpu"
  instance_type = %q
  subnet_ids = [%s]
  launch_template = %q
  capacity_reservation_ids = [%s]
  max_nodes = 4
  dynamic = true
`, template.Type, strings.Join(subnets, ", "), template.ID, strings.Join(blocks, ", "))
}

// homeRegion is the region that the lab works in.
func (l *lab) homeRegion() (awssim.RegionScenario, error) {
	for _, region := range l.scenario.Regions {
		if region.Name == l.region() {
			return region, nil
		}
	}
	return awssim.RegionScenario{}, fmt.Errorf("the scenario has no region %s", l.region())
}

// taggedNode finds the node name as an instance of the product does: by its place in the hostlist of its launch.
func (l *lab) taggedNode(ctx context.Context, instance awssim.Instance) (string, error) {
	hostlist := capacity.LaunchedNodes(instance.Tags)
	if hostlist == "" {
		return "", nil
	}
	names, err := l.cluster.Hostnames(ctx, hostlist)
	if err != nil {
		return "", err
	}
	if instance.AMILaunchIndex >= len(names) {
		return "", fmt.Errorf("tag %s=%s has no node for launch index %d", capacity.TagNodes, hostlist, instance.AMILaunchIndex)
	}
	return names[instance.AMILaunchIndex], nil
}

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
	m := &machines{bootDelay: l.BootDelay, log: l.log, boot: boot, live: map[string]*booted{}}
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

// bootNodes has each instance boot into a real slurmd under its node's name, the one that it would learn from its
// metadata; "" if it is no node of the cluster. A newer instance takes a node over.
func (l *lab) bootNodes(nodeName func(context.Context, awssim.Instance) (string, error)) {
	var mu sync.Mutex
	owner := map[string]string{} // node to the instance that runs it
	l.boot(func(ctx context.Context, instance awssim.Instance) (func() error, error) {
		name, err := nodeName(ctx, instance)
		if err != nil || name == "" {
			return nil, errors.Join(errors.New("it is no node of the cluster"), err)
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
