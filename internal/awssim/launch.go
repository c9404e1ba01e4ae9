package awssim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// LaunchRequest asks for instances as a service of AWS would, in the process.
type LaunchRequest struct {
	Region                string
	MinCount, MaxCount    int    // MinCount instances or none
	LaunchTemplateID      string // optional; the fields below that are set override it
	LaunchTemplateVersion string // number, $Latest or $Default (the default)
	InstanceType          string
	ImageID               string
	SubnetID              string
	MarketType            string // capacity-block, interruptible-capacity-reservation or empty
	ReservationID         string // targeted reservation
	InstanceProfileARN    string
	UserData              string            // base64
	Tags                  map[string]string // of the instances; services may set aws: tags
}

// Launch runs instances. An error is an *APIError with EC2's code.
func (s *Sim) Launch(req LaunchRequest) (launched []Instance, err error) {
	s.do(func() {
		var made []*instance
		made, err = s.launch(req)
		for _, i := range made {
			launched = append(launched, i.view())
		}
	})
	return launched, err
}

// Terminate ends instances; those that are terminated already are left alone. Reason is the code
// that StateReason shows, such as Server.InternalError.
func (s *Sim) Terminate(regionName string, ids []string, reason string) (err error) {
	s.do(func() { err = s.terminateIDs(regionName, ids, reason) })
	return err
}

// Instances lists the instances of a region, or of all with an empty name, in the order of launch.
// Terminated ones stay in the list for an hour.
func (s *Sim) Instances(regionName string) []Instance {
	var out []Instance
	s.do(func() {
		for _, name := range s.order {
			if regionName != "" && name != regionName {
				continue
			}
			for _, i := range s.regions[name].byLaunch() {
				out = append(out, i.view())
			}
		}
	})
	return out
}

// launch is Launch for callers that hold mu.
func (s *Sim) launch(req LaunchRequest) ([]*instance, error) {
	r := s.regions[req.Region]
	if r == nil {
		return nil, fmt.Errorf("launch: no region %q", req.Region)
	}
	data := launchData{ImageId: req.ImageID, InstanceType: req.InstanceType, UserData: req.UserData}
	if req.InstanceProfileARN != "" {
		data.IamInstanceProfile = &instanceProfile{Arn: req.InstanceProfileARN}
	}
	if req.MarketType != "" {
		data.InstanceMarketOptions = &marketOptions{MarketType: req.MarketType}
	}
	if req.ReservationID != "" {
		data.CapacityReservationSpecification = &reservationSpec{
			CapacityReservationTarget: &reservationTarget{CapacityReservationId: req.ReservationID},
		}
	}
	order := launchOrder{min: req.MinCount, max: req.MaxCount, subnet: req.SubnetID, launchData: data, tags: req.Tags}
	if req.LaunchTemplateID != "" {
		err := order.template(r, templateReference{LaunchTemplateId: req.LaunchTemplateID, Version: req.LaunchTemplateVersion})
		if err != nil {
			return nil, err
		}
	}
	if len(order.NetworkInterfaces) > 0 && order.subnet != "" {
		// Services launch with CreateFleet, whose subnet applies to the network interfaces of the template.
		order.NetworkInterfaces = slices.Clone(order.NetworkInterfaces)
		for i := range order.NetworkInterfaces {
			order.NetworkInterfaces[i].SubnetId = order.subnet
		}
		order.subnet = ""
	}
	return s.run(r, order)
}

// terminateIDs is Terminate for callers that hold mu.
func (s *Sim) terminateIDs(regionName string, ids []string, reason string) error {
	r := s.regions[regionName]
	if r == nil {
		return fmt.Errorf("terminate: no region %q", regionName)
	}
	for _, id := range ids {
		if r.instances[id] == nil {
			return instanceNotFound(id)
		}
	}
	for _, id := range ids {
		s.terminate(r, r.instances[id], reason)
	}
	return nil
}

// launchOrder is a launch with the launch template already merged in.
type launchOrder struct {
	launchData
	min, max    int
	subnet      string // of the request; network interfaces may name it instead
	address     string // private address of the request
	tags        map[string]string
	clientToken string
}

type templateReference struct {
	LaunchTemplateId   string
	LaunchTemplateName string
	Version            string
}

// template puts the parameters of a launch template under those of the order.
func (o *launchOrder) template(r *region, ref templateReference) error {
	t, err := r.template(ref.LaunchTemplateId, ref.LaunchTemplateName)
	if err != nil {
		return err
	}
	v, err := t.version(ref.Version)
	if err != nil {
		return err
	}
	o.launchData = v.data.launchData.override(o.launchData)
	tags, err := specifiedTags(v.data.TagSpecifications, "instance", launchTaggable...)
	if err != nil {
		return err
	}
	o.tags = mergeTags(tags, o.tags)
	o.tags["aws:ec2launchtemplate:id"] = t.id
	o.tags["aws:ec2launchtemplate:version"] = fmt.Sprint(v.number)
	return nil
}

// launchTaggable are the other things that a launch can tag; the simulator has none of them.
var launchTaggable = []string{"volume", "network-interface", "spot-instances-request", "elastic-gpu"}

// site is where and what a checked order launches.
type site struct {
	subnet   *subnet
	kind     *instanceType
	image    *ImageScenario
	tenancy  string
	platform string
	address  string // asked private address, or empty
}

// run launches what an order asks for: at least min instances, or none. Called with mu held.
func (s *Sim) run(r *region, o launchOrder) ([]*instance, error) {
	at, err := r.checkOrder(o)
	if err != nil {
		return nil, err
	}
	seats, err := r.seats(o, at)
	if err != nil {
		return nil, err
	}
	addresses := []string{at.address}
	if at.address == "" {
		if addresses, err = r.takeAddresses(at.subnet, len(seats)); err != nil {
			return nil, err
		}
	}
	launchID := s.newID("r")
	var made []*instance
	for n, seat := range seats {
		i := s.newInstance(r, o, at, seat)
		i.LaunchID, i.AMILaunchIndex, i.PrivateIP = launchID, n, addresses[n]
		r.instances[i.ID] = i
		made = append(made, i)
	}
	for _, i := range made {
		s.emit(Launched, "", i)
		s.later(time.Duration(s.scenario.BootDelay), func() {
			if i.State == statePending {
				i.State = stateRunning
			}
		})
	}
	return made, nil
}

func (s *Sim) newInstance(r *region, o launchOrder, at site, seat *reservation) *instance {
	i := &instance{
		Instance: Instance{
			ID: s.newID("i"), Region: r.name, Zone: at.subnet.zone.name, Type: at.kind.Name, State: statePending,
			SubnetID: at.subnet.id, ImageID: at.image.ID, LaunchTime: s.now.Truncate(time.Second),
			UserData: o.UserData, Tags: copyTags(o.tags),
		},
		subnet: at.subnet, data: o.launchData, platform: at.platform, tenancy: at.tenancy,
		architecture: at.image.Architecture, clientToken: o.clientToken,
	}
	if seat != nil {
		i.seat, i.ReservationID = seat, seat.ID
		switch seat.kind {
		case kindBlock:
			i.BlockID, i.Lifecycle = seat.blockFor(r), "capacity-block"
		case kindInterruptible:
			i.Lifecycle = "interruptible-capacity-reservation"
		}
	}
	return i
}

// checkOrder checks everything but capacity.
func (r *region) checkOrder(o launchOrder) (site, error) {
	if o.min < 1 || o.max < o.min {
		return site{}, apiErrorf("InvalidParameterValue", "Invalid value '%d' for MinCount or '%d' for MaxCount: want 1 <= MinCount <= MaxCount", o.min, o.max)
	}
	if err := o.check(); err != nil {
		return site{}, err
	}
	if o.ImageId == "" {
		return site{}, apiErrorf("MissingParameter", "The request must contain the parameter ImageId")
	}
	at := site{image: r.image(o.ImageId), tenancy: "default"}
	if at.image == nil {
		return site{}, imageNotFound(o.ImageId)
	}
	at.platform = at.image.Platform
	name := cmp.Or(o.InstanceType, "m1.small")
	if at.kind = r.types[name]; at.kind == nil {
		return site{}, apiErrorf("InvalidParameterValue", "Invalid value '%s' for InstanceType.", name)
	}
	if at.kind.Architecture != at.image.Architecture {
		return site{}, apiErrorf("InvalidParameterValue",
			"The architecture '%s' of the specified instance type does not match the architecture '%s' of the specified AMI.",
			at.kind.Architecture, at.image.Architecture)
	}
	if o.Placement != nil {
		at.tenancy = cmp.Or(o.Placement.Tenancy, at.tenancy)
	}
	var err error
	if at.subnet, at.address, err = r.launchSubnet(o); err != nil {
		return site{}, err
	}
	if err := r.checkGroups(o, at.subnet); err != nil {
		return site{}, err
	}
	if !r.offers(at.kind.Name, at.subnet.zone.id) {
		return site{}, apiErrorf("Unsupported",
			"Your requested instance type (%s) is not supported in your requested Availability Zone (%s).%s",
			at.kind.Name, at.subnet.zone.name, r.otherZones(at))
	}
	return at, nil
}

// otherZones is the hint with which EC2 ends its capacity errors.
func (r *region) otherZones(at site) string {
	var zones []string
	for _, z := range r.zones {
		if z != at.subnet.zone && r.offers(at.kind.Name, z.id) {
			zones = append(zones, z.name)
		}
	}
	if zones == nil {
		return ""
	}
	return " Please retry your request by not specifying an Availability Zone or choosing " + strings.Join(zones, ", ") + "."
}

// launchSubnet finds the subnet: of the request, or of its primary network interface.
func (r *region) launchSubnet(o launchOrder) (*subnet, string, error) {
	id, address := o.subnet, o.address
	if len(o.NetworkInterfaces) > 0 {
		if o.subnet != "" {
			return nil, "", apiErrorf("InvalidParameterCombination", "Network interfaces and an instance-level subnet ID may not be specified on the same request")
		}
		if len(o.SecurityGroupIds)+len(o.SecurityGroups) > 0 {
			return nil, "", apiErrorf("InvalidParameterCombination", "Network interfaces and an instance-level security groups may not be specified on the same request")
		}
		id, address = o.NetworkInterfaces[0].SubnetId, o.NetworkInterfaces[0].PrivateIpAddress
	}
	if id == "" {
		return r.defaultSubnet(o)
	}
	sn := r.subnet(id)
	if sn == nil {
		return nil, "", subnetNotFound(id)
	}
	if p := o.Placement; p != nil && (p.AvailabilityZone != "" && p.AvailabilityZone != sn.zone.name ||
		p.AvailabilityZoneId != "" && p.AvailabilityZoneId != sn.zone.id) {
		return nil, "", apiErrorf("InvalidParameterCombination", "The subnet '%s' is in availability zone %s, not in the one of the placement", id, sn.zone.name)
	}
	if address != "" {
		if o.max > 1 {
			return nil, "", apiErrorf("InvalidParameterCombination", "A private IP address can be specified for one instance only")
		}
		if err := r.checkAddress(sn, address); err != nil {
			return nil, "", err
		}
	}
	return sn, address, nil
}

// defaultSubnet is one of the default VPC, in the zone of the placement if that names one.
func (r *region) defaultSubnet(o launchOrder) (*subnet, string, error) {
	for _, sn := range r.subnets {
		if v := r.vpc(sn.vpc); !v.Default {
			continue
		}
		p := o.Placement
		if p == nil || (p.AvailabilityZone == "" || p.AvailabilityZone == sn.zone.name) &&
			(p.AvailabilityZoneId == "" || p.AvailabilityZoneId == sn.zone.id) {
			return sn, "", nil
		}
	}
	return nil, "", apiErrorf("VPCIdNotSpecified", "No default VPC for this user")
}

func (r *region) checkGroups(o launchOrder, sn *subnet) error {
	ids := slices.Clone(o.SecurityGroupIds)
	for _, ni := range o.NetworkInterfaces {
		ids = append(ids, ni.Groups...)
	}
	for _, id := range ids {
		g := r.group(id)
		if g == nil {
			return groupNotFound(id)
		}
		if g.VPC != sn.vpc {
			return apiErrorf("InvalidParameter", "Security group %s and subnet %s belong to different networks.", id, sn.id)
		}
	}
	return nil
}

// later has run called after d, or now when d is not positive. Called with mu held.
func (s *Sim) later(d time.Duration, run func()) {
	if d <= 0 {
		run()
		return
	}
	s.at(s.now.Add(d), run)
}
