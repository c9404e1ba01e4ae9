package awssim

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Instances lists the instances of a region, or of all with an empty name, in the order of launch.
// Terminated ones stay in the list for an hour.
func (s *Sim) Instances(regionName string) []Instance {
	out := []Instance{}
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

// launchOrder is a launch with the launch template already merged in.
type launchOrder struct {
	launchData
	min, max int
	subnet   string // of the request; network interfaces may name it instead
	tags     map[string]string
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

	data := v.data.read()
	o.launchData = data.override(o.launchData)

	tags, err := specifiedTags(data.TagSpecifications, "instance", launchTaggable...)
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

	addresses, err := r.takeAddresses(at.subnet, len(seats))
	if err != nil {
		return nil, err
	}

	interfaces, err := r.takeInterfaces(at, addresses)
	if err != nil {
		return nil, err
	}

	// Nothing below fails: EC2 launches all that it has promised, or nothing.
	launchID := s.newID("r")

	var made []*instance
	for n, seat := range seats {
		i := s.newInstance(r, o, at, seat)
		i.LaunchID = launchID
		i.AMILaunchIndex = n
		i.PrivateIP = addresses[n]
		i.interfaces = interfaces[n]
		r.instances[i.ID] = i
		r.hide(i.ID, s.lag.Instances)
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
			ID:         s.newID("i"),
			Region:     r.name,
			Zone:       at.subnet.zone.name,
			Type:       at.kind.Name,
			State:      statePending,
			SubnetID:   at.subnet.id,
			ImageID:    at.image.ID,
			LaunchTime: s.now.Truncate(time.Second),
			UserData:   o.UserData,
			Tags:       copyTags(o.tags),
		},
		subnet: at.subnet,
		data:   o.launchData,
	}
	i.take(seat)

	if seat != nil {
		seat.launched++
		if seat.kind == kindBlock {
			i.BlockID = seat.blockFor(r)
			i.Lifecycle = "capacity-block"
		}
	}

	return i
}

// launchInterface is a network interface of an instance, or of one that is being launched.
type launchInterface struct {
	subnet       *subnet
	address      string // "" for efa-only, which has none
	kind         string // interface, efa, efa-only
	card, device int
	groups       []string
	stays        bool // when its instance ends
}

// wire returns the k-th interface of an instance as EC2 shows it.
func (n launchInterface) wire(r *region, instanceID string, k int) object {
	return object{
		"NetworkInterfaceId": fmt.Sprintf("eni%s%02x", instanceID[1:len(instanceID)-2], k),
		"SubnetId":           n.subnet.id,
		"VpcId":              n.subnet.vpc,
		"PrivateIpAddress":   n.address,
		"InterfaceType":      n.kind,
		"Groups":             r.groupObjects(n.groups),
		"Attachment": object{
			"DeviceIndex":         n.device,
			"NetworkCardIndex":    n.card,
			"Status":              "attached",
			"DeleteOnTermination": !n.stays,
		},
	}
}

// primaryInterface returns the interface at device index 0 of the first network card.
func (o launchOrder) primaryInterface() (networkInterface, error) {
	for _, n := range o.NetworkInterfaces {
		if number(n.DeviceIndex) == 0 && number(n.NetworkCardIndex) == 0 {
			return n, nil
		}
	}

	return networkInterface{}, apiErrorf(
		"InvalidParameterCombination",
		"When specifying network interfaces, you must include a device at index 0.",
	)
}

// number returns the value of an optional integer, 0 for none.
func number(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

// checkInterfaces checks the network interfaces of an order against its instance type, and puts the primary one first.
// An order without any gets that one.
func (r *region) checkInterfaces(o launchOrder, at site) ([]launchInterface, error) {
	if len(o.NetworkInterfaces) == 0 {
		return []launchInterface{{subnet: at.subnet, kind: "interface", groups: o.SecurityGroupIds}}, nil
	}

	var all []launchInterface

	efas := 0
	for _, n := range o.NetworkInterfaces {
		sn, err := r.namedSubnet(n.SubnetId)
		if err != nil {
			return nil, err
		}

		one := launchInterface{
			subnet: sn,
			kind:   cmp.Or(n.InterfaceType, "interface"),
			card:   number(n.NetworkCardIndex),
			device: number(n.DeviceIndex),
			groups: n.Groups,
		}
		one.stays = n.DeleteOnTermination != nil && !*n.DeleteOnTermination
		switch one.kind {
		case "interface":
		case "efa", "efa-only":
			efas++
		default:
			return nil, apiErrorf(
				"InvalidParameterValue",
				"Value (%s) for parameter interfaceType is invalid.",
				one.kind,
			)
		}

		if err := one.check(n, all, at, len(o.NetworkInterfaces)); err != nil {
			return nil, err
		}

		all = append(all, one)
	}

	if efas > at.kind.network.efa {
		return nil, apiErrorf(
			"AttachmentLimitExceeded",
			"EFA interface count %d exceeds the limit for %s",
			efas,
			at.kind.Name,
		)
	}

	// The primary interface takes the address that EC2 reports for the instance.
	slices.SortStableFunc(all, func(a, b launchInterface) int {
		return cmp.Or(a.card-b.card, a.device-b.device)
	})

	return all, nil
}

// check refuses an interface that contradicts the ones before it.
func (n launchInterface) check(asked networkInterface, before []launchInterface, at site, count int) error {
	if slices.ContainsFunc(
		before,
		func(other launchInterface) bool { return other.card == n.card && other.device == n.device },
	) {
		return apiErrorf("InvalidParameterValue", "Each network interface requires a unique device index.")
	}

	most := at.kind.network.perCard
	switch {
	case n.subnet.zone != at.subnet.zone:
		return apiErrorf("InvalidParameterCombination", "All network interfaces must be in the same availability zone")
	case n.card < 0 || n.card >= at.kind.network.cards:
		return apiErrorf(
			"InvalidParameterValue",
			"Network card index %d is not valid for instance type %s",
			n.card,
			at.kind.Name,
		)
	case n.device < 0 || n.device >= most: // message as in eksctl-io/eksctl, issue 7520
		return apiErrorf(
			"InvalidParameterValue",
			"The specified number '%d' for the device index exceeds the maximum number of network interfaces "+
				"supported by the network card at network card index %d. The maximum devices for this network card is "+
				"%d. Specify a number from 0 to %d, and try again.",
			n.device,
			n.card,
			most,
			most-1,
		)
	case n.kind != "interface" && at.kind.network.efa == 0:
		return apiErrorf("Unsupported", "%s instances do not support Elastic Fabric Adapters.", at.kind.Name)
	case n.kind != "interface" && slices.Contains(at.kind.network.enaOnly, n.card):
		return apiErrorf(
			"InvalidParameterValue",
			"Network card %d of %s does not support Elastic Fabric Adapters.",
			n.card,
			at.kind.Name,
		)
	case n.kind == "efa-only" && n.card == 0 && n.device == 0:
		// EC2 User Guide, "efa-acc-inst-types": an EFA-only interface cannot be the primary one.
		return apiErrorf(
			"InvalidParameterCombination",
			"The primary network interface cannot be an EFA-only network interface",
		)
	case count > 1 && asked.AssociatePublicIpAddress != nil && *asked.AssociatePublicIpAddress:
		return apiErrorf(
			"InvalidParameterCombination",
			"The associatePublicIPAddress parameter cannot be specified when launching with multiple network "+
				"interfaces.",
		)
	}

	return nil
}

// takeInterfaces gives each of len(addresses) instances its own interfaces; addresses are those of the primary ones.
// Every interface but efa-only uses up an address.
func (r *region) takeInterfaces(at site, addresses []string) ([][]launchInterface, error) {
	all := make([][]launchInterface, len(addresses))
	need := map[*subnet]int{}
	for _, n := range at.interfaces {
		if n.kind != "efa-only" {
			need[n.subnet] += len(addresses)
		}
	}

	free := map[*subnet][]string{}
	for sn, n := range need {
		some, err := r.takeAddresses(sn, n)
		if err != nil {
			return nil, err
		}

		free[sn] = slices.DeleteFunc(some, func(a string) bool { return slices.Contains(addresses, a) })
	}

	for i := range all {
		for k, n := range at.interfaces {
			switch {
			case k == 0:
				n.address = addresses[i]
			case n.kind != "efa-only":
				n.address = free[n.subnet][0]
				free[n.subnet] = free[n.subnet][1:]
			}

			all[i] = append(all[i], n)
		}
	}

	return all, nil
}
