package awssim

type describeInstanceTopologyInput struct {
	InstanceIds []string
	GroupNames  []string
	listing
}

// mostInstanceTopologies are instances of one call, or of one page: SDK documentation of DescribeInstanceTopology.
const mostInstanceTopologies = 100

// describeInstanceTopology lists the network nodes of instances, from the top of the network down. Instances that do
// not run have none. Here instances of one type and zone share all nodes but the lowest, of which there are two:
// neighbours by address are behind different ones.
func (s *Sim) describeInstanceTopology(c *call, in *describeInstanceTopologyInput) (any, error) {
	if len(in.InstanceIds) > mostInstanceTopologies {
		return nil, apiErrorf("InvalidParameterValue", "The maximum number of instance IDs is %d", mostInstanceTopologies)
	}
	found, err := byID(c.region.byLaunch(), in.InstanceIds, func(i *instance) string { return i.ID }, instanceNotFound)
	if err != nil {
		return nil, err
	}
	var all []object
	for _, i := range found {
		zone := i.subnet.zone
		w := object{"InstanceId": i.ID, "InstanceType": i.Type, "ZoneId": zone.id, "AvailabilityZone": zone.name}
		if last := i.PrivateIP[len(i.PrivateIP)-1]; i.State == stateRunning {
			w["NetworkNodes"] = []string{networkNode(zone.id), networkNode(zone.id, i.Type), networkNode(zone.id, i.Type, string('0'+last%2))}
		}
		all = append(all, w)
	}
	part, next, err := list(c, in.listing, 1, mostInstanceTopologies, len(in.InstanceIds) > 0, "availability-zone instance-type zone-id", all)
	return object{"Instances": part, "NextToken": next}, err
}
