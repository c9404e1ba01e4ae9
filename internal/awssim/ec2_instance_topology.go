package awssim

// instanceTopologies are the network nodes of instances, from the top of the network down. Instances that do
// not run have none. Here instances of one type and zone share all nodes but the lowest, of which there are two:
// neighbours by address are behind different ones.
func (s *Sim) instanceTopologies(c *call) (all []object) {
	for _, i := range c.region.byLaunch() {
		zone := i.subnet.zone
		w := object{"InstanceId": i.ID, "InstanceType": i.Type, "ZoneId": zone.id, "AvailabilityZone": zone.name}
		if last := i.PrivateIP[len(i.PrivateIP)-1]; i.State == stateRunning {
			w["NetworkNodes"] = []string{networkNode(zone.id), networkNode(zone.id, i.Type), networkNode(zone.id, i.Type, string('0'+last%2))}
		}
		all = append(all, w)
	}
	return all
}
