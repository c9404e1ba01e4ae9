package awssim

import (
	"cmp"
	"slices"
	"strings"
)

// instanceType is one instance type with its defaults filled in.
type instanceType struct {
	InstanceTypeScenario
	network network
}

func newInstanceType(t InstanceTypeScenario) *instanceType {
	t.ThreadsPerCore = cmp.Or(t.ThreadsPerCore, 2)
	t.Architecture = cmp.Or(t.Architecture, "x86_64")
	if len(t.UsageClasses) == 0 {
		t.UsageClasses = []string{"on-demand", "spot"}
	}

	made := &instanceType{t, network{cards: 1, perCard: 4}}
	if known, ok := knownNetworks[t.Name]; ok {
		made.network = known
	}

	return made
}

func (t *instanceType) soldAsBlocks() bool { return slices.Contains(t.UsageClasses, "capacity-block") }

// offers reports whether the region, or the one zone of it, has the type at all.
func (r *region) offers(instanceType, zoneID string) bool {
	for p := range r.capacity {
		if p.instanceType == instanceType && (zoneID == "" || p.zoneID == zoneID) {
			return true
		}
	}

	for _, o := range r.offerings {
		if o.Type == instanceType && (zoneID == "" || o.zone.id == zoneID) {
			return true
		}
	}

	for _, res := range r.reservations {
		if res.Type == instanceType && (zoneID == "" || res.zone.id == zoneID) {
			return true
		}
	}

	return false
}

func (r *region) offeredTypes() []*instanceType {
	var out []*instanceType
	for _, t := range sortedValues(r.types) {
		if r.offers(t.Name, "") {
			out = append(out, t)
		}
	}

	return out
}

func (s *Sim) typeObjects(c *call) (all []object) {
	for _, t := range c.region.offeredTypes() {
		all = append(all, t.wire())
	}
	return all
}

func typeNotFound(name string) error {
	return apiErrorf("InvalidInstanceType", "The following supplied instance types do not exist: [%s]", name)
}

func (t *instanceType) wire() object {
	var cards []object
	for i := range t.network.cards {
		card := object{"NetworkCardIndex": i, "MaximumNetworkInterfaces": t.network.perCard}
		if t.CardTypes {
			types := []string{"interface"}
			if t.network.efa > 0 && !slices.Contains(t.network.enaOnly, i) {
				types = append(types, "efa", "efa-only")
			}

			card["InterfaceTypes"] = types
		}

		cards = append(cards, card)
	}

	network := object{
		"MaximumNetworkInterfaces": t.network.perCard * t.network.cards,
		"MaximumNetworkCards":      t.network.cards,
		"DefaultNetworkCardIndex":  0,
		"NetworkCards":             cards,
		"EfaSupported":             t.network.efa > 0,
	}
	if t.network.efa > 0 {
		network["EfaInfo"] = object{"MaximumEfaInterfaces": t.network.efa}
	}

	w := object{
		"InstanceType":          t.Name,
		"CurrentGeneration":     true,
		"BareMetal":             false,
		"SupportedUsageClasses": t.UsageClasses,
		"Hypervisor":            "nitro",
		"ProcessorInfo":         object{"SupportedArchitectures": []string{t.Architecture}},
		"VCpuInfo": object{
			"DefaultVCpus":          t.VCPUs,
			"DefaultCores":          t.VCPUs / t.ThreadsPerCore,
			"DefaultThreadsPerCore": t.ThreadsPerCore,
		},
		"MemoryInfo":                   object{"SizeInMiB": t.MemoryMiB},
		"NetworkInfo":                  network,
		"DedicatedHostsSupported":      false,
		"SupportedVirtualizationTypes": []string{"hvm"},
	}
	if t.GPUs > 0 {
		w["GpuInfo"] = object{
			"TotalGpuMemoryInMiB": t.GPUs * t.GPUMemoryMiB,
			"Gpus": []object{
				{
					"Name":         t.GPUName,
					"Manufacturer": "NVIDIA",
					"Count":        t.GPUs,
					"MemoryInfo":   object{"SizeInMiB": t.GPUMemoryMiB},
				},
			},
		}
	}

	if t.NeuronDevices > 0 {
		w["NeuronInfo"] = object{"NeuronDevices": []object{{"Count": t.NeuronDevices, "Name": t.NeuronName}}}
	}

	return w
}

// rootDevice is the name of every image's root volume.
const rootDevice = "/dev/xvda"

// rootVolume returns the source of an image's root volume.
func (i ImageScenario) rootVolume() blockDevice {
	size := cmp.Or(i.RootGiB, 8)
	on := true

	return blockDevice{
		DeviceName: rootDevice,
		Ebs: &ebsDevice{
			DeleteOnTermination: &on,
			SnapshotId:          "snap-" + strings.TrimPrefix(i.ID, "ami-"),
			VolumeSize:          &size,
			VolumeType:          "gp3",
		},
	}
}

func (s *Sim) imageObjects(c *call) (all []object) {
	for _, i := range c.region.images {
		if owners, _ := c.in["Owners"].([]any); slices.Contains(owners, "self") && i.Owner != "" {
			continue
		}

		owner := cmp.Or(i.Owner, s.scenario.Account)
		alias := ""
		if i.Owner == ownedByAWS {
			owner = accountOfAWS
			alias = i.Owner
		}

		all = append(all, object{
			"ImageId":             i.ID,
			"Name":                i.Name,
			"Description":         i.Description,
			"State":               "available",
			"OwnerId":             owner,
			"ImageOwnerAlias":     alias,
			"Architecture":        i.Architecture,
			"CreationDate":        midnight(i.Created),
			"DeprecationTime":     midnight(i.Deprecated),
			"PlatformDetails":     i.Platform,
			"RootDeviceName":      rootDevice,
			"RootDeviceType":      "ebs",
			"ImageType":           "machine",
			"Public":              false,
			"BlockDeviceMappings": []blockDevice{i.rootVolume()},
			"Tags":                copyTags(i.Tags),
		})
	}

	return all
}

// Owners of images that EC2 names by an alias.
const ownedByAWS, accountOfAWS = "amazon", "137112412989"

// midnight returns the beginning of a day as EC2 writes it; "" for none.
func midnight(date string) string {
	if date == "" {
		return ""
	}
	return date + "T00:00:00.000Z"
}

func imageNotFound(id string) error {
	if !wellFormed(id, "ami") {
		return apiErrorf("InvalidAMIID.Malformed", "Invalid id: \"%s\" (expecting \"ami-...\")", id)
	}
	return apiErrorf("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", id)
}

// network is the network of a type in DescribeInstanceTypes.
type network struct {
	cards, perCard, efa int
	enaOnly             []int // cards that take no EFA
}

// knownNetworks are the types with several network cards that matter here, as DescribeInstanceTypes showed them to
// getmoto/moto (moto/ec2/resources/instance_types.json.gz of version 5.2.1; trn2u.48xlarge, which that lacks, as
// trn2.48xlarge). Of these figures the EC2 User Guide
// (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html) has the 32 cards of P5 and P5e. That
// card 0 of p6-b300 takes no EFA: https://github.com/aws/aws-parallelcluster/issues/7143. DescribeInstanceTypes has a
// field for what a card takes (interfaceTypes), but nobody recorded its answer, so types say it only where the scenario
// has card_types.
var knownNetworks = map[string]network{
	"p4d.24xlarge":     {cards: 4, perCard: 15, efa: 4},
	"p4de.24xlarge":    {cards: 4, perCard: 15, efa: 4},
	"p5.4xlarge":       {cards: 1, perCard: 4, efa: 1},
	"p5.48xlarge":      {cards: 32, perCard: 2, efa: 32},
	"p5e.48xlarge":     {cards: 32, perCard: 2, efa: 32},
	"p5en.48xlarge":    {cards: 16, perCard: 4, efa: 16},
	"p6-b200.48xlarge": {cards: 8, perCard: 4, efa: 8},
	"p6-b300.48xlarge": {cards: 17, perCard: 4, efa: 16, enaOnly: []int{0}},
	"trn1.32xlarge":    {cards: 8, perCard: 5, efa: 8},
	"trn2.48xlarge":    {cards: 16, perCard: 2, efa: 16},
	"trn2u.48xlarge":   {cards: 16, perCard: 2, efa: 16},
	"g6.12xlarge":      {cards: 1, perCard: 8, efa: 1},
	"c7i.4xlarge":      {cards: 1, perCard: 8},
}
