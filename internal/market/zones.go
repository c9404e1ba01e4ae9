package market

// Zone returns the cluster's subnets in a zone. They are unknown until EC2 shows the zone, which can
// take until a block opens.
func (s Subnets) Zone(azID string) ZoneUse {
	if s.Err != nil || azID == "" {
		return ZoneUse{}
	}

	return ZoneUse{
		Subnets:    append([]string{}, s.byZone[azID]...),
		Neighbours: append([]string{}, s.nearByZone[azID]...),
		NoCluster:  len(s.Own) == 0,
	}
}

// ZoneUse holds a cluster's subnets in one zone; its lists are nil if they are unknown.
type ZoneUse struct {
	Subnets []string `json:"subnets"`
	// Neighbours are those of the cluster's VPC that it does not use yet; setup --subnet-ids takes them.
	Neighbours []string `json:"neighbour_subnets"`
	NoCluster  bool     `json:"-"` // the settings name no subnet to compare with
}

// SubnetWord says in a table whether the cluster can run nodes in the zone; nothing where the settings name no subnet.
func (u ZoneUse) SubnetWord() string {
	switch {
	case u.NoCluster:
		return ""
	case u.Subnets == nil:
		return "?"
	case len(u.Subnets) > 0:
		return "yes"
	case len(u.Neighbours) > 0:
		return "in VPC"
	}

	return "no"
}

// SubnetID names the subnets: neighbours are in parentheses.
func (u ZoneUse) SubnetID() string {
	first := func(ids []string) string {
		if len(ids) > 1 {
			return ids[0] + ", …"
		}
		return ids[0]
	}
	switch {
	case u.Subnets == nil:
		return "?"
	case len(u.Subnets) > 0:
		return first(u.Subnets)
	case len(u.Neighbours) > 0:
		return "(" + first(u.Neighbours) + ")"
	}

	return ""
}

// Rank sorts zones: with a subnet, with a neighbour, without.
func (u ZoneUse) Rank() int {
	switch {
	case len(u.Subnets) > 0:
		return 0
	case len(u.Neighbours) > 0:
		return 1
	}

	return 2
}
