package awssim

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	statePending      = "pending"
	stateRunning      = "running"
	stateShuttingDown = "shutting-down"
	stateTerminated   = "terminated"
	userShutdown      = "Client.UserInitiatedShutdown" // StateReason
)

// stateCodes are EC2's numbers of instance states (EC2 API Reference, InstanceState).
var stateCodes = map[string]int{statePending: 0, stateRunning: 16, stateShuttingDown: 32, stateTerminated: 48}

// keepTerminated bounds how long a terminated instance stays visible.
const keepTerminated = time.Hour

// instance is one instance with the simulator's own facts about it.
type instance struct {
	Instance
	subnet     *subnet
	seat       *reservation // the place that it takes, until that is clean again
	data       launchData
	interfaces []launchInterface
	sessions   []string  // tokens, with its metadata service
	retires    time.Time // when EC2 stops it for its host; zero if it does not
}

// take gives the instance a place in a reservation, or none.
func (i *instance) take(seat *reservation) {
	i.seat = seat
	i.ReservationID = ""

	if seat != nil {
		i.ReservationID = seat.ID
	}
}

// site returns the place and the kind of the instance, as a launch has them.
func (i *instance) site(r *region) site {
	at := site{subnet: i.subnet, kind: r.types[i.Type], tenancy: "default"}
	if image := r.image(i.ImageID); image != nil {
		at.platform = reservationPlatform(image.Platform)
	}

	if p := i.data.Placement; p != nil {
		at.tenancy = cmp.Or(p.Tenancy, at.tenancy)
		at.placementGroup = p.GroupName
	}

	return at
}

func (i *instance) view() Instance {
	v := i.Instance
	v.Tags = maps.Clone(i.Tags)
	return v
}

// byLaunch lists the instances in the order of launch.
func (r *region) byLaunch() []*instance {
	return slices.SortedFunc(maps.Values(r.instances), func(a, b *instance) int {
		return cmp.Or(
			a.LaunchTime.Compare(b.LaunchTime),
			strings.Compare(a.LaunchID, b.LaunchID),
			a.AMILaunchIndex-b.AMILaunchIndex,
		)
	})
}

// terminate ends one instance, and frees its place when that is clean. Called with mu held.
func (s *Sim) terminate(r *region, i *instance, reason string) {
	if i.State == stateShuttingDown || i.State == stateTerminated {
		return
	}

	i.State = stateShuttingDown
	s.emit(Terminated, reason, i)
	s.later(time.Duration(s.scenario.ShutdownDelay), func() {
		i.State = stateTerminated
		s.later(time.Duration(s.scenario.CleanupDelay), func() { i.seat = nil })
		s.at(s.now.Add(keepTerminated), func() { delete(r.instances, i.ID) })
	})
}

type runInstancesInput struct {
	launchData
	MinCount          int
	MaxCount          int
	SubnetId          string
	LaunchTemplate    *templateReference
	TagSpecifications []tagSpecification
	ClientToken       string
}

// order returns what the request asks for, with its launch template.
func (in *runInstancesInput) order(r *region) (launchOrder, error) {
	tags, err := specifiedTags(in.TagSpecifications, "instance", launchTaggable...)
	if err != nil {
		return launchOrder{}, err
	}

	o := launchOrder{
		launchData: in.launchData,
		min:        in.MinCount,
		max:        in.MaxCount,
		subnet:     in.SubnetId,
		tags:       tags,
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
				return nil, apiErrorf(
					"IdempotentInstanceTerminated",
					"The client token you have provided is associated with a terminated instance. Please use a "+
						"different client token.",
				)
			}

			return s.wireLaunches(made)[0], nil
		}, nil
	})
}

func stateObject(name string) object { return object{"Code": stateCodes[name], "Name": name} }

// wireLaunches groups instances by their launch, keeping their order.
func (s *Sim) wireLaunches(instances []*instance) []object {
	var out []object
	for _, i := range instances {
		if len(out) == 0 || out[len(out)-1]["ReservationId"] != i.LaunchID {
			out = append(
				out,
				object{"ReservationId": i.LaunchID, "OwnerId": s.scenario.Account, "Instances": []object(nil)},
			)
		}

		last := out[len(out)-1]
		last["Instances"] = append(last["Instances"].([]object), s.wireInstance(i))
	}

	return out
}

func (s *Sim) wireInstance(i *instance) object {
	r := s.regions[i.Region]
	w := object{
		"InstanceId":            i.ID,
		"ImageId":               i.ImageID,
		"State":                 stateObject(i.State),
		"AmiLaunchIndex":        i.AMILaunchIndex,
		"InstanceType":          i.Type,
		"LaunchTime":            i.LaunchTime,
		"Placement":             object{"AvailabilityZone": i.Zone},
		"InstanceLifecycle":     i.Lifecycle,
		"CapacityReservationId": i.ReservationID,
		"CapacityBlockId":       i.BlockID,
		"Tags":                  i.Tags,
	}
	if i.State != stateTerminated { // EC2 forgets the network of a terminated instance
		w["PrivateIpAddress"] = i.PrivateIP
		w["SubnetId"] = i.SubnetID
		w["VpcId"] = i.subnet.vpc

		var interfaces []object
		for k, n := range i.interfaces {
			interfaces = append(interfaces, n.wire(r, i.ID, k))
		}

		w["NetworkInterfaces"] = interfaces
	}

	return w
}

// groupObjects returns the security groups of some ids, as answers name them.
func (r *region) groupObjects(ids []string) []object {
	var all []object
	for _, id := range ids {
		if g := r.group(id); g != nil {
			all = append(all, object{"GroupId": g.ID, "GroupName": g.Name})
		}
	}

	return all
}

type describeInstancesInput struct {
	InstanceIds []string
	listing
}

func (s *Sim) describeInstances(c *call, in *describeInstancesInput) (any, error) {
	id := func(i *instance) string { return i.ID }

	items, err := byID(visible(c.region, c.region.byLaunch(), id), in.InstanceIds, id, instanceNotFound)
	if err != nil {
		return nil, err
	}

	var all []object
	for _, i := range items {
		all = append(all, s.wireInstance(i))
	}

	part, next, err := list(
		c,
		in.listing,
		5,
		1000,
		len(in.InstanceIds) > 0,
		"instance-id instance-state-name=State.Name capacity-reservation-id tag",
		all,
	)

	var kept []*instance
	for _, o := range part {
		kept = append(kept, c.region.instances[o["InstanceId"].(string)])
	}

	return object{"Reservations": s.wireLaunches(kept), "NextToken": next}, err
}

type terminateInstancesInput struct {
	InstanceIds           []string
	Force, SkipOsShutdown bool
}

func (s *Sim) terminateInstances(c *call, in *terminateInstancesInput) (any, error) {
	for _, id := range in.InstanceIds {
		if c.region.instances[id] == nil || !c.region.isVisible(id) {
			return nil, instanceNotFound(id)
		}
	}

	var changes []object
	for _, id := range in.InstanceIds {
		i := c.region.instances[id]
		before := i.State
		s.terminate(c.region, i, userShutdown)

		after := i.State
		if before != stateTerminated {
			after = stateShuttingDown // EC2's answer, even if it is done at once
		}

		changes = append(
			changes,
			object{"InstanceId": id, "CurrentState": stateObject(after), "PreviousState": stateObject(before)},
		)
	}

	return object{"TerminatingInstances": changes}, nil
}

func instanceNotFound(id string) error {
	if !wellFormed(id, "i") {
		return apiErrorf("InvalidInstanceID.Malformed", "Invalid id: \"%s\"", id)
	}
	return apiErrorf("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", id)
}

func (s *Sim) statusObjects(c *call) (all []object) {
	for _, i := range visible(c.region, c.region.byLaunch(), func(i *instance) string { return i.ID }) {
		if i.State != stateRunning {
			continue
		}

		w := object{
			"InstanceId":       i.ID,
			"AvailabilityZone": i.Zone,
			"InstanceState":    stateObject(i.State),
			"SystemStatus":     object{"Status": "ok"},
		}
		if i.HostFailed {
			w["SystemStatus"] = object{"Status": "impaired"}
		}

		if !i.retires.IsZero() {
			w["Events"] = []object{
				{
					"Code":        "instance-retirement",
					"Description": "The instance is running on degraded hardware",
					"NotBefore":   i.retires,
				},
			}
		}

		all = append(all, w)
	}

	return all
}

// Retire has EC2 announce that it stops an instance then, because its host is degraded.
func (s *Sim) Retire(region, instanceID string, at time.Time) {
	s.do(func() { s.regions[region].instances[instanceID].retires = at })
}

type getConsoleOutputInput struct {
	InstanceId string
	Latest     bool
}

func (s *Sim) getConsoleOutput(c *call, in *getConsoleOutputInput) (any, error) {
	if c.region.instances[in.InstanceId] == nil || !c.region.isVisible(in.InstanceId) {
		return nil, instanceNotFound(in.InstanceId)
	}

	text := ""
	if s.console != nil {
		text = s.console(in.InstanceId)
	}

	return object{
		"InstanceId": in.InstanceId,
		"Timestamp":  s.now,
		"Output":     base64.StdEncoding.EncodeToString([]byte(text)),
	}, nil
}

// OnConsole has an instance's console say what read returns. It may not call the simulator.
func (s *Sim) OnConsole(read func(instanceID string) string) { s.do(func() { s.console = read }) }

// reservationTopologies returns the network nodes of reservations, from the top of the network down. Reservations that
// are neither active nor pending have none. Here reservations of one type and zone share all nodes but the lowest.
func (s *Sim) reservationTopologies(c *call) (all []object) {
	for _, res := range c.region.visibleReservations() {
		w := s.wireReservation(c.region, res)
		zone, _ := w["AvailabilityZoneId"].(string)
		one := object{
			"CapacityReservationId": res.ID,
			"State":                 res.state,
			"InstanceType":          res.Type,
			"AvailabilityZoneId":    zone,
			"AvailabilityZone":      w["AvailabilityZone"],
		}
		if res.state == "active" || res.state == "pending" {
			one["NetworkNodes"] = []string{networkNode(zone), networkNode(zone, res.Type), networkNode(res.ID)}
		}

		all = append(all, one)
	}

	return all
}

// instanceTopologies returns the network nodes of running instances: those of their reservation, and below them one for
// each two instances of a launch.
func (s *Sim) instanceTopologies(c *call) (all []object) {
	for _, i := range c.region.byLaunch() {
		if i.State != stateRunning || !c.region.isVisible(i.ID) {
			continue
		}

		zone := i.subnet.zone.id
		one := object{
			"InstanceId":       i.ID,
			"InstanceType":     i.Type,
			"AvailabilityZone": i.Zone,
			"ZoneId":           zone,
			"NetworkNodes": []string{
				networkNode(zone),
				networkNode(zone, i.Type),
				networkNode(i.ReservationID),
				networkNode(i.LaunchID, fmt.Sprint(i.AMILaunchIndex/2)),
			},
		}
		if i.seat != nil && i.seat.ultraServer != "" {
			one["CapacityBlockId"] = i.BlockID
		}

		all = append(all, one)
	}

	return all
}

// networkNode returns the id of a node of the network, as EC2 hashes it for each account.
func networkNode(of ...string) string {
	return fmt.Sprintf("nn-%.17x", sha256.Sum256(fmt.Append(nil, of)))[:20]
}
