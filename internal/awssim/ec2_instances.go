package awssim

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	statePending      = "pending"
	stateRunning      = "running"
	stateShuttingDown = "shutting-down"
	stateTerminated   = "terminated"
)

// stateCodes are EC2's numbers of instance states (EC2 API Reference, InstanceState).
var stateCodes = map[string]int{statePending: 0, stateRunning: 16, stateShuttingDown: 32, stateTerminated: 48}

// keepTerminated is how long a terminated instance stays visible.
const keepTerminated = time.Hour

// instance is one instance with the simulator's own facts about it.
type instance struct {
	Instance
	subnet       *subnet
	seat         *reservation // the place that it takes, until that is clean again
	data         launchData
	platform     string
	tenancy      string
	architecture string
	clientToken  string
	reason       string // StateReason code
	interfaces   []launchInterface
	sessions     []session // with its metadata service
	retires      time.Time // when EC2 stops it for its host; zero if it does not
}

func (i *instance) view() Instance {
	v := i.Instance
	v.Tags = maps.Clone(i.Tags)
	return v
}

// byLaunch lists the instances in the order of launch.
func (r *region) byLaunch() []*instance {
	return slices.SortedFunc(maps.Values(r.instances), func(a, b *instance) int {
		return cmp.Or(a.LaunchTime.Compare(b.LaunchTime), strings.Compare(a.LaunchID, b.LaunchID), a.AMILaunchIndex-b.AMILaunchIndex)
	})
}

// terminate ends one instance, and frees its place when that is clean. Called with mu held.
func (s *Sim) terminate(r *region, i *instance, reason string) {
	if i.State == stateShuttingDown || i.State == stateTerminated {
		return
	}
	i.State, i.reason = stateShuttingDown, reason
	s.emit(Terminated, reason, i)
	s.later(time.Duration(s.scenario.ShutdownDelay), func() {
		i.State = stateTerminated
		s.later(time.Duration(s.scenario.CleanupDelay), func() { i.seat = nil })
		s.at(s.now.Add(keepTerminated), func() { delete(r.instances, i.ID) })
	})
}

type runInstancesInput struct {
	launchData
	MinCount                  int
	MaxCount                  int
	SubnetId                  string
	PrivateIpAddress          string
	LaunchTemplate            *templateReference
	TagSpecifications         []tagSpecification `form:"TagSpecification"`
	ClientToken               string
	AdditionalInfo, RamdiskId string
}

// order is what the request asks for, with its launch template.
func (in *runInstancesInput) order(r *region) (launchOrder, error) {
	tags, err := specifiedTags(in.TagSpecifications, "instance", launchTaggable...)
	if err != nil {
		return launchOrder{}, err
	}
	o := launchOrder{
		launchData: in.launchData, min: in.MinCount, max: in.MaxCount, subnet: in.SubnetId,
		address: in.PrivateIpAddress, tags: tags, clientToken: in.ClientToken,
	}
	if in.LaunchTemplate != nil {
		err = o.template(r, *in.LaunchTemplate)
	}
	return o, err
}

// dryRun checks all that a launch is refused for, but for room: capacity, and addresses of the subnet. That EC2 looks
// at more than permissions is what ParallelCluster (aws/aws-parallelcluster, pull request 2832) and Karpenter
// (aws/karpenter-provider-aws, pull request 7844) build on; how far it looks is not documented.
func (in *runInstancesInput) dryRun(c *call) error {
	o, err := in.order(c.region)
	if err != nil {
		return err
	}
	at, err := c.region.checkOrder(o)
	if err != nil {
		return err
	}
	return c.region.checkTarget(o, at)
}

func (s *Sim) runInstances(c *call, in *runInstancesInput) (any, error) {
	return s.idempotent(c, in.ClientToken, func() (func() (any, error), error) {
		o, err := in.order(c.region)
		if err != nil {
			return nil, err
		}
		made, err := s.run(c.region, o)
		if err != nil {
			return nil, err
		}
		return func() (any, error) {
			if slices.ContainsFunc(made, func(i *instance) bool { return i.State == stateTerminated }) {
				// Seen in boto/boto3, issue 4406.
				return nil, apiErrorf("IdempotentInstanceTerminated",
					"The client token you have provided is associated with a terminated instance. Please use a different client token.")
			}
			return s.wireLaunches(made)[0], nil
		}, nil
	})
}

// wireLaunch is EC2's "reservation": the instances of one launch.
type wireLaunch struct {
	ID        string         `xml:"reservationId"`
	Owner     string         `xml:"ownerId"`
	Groups    []wireGroupRef `xml:"groupSet>item"`
	Instances []wireInstance `xml:"instancesSet>item"`
}

type wireGroupRef struct {
	ID   string `xml:"groupId"`
	Name string `xml:"groupName"`
}

type wireInstance struct {
	ID             string           `xml:"instanceId"`
	ImageID        string           `xml:"imageId"`
	State          wireState        `xml:"instanceState"`
	Reason         *wireReason      `xml:"stateReason"`
	PrivateDNS     string           `xml:"privateDnsName"`
	PrivateIP      string           `xml:"privateIpAddress,omitempty"`
	KeyName        string           `xml:"keyName,omitempty"`
	LaunchIndex    int              `xml:"amiLaunchIndex"`
	Type           string           `xml:"instanceType"`
	LaunchTime     string           `xml:"launchTime"`
	Placement      placement        `xml:"placement"`
	Monitoring     wireNamedState   `xml:"monitoring"`
	SubnetID       string           `xml:"subnetId,omitempty"`
	VPC            string           `xml:"vpcId,omitempty"`
	Architecture   string           `xml:"architecture"`
	RootType       string           `xml:"rootDeviceType"`
	RootName       string           `xml:"rootDeviceName"`
	Virtualization string           `xml:"virtualizationType"`
	Hypervisor     string           `xml:"hypervisor"`
	Lifecycle      string           `xml:"instanceLifecycle,omitempty"`
	ClientToken    string           `xml:"clientToken,omitempty"`
	Profile        *instanceProfile `xml:"iamInstanceProfile"`
	Platform       string           `xml:"platformDetails"`
	ReservationID  string           `xml:"capacityReservationId,omitempty"`
	BlockID        string           `xml:"capacityBlockId,omitempty"`
	Specification  reservationSpec  `xml:"capacityReservationSpecification"`
	Groups         []wireGroupRef   `xml:"groupSet>item"`
	Interfaces     []wireInterface  `xml:"networkInterfaceSet>item"`
	Tags           []tag            `xml:"tagSet>item"`
}

type wireState struct {
	Code int    `xml:"code"`
	Name string `xml:"name"`
}

type wireNamedState struct {
	State string `xml:"state"`
}

type wireReason struct {
	Code    string `xml:"code"`
	Message string `xml:"message"`
}

// wireLaunches groups instances by their launch, keeping their order.
func (s *Sim) wireLaunches(instances []*instance) []wireLaunch {
	var out []wireLaunch
	for _, i := range instances {
		if len(out) == 0 || out[len(out)-1].ID != i.LaunchID {
			out = append(out, wireLaunch{ID: i.LaunchID, Owner: s.scenario.Account})
		}
		last := &out[len(out)-1]
		last.Instances = append(last.Instances, s.wireInstance(i))
	}
	return out
}

func (s *Sim) wireInstance(i *instance) wireInstance {
	w := wireInstance{
		ID: i.ID, ImageID: i.ImageID, State: wireState{stateCodes[i.State], i.State},
		KeyName: i.data.KeyName, LaunchIndex: i.AMILaunchIndex, Type: i.Type, LaunchTime: wireTime(i.LaunchTime),
		Placement:  placement{AvailabilityZone: i.Zone, AvailabilityZoneId: i.subnet.zone.id, Tenancy: i.tenancy},
		Monitoring: wireNamedState{"disabled"}, Architecture: i.architecture, RootType: "ebs", RootName: "/dev/xvda",
		Virtualization: "hvm", Hypervisor: "xen", Lifecycle: i.Lifecycle, ClientToken: i.clientToken,
		Profile: i.data.IamInstanceProfile, Platform: i.platform, ReservationID: i.ReservationID, BlockID: i.BlockID,
		Specification: i.specification(), Tags: wireTags(s.regions[i.Region].shownTags(i.ID, i.Tags)),
	}
	r := s.regions[i.Region]
	if i.State != stateTerminated { // EC2 forgets the network of a terminated instance
		w.PrivateIP, w.SubnetID, w.VPC = i.PrivateIP, i.SubnetID, i.subnet.vpc
		w.PrivateDNS = "ip-" + strings.ReplaceAll(i.PrivateIP, ".", "-") + "." + i.Region + ".compute.internal"
		for _, id := range i.groups() {
			if g := r.group(id); g != nil {
				w.Groups = append(w.Groups, wireGroupRef{g.ID, g.Name})
			}
		}
		for k, n := range i.interfaces {
			w.Interfaces = append(w.Interfaces, n.wire(r, i.ID, k))
		}
	}
	if w.Profile != nil && w.Profile.Arn == "" {
		w.Profile = &instanceProfile{Arn: s.iamARN("instance-profile/" + w.Profile.Name)}
	} else if w.Profile != nil {
		w.Profile = &instanceProfile{Arn: w.Profile.Arn}
	}
	if i.reason != "" {
		w.Reason = &wireReason{i.reason, i.reason}
	}
	return w
}

func (i *instance) specification() reservationSpec {
	if spec := i.data.CapacityReservationSpecification; spec != nil {
		return *spec
	}
	return reservationSpec{CapacityReservationPreference: "open"}
}

func (i *instance) groups() []string {
	ids := slices.Clone(i.data.SecurityGroupIds)
	for _, ni := range i.data.NetworkInterfaces {
		ids = append(ids, ni.Groups...)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

type describeInstancesInput struct {
	InstanceIDs []string `form:"InstanceId"`
	Filters     []filter `form:"Filter"`
	paging
}

var instanceFilters = filterNames[*instance]{
	values: map[string]func(*instance) []string{
		"instance-id":             one(func(i *instance) string { return i.ID }),
		"instance-state-name":     one(func(i *instance) string { return i.State }),
		"instance-state-code":     one(func(i *instance) string { return strconv.Itoa(stateCodes[i.State]) }),
		"instance-type":           one(func(i *instance) string { return i.Type }),
		"instance-lifecycle":      one(func(i *instance) string { return i.Lifecycle }),
		"image-id":                one(func(i *instance) string { return i.ImageID }),
		"private-ip-address":      one(func(i *instance) string { return i.PrivateIP }),
		"subnet-id":               one(func(i *instance) string { return i.SubnetID }),
		"vpc-id":                  one(func(i *instance) string { return i.subnet.vpc }),
		"availability-zone":       one(func(i *instance) string { return i.Zone }),
		"availability-zone-id":    one(func(i *instance) string { return i.subnet.zone.id }),
		"capacity-reservation-id": one(func(i *instance) string { return i.ReservationID }),
		"client-token":            one(func(i *instance) string { return i.clientToken }),
		"launch-time":             one(func(i *instance) string { return i.LaunchTime.UTC().Format("2006-01-02T15:04:05.000Z") }),
		"launch-index":            one(func(i *instance) string { return strconv.Itoa(i.AMILaunchIndex) }),
		"reservation-id":          one(func(i *instance) string { return i.LaunchID }),
		"tenancy":                 one(func(i *instance) string { return i.tenancy }),
	}}

func (s *Sim) describeInstances(c *call, in *describeInstancesInput) (any, error) {
	id := func(i *instance) string { return i.ID }
	items, err := byID(shown(c.region, c.region.byLaunch(), id), in.InstanceIDs, id, instanceNotFound)
	if err != nil {
		return nil, err
	}
	names := instanceFilters
	names.tags = func(i *instance) map[string]string { return c.region.shownTags(i.ID, i.Tags) }
	if items, err = names.apply(in.Filters, items); err != nil {
		return nil, err
	}
	part, next, err := page(c, in.paging, 5, 1000, len(in.InstanceIDs) > 0, items)
	return struct {
		Launches []wireLaunch `xml:"reservationSet>item"`
		Next     string       `xml:"nextToken,omitempty"`
	}{s.wireLaunches(part), next}, err
}

type terminateInstancesInput struct {
	InstanceIDs           []string `form:"InstanceId"`
	Force, SkipOsShutdown bool
}

type wireTransition struct {
	ID       string    `xml:"instanceId"`
	Current  wireState `xml:"currentState"`
	Previous wireState `xml:"previousState"`
}

func (s *Sim) terminateInstances(c *call, in *terminateInstancesInput) (any, error) {
	for _, id := range in.InstanceIDs {
		if c.region.instances[id] == nil || !c.region.shows(id) {
			return nil, instanceNotFound(id)
		}
		if err := c.region.instances[id].protected(); err != nil {
			return nil, err
		}
	}
	var out struct {
		Instances []wireTransition `xml:"instancesSet>item"`
	}
	for _, id := range in.InstanceIDs {
		i := c.region.instances[id]
		before := i.State
		s.terminate(c.region, i, "Client.UserInitiatedShutdown")
		after := i.State
		if before != stateTerminated {
			after = stateShuttingDown // EC2's answer, even if it is done at once
		}
		out.Instances = append(out.Instances, wireTransition{id, wireState{stateCodes[after], after}, wireState{stateCodes[before], before}})
	}
	return out, nil
}

// protected refuses to end an instance with termination protection. EC2 itself, which takes back a block, does not ask.
func (i *instance) protected() error {
	if on := i.data.DisableApiTermination; on == nil || !*on || i.State == stateShuttingDown || i.State == stateTerminated {
		return nil
	}
	return apiErrorf("OperationNotPermitted", "The instance '%s' may not be terminated. Modify its 'disableApiTermination' instance attribute and try again.", i.ID)
}

func instanceNotFound(id string) error {
	if !wellFormed(id, "i") {
		return apiErrorf("InvalidInstanceID.Malformed", "Invalid id: \"%s\"", id)
	}
	return apiErrorf("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", id)
}
