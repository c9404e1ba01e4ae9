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
	Name           string
	VCPUs          int
	Cores          int // without CpuOptions
	ThreadsPerCore int // without CpuOptions
	MemoryMiB      int64
	GPUs           int // GPUs, or the Neuron devices of Trainium and Inferentia
	GPUName        string
	GPUFiles       string        // the name of their device files on Linux, before the number; "" if unknown
	EFAInterfaces  int           // the most that the type takes; 0 if it has none
	Cards          []NetworkCard // its network cards, in EC2's order
	UsageClasses   []string      // EC2's words: on-demand, spot, capacity-block
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

// plainInterface is the type of a network interface that is no EFA.
const plainInterface = "interface"

// networkInterfaces returns the interfaces of a launch template that use every EFA of an instance type; nil for a type
// without EFA, and in mode capacity.NoEFA.
//
// In mode capacity.EFA the one interface of each card is both EFA and ENA (AWS PCS User Guide, "Create or update an EC2
// launch template"). In mode capacity.EFAOnly the EFAs have no address of their own, and card 0 has a plain interface
// for it (EC2 User Guide, "efa-acc-inst-types"). Card 0 of some types takes no EFA, as that of p6-b300.48xlarge: it has
// a plain interface then (aws/aws-parallelcluster, issue 7143). The device indexes:
//
//	                    mode efa              mode efa-only
//	card 0              EFA at 0              interface at 0, EFA at 1
//	card 0 without EFA  interface at 0        interface at 0
//	other cards         EFA at 1, or at 0 *)  EFA at 0
//
// *) where card 0 takes no EFA, or the card itself takes one interface only.
//
// Every interface names the security groups, which must let each other in, and the subnet: EC2 takes neither together
// with interfaces. Among several interfaces none has a public address: EC2 gives one only to an instance with a single
// interface, where the subnet says so.
func networkInterfaces(
	t InstanceType, mode capacity.EFAMode, subnetID string, groups []string,
) (all []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest, err error) {
	if t.EFAInterfaces == 0 || mode == capacity.NoEFA {
		return nil, nil
	}

	if mode != capacity.EFA && mode != capacity.EFAOnly {
		return nil, fmt.Errorf("EFA mode %q: want %s, %s or %s", mode, capacity.EFA, capacity.EFAOnly, capacity.NoEFA)
	}

	cards, err := efaCards(t, mode)
	if err != nil {
		return nil, err
	}

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

	firstTakesEFA := cards[0].Index == 0

	plain := !firstTakesEFA || mode == capacity.EFAOnly
	if plain {
		add(0, 0, plainInterface)
	}

	for _, card := range cards {
		device := 0
		switch {
		case card.Index == 0 && plain && card.Interfaces < 2:
			return nil, fmt.Errorf("the first network card of %s takes one interface, so its EFA cannot be without an "+
				"address; use mode %s", t.Name, capacity.EFA)
		case card.Index == 0 && plain,
			card.Index > 0 && mode == capacity.EFA && firstTakesEFA && card.Interfaces > 1:
			device = 1
		}

		add(card.Index, device, string(mode)) // modes have the names of the interface types
	}

	if len(all) == 1 {
		all[0].AssociatePublicIpAddress = nil
	}

	return all, nil
}

// efaCards returns the cards of a type that take an EFA, by index. Where EC2 names no interface types, a type with one
// card more than EFAs has none on its first card.
func efaCards(t InstanceType, mode capacity.EFAMode) ([]NetworkCard, error) {
	cards := slices.SortedFunc(slices.Values(t.Cards),
		func(a, b NetworkCard) int { return cmp.Compare(a.Index, b.Index) })
	more := len(cards) - t.EFAInterfaces
	known := slices.ContainsFunc(cards, func(c NetworkCard) bool { return len(c.Types) > 0 })

	efa := slices.DeleteFunc(slices.Clone(cards), func(c NetworkCard) bool {
		if known {
			return !slices.Contains(c.Types, string(mode))
		}

		return c.Index < more
	})
	if len(efa) != t.EFAInterfaces || !known && more > 1 || len(cards) == 0 || cards[0].Index != 0 {
		return nil, fmt.Errorf("%s has %d EFAs on %d network cards, and EC2 does not say on which; write its network "+
			"interfaces into a launch template, and name that template", t.Name, t.EFAInterfaces, len(cards))
	}

	return efa, nil
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
