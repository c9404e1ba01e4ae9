package awssim

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// This file has reads that the product does not make, and other clients of EC2 do.

type wireTagOf struct {
	Key          string `xml:"key"`
	ResourceID   string `xml:"resourceId"`
	ResourceType string `xml:"resourceType"`
	Value        string `xml:"value"`
}

type describeTagsInput struct {
	Filters []filter `form:"Filter"`
	paging
}

func (s *Sim) describeTags(c *call, in *describeTagsInput) (any, error) {
	var ids []string
	for _, i := range c.region.byLaunch() {
		ids = append(ids, i.ID)
	}
	for _, res := range c.region.byCreation() {
		if !res.shared { // tags are of the owner
			ids = append(ids, res.ID)
		}
	}
	ids = append(append(ids, slices.Collect(maps.Keys(c.region.templates))...), slices.Collect(maps.Keys(c.region.fixedTags))...)
	slices.Sort(ids)
	var all []wireTagOf
	for _, id := range ids {
		for _, t := range wireTags(c.region.shownTagsOf(id)) {
			all = append(all, wireTagOf{t.Key, id, kindOf(id), t.Value})
		}
	}
	names := filterNames[wireTagOf]{values: map[string]func(wireTagOf) []string{
		"key":           one(func(t wireTagOf) string { return t.Key }),
		"resource-id":   one(func(t wireTagOf) string { return t.ResourceID }),
		"resource-type": one(func(t wireTagOf) string { return t.ResourceType }),
		"value":         one(func(t wireTagOf) string { return t.Value }),
	}, tags: func(t wireTagOf) map[string]string { return map[string]string{t.Key: t.Value} }}
	kept, err := names.apply(in.Filters, all)
	if err != nil {
		return nil, err
	}
	part, next, err := page(c, in.paging, 5, 1000, false, kept)
	return struct {
		Tags []wireTagOf `xml:"tagSet>item"`
		Next string      `xml:"nextToken,omitempty"`
	}{part, next}, err
}

type reservationUsageInput struct {
	ID string `form:"CapacityReservationId"`
	paging
}

func (s *Sim) getReservationUsage(c *call, in *reservationUsageInput) (any, error) {
	res, err := c.region.reservation(in.ID)
	if err != nil {
		return nil, err
	}
	type usage struct {
		Account string `xml:"accountId"`
		Used    int    `xml:"usedInstanceCount"`
	}
	w := s.wireReservation(c.region, res)
	used, next, err := page(c, in.paging, 1, 1000, false, []usage{{s.scenario.Account, w.Total - w.Available}})
	return struct {
		ID        string  `xml:"capacityReservationId"`
		Type      string  `xml:"instanceType"`
		Total     int     `xml:"totalInstanceCount"`
		Available int     `xml:"availableInstanceCount"`
		State     string  `xml:"state"`
		Usages    []usage `xml:"instanceUsageSet>item"`
		Next      string  `xml:"nextToken,omitempty"`
	}{w.ID, w.Type, w.Total, w.Available, w.State, used, next}, err
}

type describeInstanceStatusInput struct {
	InstanceIDs         []string `form:"InstanceId"`
	IncludeAllInstances bool
	Filters             []filter `form:"Filter"`
	paging
}

type wireStatus struct {
	Status  string             `xml:"status"`
	Details []wireStatusDetail `xml:"details>item"`
}

type wireStatusDetail struct {
	Name   string `xml:"name"`
	Status string `xml:"status"`
}

type wireInstanceStatus struct {
	ID       string     `xml:"instanceId"`
	Zone     string     `xml:"availabilityZone"`
	ZoneID   string     `xml:"availabilityZoneId"`
	State    wireState  `xml:"instanceState"`
	Instance wireStatus `xml:"instanceStatus"`
	System   wireStatus `xml:"systemStatus"`
}

// statusChecks is how long EC2's first status checks of an instance take.
const statusChecks = 2 * time.Minute

// status is the outcome of a status check.
func (i *instance) status(now time.Time) wireStatus {
	switch {
	case i.State != stateRunning:
		return wireStatus{Status: "not-applicable"}
	case i.HostFailed:
		return wireStatus{"impaired", []wireStatusDetail{{"reachability", "failed"}}}
	case now.Before(i.LaunchTime.Add(statusChecks)):
		return wireStatus{"initializing", []wireStatusDetail{{"reachability", "initializing"}}}
	}
	return wireStatus{"ok", []wireStatusDetail{{"reachability", "passed"}}}
}

func (s *Sim) describeInstanceStatus(c *call, in *describeInstanceStatusInput) (any, error) {
	id := func(i *instance) string { return i.ID }
	items, err := byID(shown(c.region, c.region.byLaunch(), id), in.InstanceIDs, id, instanceNotFound)
	if err != nil {
		return nil, err
	}
	var all []wireInstanceStatus
	for _, i := range items {
		if in.IncludeAllInstances || i.State == stateRunning {
			status := i.status(s.now) // a host that fails shows in both checks
			all = append(all, wireInstanceStatus{i.ID, i.Zone, i.subnet.zone.id, wireState{stateCodes[i.State], i.State}, status, status})
		}
	}
	names := filterNames[wireInstanceStatus]{values: map[string]func(wireInstanceStatus) []string{
		"availability-zone":      one(func(w wireInstanceStatus) string { return w.Zone }),
		"availability-zone-id":   one(func(w wireInstanceStatus) string { return w.ZoneID }),
		"instance-state-name":    one(func(w wireInstanceStatus) string { return w.State.Name }),
		"instance-state-code":    one(func(w wireInstanceStatus) string { return strconv.Itoa(w.State.Code) }),
		"instance-status.status": one(func(w wireInstanceStatus) string { return w.Instance.Status }),
		"system-status.status":   one(func(w wireInstanceStatus) string { return w.System.Status }),
	}}
	if all, err = names.apply(in.Filters, all); err != nil {
		return nil, err
	}
	part, next, err := page(c, in.paging, 5, 1000, len(in.InstanceIDs) > 0, all)
	return struct {
		Statuses []wireInstanceStatus `xml:"instanceStatusSet>item"`
		Next     string               `xml:"nextToken,omitempty"`
	}{part, next}, err
}

type describeAccountAttributesInput struct {
	Names []string `form:"AttributeName"`
}

type wireAttribute struct {
	Name   string   `xml:"attributeName"`
	Values []string `xml:"attributeValueSet>item>attributeValue"`
}

func (s *Sim) describeAccountAttributes(c *call, in *describeAccountAttributesInput) (any, error) {
	defaultVPC := "none"
	for _, v := range c.region.vpcs {
		if v.Default {
			defaultVPC = v.ID
		}
	}
	all := []wireAttribute{{"supported-platforms", []string{"VPC"}}, {"default-vpc", []string{defaultVPC}}, {"max-instances", []string{"20"}},
		{"vpc-max-security-groups-per-interface", []string{"5"}}, {"max-elastic-ips", []string{"5"}}, {"vpc-max-elastic-ips", []string{"5"}}}
	kept, err := byID(all, in.Names, func(a wireAttribute) string { return a.Name }, func(name string) error {
		return apiErrorf("InvalidParameterValue", "Value (%s) for parameter attribute is invalid. Unknown attribute.", name)
	})
	return struct {
		Attributes []wireAttribute `xml:"accountAttributeSet>item"`
	}{kept}, err
}

type describeNetworkInterfacesInput struct {
	IDs     []string `form:"NetworkInterfaceId"`
	Filters []filter `form:"Filter"`
	paging
}

type wireNetworkInterface struct {
	ID         string                `xml:"networkInterfaceId"`
	SubnetID   string                `xml:"subnetId"`
	VPC        string                `xml:"vpcId"`
	Zone       string                `xml:"availabilityZone"`
	ZoneID     string                `xml:"availabilityZoneId"`
	Owner      string                `xml:"ownerId"`
	Status     string                `xml:"status"`
	PrivateIP  string                `xml:"privateIpAddress,omitempty"`
	Type       string                `xml:"interfaceType"`
	Groups     []wireGroupRef        `xml:"groupSet>item"`
	Attachment wireNetworkAttachment `xml:"attachment"`
}

type wireNetworkAttachment struct {
	InstanceID string `xml:"instanceId"`
	Owner      string `xml:"instanceOwnerId"`
	wireInterfaceAttachment
}

func (s *Sim) describeNetworkInterfaces(c *call, in *describeNetworkInterfacesInput) (any, error) {
	var all []wireNetworkInterface
	for _, i := range shown(c.region, c.region.byLaunch(), func(i *instance) string { return i.ID }) {
		for _, n := range s.wireInstance(i).Interfaces {
			all = append(all, wireNetworkInterface{n.ID, n.SubnetID, n.VPC, i.Zone, i.subnet.zone.id, s.scenario.Account, "in-use", n.PrivateIP, n.Type, n.Groups,
				wireNetworkAttachment{i.ID, s.scenario.Account, n.Attachment}})
		}
	}
	items, err := byID(all, in.IDs, func(n wireNetworkInterface) string { return n.ID }, func(id string) error {
		if !wellFormed(id, "eni") {
			return apiErrorf("InvalidNetworkInterfaceId.Malformed", "Invalid id: \"%s\" (expecting \"eni-...\")", id)
		}
		return apiErrorf("InvalidNetworkInterfaceID.NotFound", "The networkInterface ID '%s' does not exist", id)
	})
	if err != nil {
		return nil, err
	}
	names := filterNames[wireNetworkInterface]{values: map[string]func(wireNetworkInterface) []string{
		"network-interface-id":   one(func(n wireNetworkInterface) string { return n.ID }),
		"attachment.instance-id": one(func(n wireNetworkInterface) string { return n.Attachment.InstanceID }),
		"availability-zone":      one(func(n wireNetworkInterface) string { return n.Zone }),
		"interface-type":         one(func(n wireNetworkInterface) string { return n.Type }),
		"private-ip-address":     one(func(n wireNetworkInterface) string { return n.PrivateIP }),
		"status":                 one(func(n wireNetworkInterface) string { return n.Status }),
		"subnet-id":              one(func(n wireNetworkInterface) string { return n.SubnetID }),
		"vpc-id":                 one(func(n wireNetworkInterface) string { return n.VPC }),
		"group-id": func(n wireNetworkInterface) (ids []string) {
			for _, g := range n.Groups {
				ids = append(ids, g.ID)
			}
			return ids
		},
	}}
	if items, err = names.apply(in.Filters, items); err != nil {
		return nil, err
	}
	part, next, err := page(c, in.paging, 5, 1000, len(in.IDs) > 0, items)
	return struct {
		Interfaces []wireNetworkInterface `xml:"networkInterfaceSet>item"`
		Next       string                 `xml:"nextToken,omitempty"`
	}{part, next}, err
}

type describeVolumesInput struct {
	IDs     []string `form:"VolumeId"`
	Filters []filter `form:"Filter"`
	paging
}

type wireVolume struct {
	ID          string             `xml:"volumeId"`
	Size        int                `xml:"size"`
	Zone        string             `xml:"availabilityZone"`
	ZoneID      string             `xml:"availabilityZoneId"`
	State       string             `xml:"status"`
	Created     string             `xml:"createTime"`
	Attachments []volumeAttachment `xml:"attachmentSet>item"`
}

type volumeAttachment struct {
	VolumeID            string `xml:"volumeId"`
	InstanceID          string `xml:"instanceId"`
	Device              string `xml:"device"`
	State               string `xml:"status"`
	DeleteOnTermination bool   `xml:"deleteOnTermination"`
}

// rootVolume is the volume that an instance boots from; it ends with the instance.
func (i *instance) rootVolume(r *region) wireVolume {
	size := 8
	devices := i.data.BlockDeviceMappings
	if image := r.image(i.ImageID); image != nil {
		devices = append(slices.Clone(devices), image.rootVolume())
	}
	for _, d := range devices {
		if d.DeviceName == rootDevice && d.Ebs != nil && d.Ebs.VolumeSize != nil {
			size = cmp.Or(*d.Ebs.VolumeSize, size)
			break
		}
	}
	id := "vol-" + strings.TrimPrefix(i.ID, "i-")
	return wireVolume{id, size, i.Zone, i.subnet.zone.id, "in-use", wireTime(i.LaunchTime), []volumeAttachment{{id, i.ID, rootDevice, "attached", true}}}
}

func (s *Sim) describeVolumes(c *call, in *describeVolumesInput) (any, error) {
	var all []wireVolume
	for _, i := range shown(c.region, c.region.byLaunch(), func(i *instance) string { return i.ID }) {
		if i.State != stateTerminated {
			all = append(all, i.rootVolume(c.region))
		}
	}
	items, err := byID(all, in.IDs, func(v wireVolume) string { return v.ID }, func(id string) error {
		if !wellFormed(id, "vol") {
			return apiErrorf("InvalidParameterValue", "Value (%s) for parameter volumes is invalid. Expected: 'vol-...'.", id)
		}
		return apiErrorf("InvalidVolume.NotFound", "The volume '%s' does not exist.", id)
	})
	if err != nil {
		return nil, err
	}
	names := filterNames[wireVolume]{values: map[string]func(wireVolume) []string{
		"volume-id":              one(func(v wireVolume) string { return v.ID }),
		"availability-zone":      one(func(v wireVolume) string { return v.Zone }),
		"status":                 one(func(v wireVolume) string { return v.State }),
		"attachment.instance-id": one(func(v wireVolume) string { return v.Attachments[0].InstanceID }),
	}}
	if items, err = names.apply(in.Filters, items); err != nil {
		return nil, err
	}
	part, next, err := page(c, in.paging, 5, 1000, len(in.IDs) > 0, items)
	return struct {
		Volumes []wireVolume `xml:"volumeSet>item"`
		Next    string       `xml:"nextToken,omitempty"`
	}{part, next}, err
}
