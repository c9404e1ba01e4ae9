package awssim

import (
	"cmp"
	"slices"
	"strconv"
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
	t.GPUManufacturer = cmp.Or(t.GPUManufacturer, "NVIDIA")
	if len(t.UsageClasses) == 0 {
		t.UsageClasses = []string{"on-demand", "spot"}
	}
	made := &instanceType{t, network{cards: 1, perCard: 4}}
	if known, ok := knownNetworks[t.Name]; ok {
		made.network = known
	}
	if t.NetworkCards > 0 {
		made.network = network{cards: t.NetworkCards, perCard: 2, efa: t.EFAInterfaces}
	}
	return made
}

func (t *instanceType) soldAsBlocks() bool { return slices.Contains(t.UsageClasses, "capacity-block") }

// offers tells whether the region, or the one zone of it, has the type at all.
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

type describeInstanceTypesInput struct {
	InstanceTypes []string `form:"InstanceType"`
	Filters       []filter `form:"Filter"`
	paging
}

type wireInstanceType struct {
	Name                     string          `xml:"instanceType"`
	CurrentGeneration        bool            `xml:"currentGeneration"`
	BareMetal                bool            `xml:"bareMetal"`
	UsageClasses             []string        `xml:"supportedUsageClasses>item"`
	Hypervisor               string          `xml:"hypervisor"`
	Architectures            []string        `xml:"processorInfo>supportedArchitectures>item"`
	VCPUs                    int             `xml:"vCpuInfo>defaultVCpus"`
	Cores                    int             `xml:"vCpuInfo>defaultCores"`
	ThreadsPerCore           int             `xml:"vCpuInfo>defaultThreadsPerCore"`
	MemoryMiB                int64           `xml:"memoryInfo>sizeInMiB"`
	Network                  wireNetworkInfo `xml:"networkInfo"`
	GPUs                     *wireGPUInfo    `xml:"gpuInfo"`
	Neuron                   *wireNeuronInfo `xml:"neuronInfo"`
	DedicatedHostsSupported  bool            `xml:"dedicatedHostsSupported"`
	SupportedVirtualizations []string        `xml:"supportedVirtualizationTypes>item"`
}

type wireNetworkInfo struct {
	MaximumInterfaces int               `xml:"maximumNetworkInterfaces"`
	MaximumCards      int               `xml:"maximumNetworkCards"`
	DefaultCard       int               `xml:"defaultNetworkCardIndex"`
	Cards             []wireNetworkCard `xml:"networkCards>item"`
	EFASupported      bool              `xml:"efaSupported"`
	EFAInterfaces     *int              `xml:"efaInfo>maximumEfaInterfaces"`
}

type wireNetworkCard struct {
	Index             int      `xml:"networkCardIndex"`
	MaximumInterfaces int      `xml:"maximumNetworkInterfaces"`
	InterfaceTypes    []string `xml:"interfaceTypeSet>item,omitempty"`
}

type wireGPUInfo struct {
	GPUs        []wireGPU `xml:"gpus>item"`
	TotalMemory int       `xml:"totalGpuMemoryInMiB"`
}

type wireGPU struct {
	Name         string `xml:"name"`
	Manufacturer string `xml:"manufacturer"`
	Count        int    `xml:"count"`
	Memory       int    `xml:"memoryInfo>sizeInMiB"`
}

type wireNeuronInfo struct {
	Devices []wireNeuron `xml:"neuronDevices>item"`
}

type wireNeuron struct {
	Count int    `xml:"count"`
	Name  string `xml:"name"`
}

func (s *Sim) describeInstanceTypes(c *call, in *describeInstanceTypesInput) (any, error) {
	items, err := byID(c.region.offeredTypes(), in.InstanceTypes, func(t *instanceType) string { return t.Name }, func(name string) error {
		return apiErrorf("InvalidInstanceType", "The following supplied instance types do not exist: [%s]", name)
	})
	if err != nil {
		return nil, err
	}
	names := filterNames[*instanceType]{values: map[string]func(*instanceType) []string{
		"instance-type":           one(func(t *instanceType) string { return t.Name }),
		"supported-usage-class":   func(t *instanceType) []string { return t.UsageClasses },
		"current-generation":      one(func(*instanceType) string { return "true" }),
		"bare-metal":              one(func(*instanceType) string { return "false" }),
		"vcpu-info.default-vcpus": one(func(t *instanceType) string { return strconv.Itoa(t.VCPUs) }),
		"processor-info.supported-architecture": one(func(t *instanceType) string {
			return t.Architecture
		}),
	}}
	if items, err = names.apply(in.Filters, items); err != nil {
		return nil, err
	}
	part, next, err := page(c, in.paging, 5, 100, len(in.InstanceTypes) > 0, items)
	out := struct {
		Types []wireInstanceType `xml:"instanceTypeSet>item"`
		Next  string             `xml:"nextToken,omitempty"`
	}{Next: next}
	for _, t := range part {
		out.Types = append(out.Types, t.wire())
	}
	return out, err
}

func (t *instanceType) wire() wireInstanceType {
	w := wireInstanceType{
		Name: t.Name, CurrentGeneration: true, UsageClasses: t.UsageClasses, Hypervisor: "nitro",
		Architectures: []string{t.Architecture}, VCPUs: t.VCPUs, Cores: t.VCPUs / t.ThreadsPerCore,
		ThreadsPerCore: t.ThreadsPerCore, MemoryMiB: t.MemoryMiB, SupportedVirtualizations: []string{"hvm"},
		Network: wireNetworkInfo{
			MaximumInterfaces: t.network.perCard * t.network.cards, MaximumCards: t.network.cards, EFASupported: t.network.efa > 0,
		},
	}
	for i := range t.network.cards {
		card := wireNetworkCard{Index: i, MaximumInterfaces: t.network.perCard}
		if t.CardTypes {
			card.InterfaceTypes = []string{"interface"}
			if t.network.efa > 0 && !slices.Contains(t.network.enaOnly, i) {
				card.InterfaceTypes = append(card.InterfaceTypes, "efa", "efa-only")
			}
		}
		w.Network.Cards = append(w.Network.Cards, card)
	}
	if t.network.efa > 0 {
		w.Network.EFAInterfaces = &t.network.efa
	}
	if t.GPUs > 0 {
		w.GPUs = &wireGPUInfo{[]wireGPU{{t.GPUName, t.GPUManufacturer, t.GPUs, t.GPUMemoryMiB}}, t.GPUs * t.GPUMemoryMiB}
	}
	if t.NeuronDevices > 0 {
		w.Neuron = &wireNeuronInfo{[]wireNeuron{{t.NeuronDevices, t.NeuronName}}}
	}
	return w
}

type describeImagesInput struct {
	ImageIDs          []string `form:"ImageId"`
	Owners            []string `form:"Owner"`
	Filters           []filter `form:"Filter"`
	IncludeDeprecated bool
	IncludeDisabled   bool
	paging
}

type wireImage struct {
	ID           string `xml:"imageId"`
	Name         string `xml:"name"`
	State        string `xml:"imageState"`
	Description  string `xml:"description,omitempty"`
	Owner        string `xml:"imageOwnerId"`
	OwnerAlias   string `xml:"imageOwnerAlias,omitempty"`
	Created      string `xml:"creationDate"`
	Deprecated   string `xml:"deprecationTime,omitempty"`
	Source       string `xml:"sourceImageId,omitempty"`
	Architecture string `xml:"architecture"`
	Platform     string `xml:"platformDetails"`
	RootDevice   string `xml:"rootDeviceName"`
	RootType     string `xml:"rootDeviceType"`
	Type         string `xml:"imageType"`
	Public       bool   `xml:"isPublic"`

	Volumes []blockDevice `xml:"blockDeviceMapping>item"`
	Tags    []tag         `xml:"tagSet>item"`
}

// rootDevice is the name of every image's root volume.
const rootDevice = "/dev/xvda"

// rootVolume is the source of an image's root volume.
func (i ImageScenario) rootVolume() blockDevice {
	size, on := cmp.Or(i.RootGiB, 8), true
	return blockDevice{DeviceName: rootDevice, Ebs: &ebsDevice{DeleteOnTermination: &on, SnapshotId: "snap-" + strings.TrimPrefix(i.ID, "ami-"), VolumeSize: &size, VolumeType: "gp3"}}
}

func (s *Sim) describeImages(c *call, in *describeImagesInput) (any, error) {
	items, err := byID(c.region.images, in.ImageIDs, func(i ImageScenario) string { return i.ID }, imageNotFound)
	if err != nil {
		return nil, err
	}
	if len(in.Owners) > 0 {
		items = slices.DeleteFunc(slices.Clone(items), func(i ImageScenario) bool {
			owner := cmp.Or(i.Owner, s.scenario.Account)
			return !slices.Contains(in.Owners, owner) && !(owner == s.scenario.Account && slices.Contains(in.Owners, "self"))
		})
	}
	names := filterNames[ImageScenario]{
		tags: func(i ImageScenario) map[string]string { return c.region.fixedTags[i.ID] },
		values: map[string]func(ImageScenario) []string{
			"image-id":     one(func(i ImageScenario) string { return i.ID }),
			"name":         one(func(i ImageScenario) string { return i.Name }),
			"architecture": one(func(i ImageScenario) string { return i.Architecture }),
			"owner-id":     one(func(i ImageScenario) string { return cmp.Or(i.Owner, s.scenario.Account) }),
			"state":        one(func(ImageScenario) string { return "available" }),
		}}
	if items, err = names.apply(in.Filters, items); err != nil {
		return nil, err
	}
	part, next, err := page(c, in.paging, 1, 1000, len(in.ImageIDs) > 0, items)
	owner := func(i ImageScenario) (id, alias string) {
		if i.Owner == ownedByAWS {
			return accountOfAWS, i.Owner
		}
		return cmp.Or(i.Owner, s.scenario.Account), ""
	}
	out := struct {
		Images []wireImage `xml:"imagesSet>item"`
		Next   string      `xml:"nextToken,omitempty"`
	}{Next: next}
	for _, i := range part {
		id, alias := owner(i)
		out.Images = append(out.Images, wireImage{
			ID: i.ID, Name: i.Name, Description: i.Description, State: "available", Owner: id, OwnerAlias: alias, Architecture: i.Architecture,
			Created: midnight(i.Created), Deprecated: midnight(i.Deprecated), Source: i.Source,
			Platform: i.Platform, RootDevice: rootDevice, RootType: "ebs", Type: "machine", Volumes: []blockDevice{i.rootVolume()}, Tags: wireTags(c.region.fixedTags[i.ID]),
		})
	}
	return out, err
}

// Owners of images that EC2 names by an alias.
const ownedByAWS, accountOfAWS = "amazon", "137112412989"

// midnight is the beginning of a day as EC2 writes it; "" for none.
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
