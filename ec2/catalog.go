package ec2

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// InstanceType holds EC2's facts about an instance type.
type InstanceType struct {
	Name  string
	VCPUs int
	// Cores and ThreadsPerCore are what an instance has without CpuOptions.
	Cores, ThreadsPerCore int
	MemoryMiB             int64
	GPUs                  int // counts GPUs, and the Neuron devices of Trainium and Inferentia
	GPUName               string
	GPUFiles              string        // the name of their device files on Linux, before the number; "" if unknown
	EFAInterfaces         int           // the most that the type takes; 0 if it has none
	Cards                 []NetworkCard // its network cards
	UsageClasses          []string      // EC2's words: on-demand, spot, capacity-block
}

// InstanceTypes describes types by name. Names unknown to EC2 in this region are left out.
func (c *Client) InstanceTypes(ctx context.Context, names []string) (map[string]InstanceType, error) {
	if len(unique(names)) == 0 {
		return nil, nil
	}

	known, unread := map[string]InstanceType{}, []string{}
	for _, name := range unique(names) {
		if t, ok := c.types.get(name); ok {
			known[name] = t
		} else {
			unread = append(unread, name)
		}
	}

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
	types, err := listAll(ctx, c, "describing instance types", c.api.DescribeInstanceTypes,
		&ec2.DescribeInstanceTypesInput{Filters: []types.Filter{which}},
		func(page *ec2.DescribeInstanceTypesOutput) []types.InstanceTypeInfo { return page.InstanceTypes })
	if err != nil {
		return nil, err
	}

	found := map[string]InstanceType{}
	for _, a := range types {
		t := instanceType(a)
		found[t.Name] = t
		c.types.put(t.Name, t)
	}

	return found, nil
}

func instanceType(a types.InstanceTypeInfo) InstanceType {
	t := InstanceType{Name: string(a.InstanceType)}
	if a.VCpuInfo != nil {
		t.VCPUs = int(aws.ToInt32(a.VCpuInfo.DefaultVCpus))
		t.Cores = int(aws.ToInt32(a.VCpuInfo.DefaultCores))
		t.ThreadsPerCore = int(aws.ToInt32(a.VCpuInfo.DefaultThreadsPerCore))
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
			about := NetworkCard{
				Index:      int(aws.ToInt32(card.NetworkCardIndex)),
				Interfaces: int(aws.ToInt32(card.MaximumNetworkInterfaces)),
			}
			for _, kind := range card.InterfaceTypes {
				about.Types = append(about.Types, string(kind))
			}

			t.Cards = append(t.Cards, about)
		}
	}

	for _, class := range a.SupportedUsageClasses {
		t.UsageClasses = append(t.UsageClasses, string(class))
	}

	return t
}

// NetworkCard is a network card of an instance type.
type NetworkCard struct {
	Index      int
	Interfaces int      // how many interfaces it takes
	Types      []string // the types of interface that it takes; empty where EC2 does not say
}

const (
	plainInterface = "interface"
	efaInterface   = "efa"
	efaOnly        = "efa-only"
)

// networkInterfaces returns the interfaces of a launch template that use every EFA of an
// instance type; none for a type without EFA, and in mode capacity.NoEFA.
//
// In mode capacity.EFA each card has one interface that is both EFA and ENA: at device index 0 on the first card, at 1
// on the others (AWS PCS User Guide, "Create or update an EC2 launch template"), or at 0 where a card takes one
// interface only. In mode capacity.EFAOnly the first interface is a plain one, and each card has an EFA without an
// address of its own: at device index 1 on the first card, with the plain one, and at 0 on the others (EC2 User Guide,
// "efa-acc-inst-types"). Where the first card takes no EFA, as that of p6-b300.48xlarge, the EFAs of the others are at
// device index 0 (aws/aws-parallelcluster, issue 7143). EC2 shows that in the types of a card; where it names none, a
// type with one card more than EFAs is taken for one.
//
// The security groups, which must let each other in, and the subnet are in every interface: EC2
// takes neither together with interfaces. Among several, none has a public address: EC2 gives one
// to an instance with one interface only, where the subnet says so.
func networkInterfaces(
	t InstanceType, mode capacity.EFAMode, subnetID string, groups []string,
) ([]types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest, error) {
	if t.EFAInterfaces == 0 || mode == capacity.NoEFA {
		return nil, nil
	}

	if mode != capacity.EFA && mode != capacity.EFAOnly {
		return nil, fmt.Errorf("EFA mode %q: want %s, %s or %s", mode, capacity.EFA, capacity.EFAOnly, capacity.NoEFA)
	}

	cards := slices.SortedFunc(slices.Values(t.Cards),
		func(a, b NetworkCard) int { return cmp.Compare(a.Index, b.Index) })
	said := slices.ContainsFunc(cards, func(c NetworkCard) bool { return len(c.Types) > 0 })

	without := len(cards) - t.EFAInterfaces
	takes := func(c NetworkCard) bool {
		if said {
			return slices.Contains(c.Types, string(mode)) // modes have the names of the types
		}
		return c.Index >= without
	}
	with := 0
	for _, c := range cards {
		if takes(c) {
			with++
		}
	}

	if with != t.EFAInterfaces || !said && without > 1 || len(cards) == 0 || cards[0].Index != 0 {
		return nil, fmt.Errorf(
			"%s has %d EFAs on %d network cards, and EC2 does not say on which; write its network interfaces into a "+
				"launch template, and name that template",
			t.Name,
			t.EFAInterfaces,
			len(cards),
		)
	}

	var all []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest

	add := func(card, device int, kind string) {
		n := types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{
			NetworkCardIndex:         aws.Int32(int32(card)),
			DeviceIndex:              aws.Int32(int32(device)),
			InterfaceType:            aws.String(kind),
			Groups:                   groups,
			AssociatePublicIpAddress: aws.Bool(false),
		}
		if subnetID != "" {
			n.SubnetId = aws.String(subnetID)
		}

		all = append(all, n)
	}
	for _, card := range cards {
		first, takesEFA := card.Index == 0, takes(card)
		if first && !(takesEFA && mode == capacity.EFA) {
			add(0, 0, plainInterface)
		}

		switch {
		case !takesEFA:
		case mode == capacity.EFAOnly && first && card.Interfaces < 2:
			return nil, fmt.Errorf(
				"the first network card of %s takes one interface, so its EFA cannot be without an address; use mode %s",
				t.Name,
				capacity.EFA,
			)
		case mode == capacity.EFAOnly && first:
			add(0, 1, efaOnly)
		case mode == capacity.EFAOnly:
			add(card.Index, 0, efaOnly)
		case first || !takes(cards[0]) || card.Interfaces < 2:
			add(card.Index, 0, efaInterface)
		default:
			add(card.Index, 1, efaInterface)
		}
	}

	if len(all) == 1 {
		all[0].AssociatePublicIpAddress = nil
	}

	return all, nil
}

// efaInterfaces returns the networkInterfaces that a spec asks for.
func (c *Client) efaInterfaces(
	ctx context.Context, spec capacity.LaunchTemplateSpec, groups []string,
) ([]types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest, error) {
	found, err := c.InstanceTypes(ctx, []string{spec.InstanceType})
	if err != nil {
		return nil, err
	}

	t, ok := found[spec.InstanceType]
	if !ok {
		return nil, fmt.Errorf("EC2 has no instance type %s in %s", spec.InstanceType, c.region)
	}

	return networkInterfaces(t, spec.EFA, spec.SubnetID, groups)
}
