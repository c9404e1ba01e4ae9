package main

import (
	"context"
	"fmt"
	"strings"
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
	config := slurmlab.Config{
		Auth:          l.Auth,
		Dir:           l.Dir,
		Accounting:    l.Accounting,
		CloudGroups:   l.ec2Groups(template.Type),
		SuspendTime:   60 * time.Second,
		ResumeTimeout: 60 * time.Second,
	}
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

// taggedNode finds the node name as an instance of the product does: by its
// place in the hostlist of its launch.
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
