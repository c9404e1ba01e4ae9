package awssim

type describeInstanceTopologyInput struct {
	IDs     []string `form:"InstanceId"`
	Groups  []string `form:"GroupName"`
	Filters []filter `form:"Filter"`
	paging
}

type wireInstanceTopology struct {
	ID       string   `xml:"instanceId"`
	Type     string   `xml:"instanceType"`
	Group    string   `xml:"groupName,omitempty"`
	Nodes    []string `xml:"networkNodeSet>item"`
	ZoneID   string   `xml:"zoneId"`
	ZoneName string   `xml:"availabilityZone"`
}

// mostInstanceTopologies are instances of one call, or of one page: SDK documentation of DescribeInstanceTopology.
const mostInstanceTopologies = 100

// describeInstanceTopology lists the network nodes of instances, from the top of the network down. Instances that do
// not run have none. Here instances of one type and zone share all nodes but the lowest, of which there are two:
// neighbours by address are behind different ones.
func (s *Sim) describeInstanceTopology(c *call, in *describeInstanceTopologyInput) (any, error) {
	if len(in.IDs) > mostInstanceTopologies {
		return nil, apiErrorf("InvalidParameterValue", "The maximum number of instance IDs is %d", mostInstanceTopologies)
	}
	found, err := byID(c.region.byLaunch(), in.IDs, func(i *instance) string { return i.ID }, instanceNotFound)
	if err != nil {
		return nil, err
	}
	items := make([]wireInstanceTopology, len(found))
	for n, i := range found {
		zone := i.subnet.zone
		items[n] = wireInstanceTopology{ID: i.ID, Type: i.Type, ZoneID: zone.id, ZoneName: zone.name}
		if last := i.PrivateIP[len(i.PrivateIP)-1]; i.State == stateRunning {
			items[n].Nodes = []string{networkNode(zone.id), networkNode(zone.id, i.Type), networkNode(zone.id, i.Type, string('0'+last%2))}
		}
	}
	names := filterNames[wireInstanceTopology]{values: map[string]func(wireInstanceTopology) []string{
		"availability-zone": one(func(w wireInstanceTopology) string { return w.ZoneName }),
		"instance-type":     one(func(w wireInstanceTopology) string { return w.Type }),
		"zone-id":           one(func(w wireInstanceTopology) string { return w.ZoneID }),
	}}
	if items, err = names.apply(in.Filters, items); err != nil {
		return nil, err
	}
	part, next, err := page(c, in.paging, 1, mostInstanceTopologies, len(in.IDs) > 0, items)
	return struct {
		Instances []wireInstanceTopology `xml:"instanceSet>item"`
		Next      string                 `xml:"nextToken,omitempty"`
	}{part, next}, err
}
