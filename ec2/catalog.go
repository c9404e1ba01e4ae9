package ec2

import (
	"context"
	"fmt"
	"maps"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
)

// InstanceType holds EC2's facts about an instance type.
type InstanceType struct {
	Name  string
	VCPUs int
	// Cores and ThreadsPerCore are what an instance has without CpuOptions.
	Cores, ThreadsPerCore int
	MemoryMiB             int64
	// GPUs counts GPUs, and the Neuron devices of Trainium and Inferentia.
	GPUs    int
	GPUName string
	// GPUFiles is the name of their device files on Linux, before the number; "" if unknown.
	GPUFiles string
	// EFAInterfaces is the most that the type takes; 0 if it has none.
	EFAInterfaces int
	// Cards are its network cards.
	Cards []NetworkCard
	// UsageClasses are EC2's words: on-demand, spot, capacity-block.
	UsageClasses []string
	// Architectures lists the image architectures that it runs: x86_64, arm64.
	Architectures []string
}

// InstanceTypes describes types by name. Names unknown to EC2 in this region are left out.
func (c *Client) InstanceTypes(ctx context.Context, names []string) (map[string]InstanceType, error) {
	if len(unique(names)) == 0 {
		return nil, nil
	}
	known, unread := map[string]InstanceType{}, []string{}
	c.mu.Lock()
	for _, name := range unique(names) {
		if t, ok := c.knownTypes[name]; ok {
			known[name] = t
		} else {
			unread = append(unread, name)
		}
	}
	c.mu.Unlock()
	if len(unread) == 0 {
		return known, nil
	}
	// A filter, since one unknown name would make EC2 refuse the whole call.
	read, err := c.instanceTypes(ctx, filter("instance-type", unread...))
	maps.Copy(known, read)
	return known, err
}

// BlockTypes describes the types that EC2 sells as Capacity Blocks in this region.
func (c *Client) BlockTypes(ctx context.Context) (map[string]InstanceType, error) {
	return c.instanceTypes(ctx, filter("supported-usage-class", BlockUsage))
}

// BlockUsage is the usage class of types that are sold as Capacity Blocks.
const BlockUsage = string(types.UsageClassTypeCapacityBlock)

func (c *Client) instanceTypes(ctx context.Context, which types.Filter) (map[string]InstanceType, error) {
	found := map[string]InstanceType{}
	in := &ec2.DescribeInstanceTypesInput{Filters: []types.Filter{which}}
	for page, err := range awsconfig.Pages(ctx, paged(c.api.DescribeInstanceTypes, in)) {
		if err != nil {
			return nil, fmt.Errorf("describing instance types in %s: %w", c.region, err)
		}
		for _, a := range page.InstanceTypes {
			t := instanceType(a)
			found[t.Name] = t
		}
	}
	c.mu.Lock()
	maps.Copy(c.knownTypes, found)
	c.mu.Unlock()
	return found, nil
}

func instanceType(a types.InstanceTypeInfo) InstanceType {
	t := InstanceType{Name: string(a.InstanceType)}
	if a.VCpuInfo != nil {
		t.VCPUs, t.Cores, t.ThreadsPerCore = int(aws.ToInt32(a.VCpuInfo.DefaultVCpus)), int(aws.ToInt32(a.VCpuInfo.DefaultCores)), int(aws.ToInt32(a.VCpuInfo.DefaultThreadsPerCore))
	}
	if a.MemoryInfo != nil {
		t.MemoryMiB = aws.ToInt64(a.MemoryInfo.SizeInMiB)
	}
	if a.GpuInfo != nil {
		for _, gpu := range a.GpuInfo.Gpus {
			t.GPUs += int(aws.ToInt32(gpu.Count))
			t.GPUName = aws.ToString(gpu.Name)
			if aws.ToString(gpu.Manufacturer) == "NVIDIA" {
				t.GPUFiles = "/dev/nvidia"
			}
		}
	}
	if a.NeuronInfo != nil {
		for _, device := range a.NeuronInfo.NeuronDevices {
			t.GPUs += int(aws.ToInt32(device.Count))
			t.GPUName, t.GPUFiles = aws.ToString(device.Name), "/dev/neuron"
		}
	}
	if n := a.NetworkInfo; n != nil {
		if n.EfaInfo != nil && aws.ToBool(n.EfaSupported) {
			t.EFAInterfaces = int(aws.ToInt32(n.EfaInfo.MaximumEfaInterfaces))
		}
		for _, card := range n.NetworkCards {
			about := NetworkCard{Index: int(aws.ToInt32(card.NetworkCardIndex)), Interfaces: int(aws.ToInt32(card.MaximumNetworkInterfaces))}
			for _, kind := range card.InterfaceTypes {
				about.Types = append(about.Types, string(kind))
			}
			t.Cards = append(t.Cards, about)
		}
	}
	if a.ProcessorInfo != nil {
		for _, architecture := range a.ProcessorInfo.SupportedArchitectures {
			t.Architectures = append(t.Architectures, string(architecture))
		}
	}
	for _, class := range a.SupportedUsageClasses {
		t.UsageClasses = append(t.UsageClasses, string(class))
	}
	return t
}
