package setup

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/facts"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// wanted describes the slot as it should be: by the request, else as an earlier run left it, else as copied.
type wanted struct {
	slot      Slot // that takes the reservation
	template  capacity.LaunchTemplateSpec
	group     pcs.NodeGroup              // without ID, status and template
	entry     capacity.GroupSettings     // of this reservation alone
	partition capacity.PartitionSettings // with the entry
	leaves    bool                       // a part of the reservation to others
}

// decideWanted returns what is wanted in a slot.
func decideWanted(in inspection, slot Slot) wanted {
	r := in.reservation
	most, leaves := in.maxNodes(slot)
	w := wanted{slot: slot, leaves: leaves, template: in.templateSpec()}

	least := 0
	if !in.request.Dynamic && !in.onDemand() {
		least = most
	}

	subnets := subnetIDs(in.launchSubnets())
	if _, all := in.subnets(); all && !in.onDemand() {
		subnets = subnetIDs(in.chosen)
	}

	settings, _ := in.like.SettingsFor(r.InstanceType)

	w.template.Name = capacity.TemplateName(in.Cluster.Name, slot.Name)
	w.group = pcs.NodeGroup{
		Name:            slot.Name,
		PurchaseOption:  r.Kind,
		InstanceTypes:   []string{r.InstanceType},
		SubnetIDs:       subnets,
		ClusterID:       in.Cluster.ID,
		AMI:             w.template.ImageID,
		InstanceProfile: in.like.InstanceProfile,
		Min:             least,
		Max:             most,
		Tags:            in.tags(),
		SlurmSettings:   settings,
		IdleSeconds:     in.like.IdleSeconds,
		Actions:         in.like.Actions,
	}
	w.entry = capacity.GroupSettings{
		Name:           in.request.NodeGroup,
		InstanceType:   r.InstanceType,
		SubnetIDs:      subnets,
		PurchaseOption: r.Kind,
		MaxNodes:       most,
		Dynamic:        in.request.Dynamic,
	}
	if in.onDemand() {
		w.entry.Reserve = capacity.ReservePerJob
	} else {
		w.entry.ReservationIDs = []string{r.ID}
	}

	if in.OnEC2() {
		w.entry.LaunchTemplate = in.keptEntryTemplate(slot)
	}

	w.partition = wantedPartition(in, w.entry)

	return w
}

// templateSpec returns the launch template of a slot, without its name. That of provider ec2 is for all of a node
// group: each launch says reservation, subnet and placement itself.
func (in *inspection) templateSpec() capacity.LaunchTemplateSpec {
	r := in.reservation
	spec := capacity.LaunchTemplateSpec{
		From:           in.source.ID,
		FromVersion:    in.source.Version,
		ImageID:        cmp.Or(in.request.AMI, in.like.AMI, in.source.ImageID),
		UserData:       in.userData,
		InstanceType:   r.InstanceType,
		EFA:            in.efaMode(),
		PlacementGroup: in.placementGroup(),
		Tags:           in.tags(),
	}
	if in.OnEC2() {
		spec.InstanceProfile = in.source.InstanceProfile
		spec.MetadataTags = true
		spec.Kind = capacity.OnDemand
		return spec
	}

	if in.source.ID == "" { // else they are copied
		spec.SecurityGroupIDs = in.source.SecurityGroupIDs
		spec.KeyName = in.source.KeyName
	}

	spec.SubnetID = in.interfaceSubnet()
	spec.ReservationID = r.ID
	spec.ReservationGroup = in.group.ARN
	spec.Kind = r.Kind

	return spec
}

// placementGroup chooses that of the reservation, else that of the copied template. A block has a placement of its own,
// and an ODCR that is held for a job is in no group.
func (in *inspection) placementGroup() string {
	if in.reservation.Kind.IsBlock() || in.onDemand() {
		return ""
	}

	return cmp.Or(in.reservation.PlacementGroup, in.source.PlacementGroup)
}

func (in *inspection) tags() map[string]string {
	tags := map[string]string{capacity.TagCluster: in.Cluster.Name, capacity.TagPartition: in.request.Queue}
	if !in.OnEC2() && !in.onDemand() {
		tags[capacity.TagReservation] = in.reservation.ID
	}

	return tags
}

// isListed reports whether the settings have the reservation for the node group.
func (in *inspection) isListed() bool { return hasReservation(in.entry(), in.reservation) }

// hasReservation reports whether an entry of the settings has a reservation, by id or by tag.
func hasReservation(g capacity.GroupSettings, r capacity.Reservation) bool {
	return slices.Contains(g.ReservationIDs, r.ID) || g.Select.Matches(r)
}

// keptTemplate returns the template of the slot that launches into the reservation already, else that of another
// slot; zero if no slot has a node group.
func (in *inspection) keptTemplate() (t capacity.LaunchTemplate) {
	for _, slot := range in.slots {
		if slot.Uses.ID != "" && (t.ID == "" || slot.LaunchesInto(in.reservation.ID)) {
			t = slot.Uses
		}
	}

	return t
}

// keptEntryTemplate returns the launch template for the settings: the site's choice of a version
// stays until a newer one is written.
func (in *inspection) keptEntryTemplate(slot Slot) string {
	name := capacity.TemplateName(in.request.Mark, slot.Name)
	has := in.entry().LaunchTemplate
	if was, _, _ := strings.Cut(has, ":"); was == name && slot.Template.Digest == in.launch.Template.Digest {
		return has
	}

	return name + ":$Latest"
}

// maxNodes returns the number of nodes, and whether it is what others leave: the requested one, else the present one,
// else all that others leave of the reservation. The present number is not lowered for others, which would end nodes
// under their jobs; checkUsers says if it is too large.
func (in *inspection) maxNodes(slot Slot) (n int, leaves bool) {
	size := in.reservation.Size()
	rest := size - in.users.instances
	switch {
	case in.request.MaxNodes > 0:
		return in.request.MaxNodes, false
	case slot.LaunchesInto(in.reservation.ID) && slot.Group != nil && slot.Group.Max > 0:
		return min(slot.Group.Max, size), false
	case in.isListed() && in.entry().MaxNodes > 0:
		return min(in.entry().MaxNodes, size), false
	case in.users.instances == 0 || rest <= 0:
		return size, false
	}

	return rest, true
}

// users counts the instances that a reservation has given away, or is set up to.
type users struct {
	instances int    // at most so many
	names     string // with the instances of each
	own       int    // instances of the queue itself on EC2, which are not among them
}

func (u *users) add(most int, who string) {
	u.instances += most
	u.names = strings.TrimPrefix(fmt.Sprintf("%s, %d by %s", u.names, most, who), ", ")
}

// findUsers returns all other users of the reservation, each once: other entries of the settings, our other compute
// node groups, and whoever has instances in it.
func (in *inspection) findUsers() (all users) {
	if in.onDemand() {
		return all
	}

	r := in.reservation
	counted := capacity.SlotNames(capacity.ProviderPCS, in.request.NodeGroup)
	add := func(who string, most int, names ...string) {
		all.add(most, who)

		counted = append(counted, names...)
	}
	for _, p := range in.request.Config.Partitions {
		for _, g := range p.Groups {
			if hasReservation(g, r) && g.Name != in.request.NodeGroup {
				add(
					fmt.Sprintf("partition %q of %s", p.Name, p.File),
					min(g.MaxNodes, r.Size()),
					append(g.SlotNames(p.Provider), p.Name)...)
			}
		}
	}

	for _, g := range in.Groups {
		if !slices.Contains(counted, g.Name) && in.Owns(g.Tags) && g.Tags[capacity.TagReservation] == r.ID {
			add("compute node group "+g.Name, g.Max, g.Name)
		}
	}

	others := 0
	for _, i := range in.inside {
		of := ""
		if g, found := in.Group(i.Tags[pcs.TagNodeGroupID]); found {
			of = g.Name
		} else if i.Tags[capacity.TagCluster] == in.Cluster.Name {
			of = i.Tags[capacity.TagPartition]
		}

		switch {
		case slices.Contains(counted, of):
		case in.OnEC2() && of == in.request.Queue:
			all.own++
		default:
			others++
		}
	}

	if others > 0 {
		all.add(others, "other instances")
	}

	return all
}

// subnets returns the requested ones, else the present ones of the nodes in the reservation, and then nodes get all of
// them; else those of the node group in the settings, those of its partition, or on PCS those of like and of the
// cluster, of which they get those in the reservation's zone: no other takes a launch into it.
func (in *inspection) subnets() (ids []string, all bool) {
	asked := in.request.SubnetIDs
	own := in.entry()
	at := -1
	for i := range in.slots { // beside who writes other fields
		if at < 0 && in.slots[i].Group != nil && in.slots[i].LaunchesInto(in.reservation.ID) {
			at = i
		}
	}

	switch {
	case len(asked) > 0 && (in.OnEC2() || !in.unattended):
		return asked, true
	case at >= 0:
		return in.slots[at].Group.SubnetIDs, in.interfaceSubnet() == "" || in.efaMode() == efaModeOf(in.keptTemplate())
	case len(asked) > 0: // sync names those of all zones
		return asked, false
	case !in.OnEC2():
		return slices.Concat(in.like.SubnetIDs, in.Cluster.SubnetIDs), false
	case own.Name != "":
		return own.SubnetIDs, in.isListed()
	}

	for _, g := range in.settings().Groups {
		ids = union(ids, g.SubnetIDs)
	}

	return ids, false
}

// chooseSubnets returns the candidates among the VPC's subnets, and the ids that none of them has.
func (in *inspection) chooseSubnets() (chosen []ec2.Subnet, unknown []string) {
	ids, _ := in.subnets()
	for _, id := range union(nil, ids) {
		if i := slices.IndexFunc(in.vpc, func(s ec2.Subnet) bool { return s.ID == id }); i >= 0 {
			chosen = append(chosen, in.vpc[i])
		} else {
			unknown = append(unknown, id)
		}
	}

	return chosen, unknown
}

// inZone returns the subnets that are in the reservation's zone; all for nodes on demand.
func (in *inspection) inZone(subnets []ec2.Subnet) (there []ec2.Subnet) {
	for _, s := range subnets {
		if s.AZID == in.reservation.AZID || in.onDemand() {
			there = append(there, s)
		}
	}

	return there
}

func subnetIDs(subnets []ec2.Subnet) (all []string) {
	for _, s := range subnets {
		all = append(all, s.ID)
	}
	return all
}

// launchSubnets returns the subnets of launches: the candidates in the reservation's zone, or the
// one inside the network interfaces.
func (in *inspection) launchSubnets() []ec2.Subnet {
	there := in.inZone(in.chosen)
	if in.interfaceSubnet() != "" {
		there = there[:1]
	}

	return there
}

// interfaceSubnet returns the subnet inside the network interfaces, where setup writes those: the first candidate in
// the reservation's zone. All nodes are in that one. On EC2 each launch names its subnet.
func (in *inspection) interfaceSubnet() string {
	there := in.inZone(in.chosen)
	if efa := in.efaMode(); efa == "" || efa == capacity.NoEFA || in.OnEC2() || len(there) == 0 {
		return ""
	}

	return there[0].ID
}

// chooseLike returns the node group to copy from: the requested one, else the slot that has the reservation already,
// else the slot changed last, else the one that the cluster suggests.
func (in *inspection) chooseLike() (like pcs.NodeGroup, found findings) {
	name := in.request.Like

	switch g, known := in.Group(name); {
	case in.OnEC2():
		return like, found
	case known && name != "":
		return g, found
	case name != "":
		found.problem(capacity.LikeUnknown, "use one of "+cmp.Or(groupNames(in.Groups), "none"),
			"cluster %s has no compute node group %q to copy from (--like)", in.Cluster.Name, name)

		return g, found
	}

	for _, slot := range in.slots {
		if slot.HasReservation(in.request.Reservation) {
			return *slot.Group, found
		}

		if slot.Owned && (like.ID == "" || slot.Group.Modified.After(like.Modified)) {
			like = *slot.Group
		}
	}

	if like.ID != "" || in.unattended {
		return like, found
	}

	return in.findLike()
}

// findLike returns the node group to copy from where nothing names one: the only other one, or the only one with a
// queue.
func (in *inspection) findLike() (like pcs.NodeGroup, found findings) {
	others := slices.DeleteFunc(slices.Clone(in.Groups), func(g pcs.NodeGroup) bool {
		own := slices.ContainsFunc(in.slots, func(s Slot) bool { return s.Name == g.Name })
		return own || g.Status == pcs.Deleting || g.Status == pcs.CreateFailed
	})
	queued := slices.DeleteFunc(slices.Clone(others), func(g pcs.NodeGroup) bool {
		return !slices.ContainsFunc(in.Queues, func(q pcs.Queue) bool { return slices.Contains(q.GroupIDs, g.ID) })
	})
	switch {
	case len(others) == 1:
		like = others[0]
	case len(queued) == 1:
		like = queued[0]
	case len(others) > 0:
		found.problem(capacity.LikeUnknown, "use --like with one of "+groupNames(others),
			"cluster %s has %d node groups to copy image, instance profile and security groups from, and none is named",
			in.Cluster.Name, len(others))
	}

	return like, found
}

func groupNames(groups []pcs.NodeGroup) string {
	var names []string
	for _, g := range groups {
		names = append(names, g.Name)
	}

	return strings.Join(names, ", ")
}

// efaMode selects the network interfaces of the launch template; "" for a type without EFA, whose interfaces are
// copied.
func (in *inspection) efaMode() capacity.EFAMode {
	switch {
	case in.launch.Type.EFAInterfaces == 0:
		return ""
	case in.request.EFA != "":
		return in.request.EFA
	case in.keptTemplate().ID != "":
		return efaModeOf(in.keptTemplate())
	case in.unattended:
		return efaModeOf(in.source)
	}

	return capacity.EFA // as AWS PCS documents it
}

// efaModeOf returns the mode of a launch template; "" if there is none.
func efaModeOf(t capacity.LaunchTemplate) capacity.EFAMode {
	has := func(mode capacity.EFAMode) bool {
		return slices.ContainsFunc(t.NetworkInterfaces,
			func(i capacity.Interface) bool { return i.Type == string(mode) })
	}
	switch {
	case t.ID == "":
		return ""
	case has(capacity.EFA): // on each interface, so none is EFA only
		return capacity.EFA
	case has(capacity.EFAOnly):
		return capacity.EFAOnly
	}

	return capacity.NoEFA
}

// describeEFA describes the interfaces of a mode in the plan.
func (in *inspection) describeEFA(mode capacity.EFAMode) string {
	t := in.launch.Type
	switch {
	case t.EFAInterfaces == 0:
	case mode == capacity.EFA && len(t.Cards) == 1: // the subnet says whether it gets a public address
		return "1 × efa"
	case mode == capacity.EFA || mode == capacity.EFAOnly:
		return fmt.Sprintf("%d × %s, no public address", t.EFAInterfaces, mode)
	case mode == capacity.NoEFA:
		return "without EFA"
	}

	return ""
}

// addressesPerNode returns how many addresses of its subnet a node takes: one for each interface that is not EFA only.
func (in *inspection) addressesPerNode() int {
	if in.efaMode() == capacity.EFA {
		return len(in.launch.Type.Cards)
	}
	return 1
}

// nodeScript runs on nodes of provider ec2: it finds the node's name and starts slurmd. CONF_SERVER
// stands for slurmd's option.
//
//go:embed node.sh
var nodeScript string

// nodeScriptMark is in nodeScript only.
const nodeScriptMark = "# pcs-capacity: "

// confServerOption is the source of slurm.conf in nodeScript.
var confServerOption = regexp.MustCompile(`(?m) --conf-server (\S+)$`)

// NodeScript returns the user data of nodes of provider ec2. confServer is "" for nodes with a slurm.conf of their own.
func NodeScript(confServer string) string {
	option := ""
	if confServer != "" {
		option = " --conf-server " + confServer
	}

	return strings.Replace(nodeScript, " CONF_SERVER", option, 1)
}

// nodeUserData returns the copied user data in the form that PCS wants. On provider ec2 the start of slurmd is added,
// and what describes it in the plan.
func (in *inspection) nodeUserData() (data []byte, what string, err error) {
	if !in.OnEC2() {
		data, err = in.withInstallScript()
		return data, "", err
	}

	server := in.request.ConfServer
	site := in.source.UserData
	if found := confServerOption.FindSubmatch(in.keptTemplate().UserData); found != nil {
		server = string(found[1])
	}

	begin, _, _ := strings.Cut(nodeScript, nodeScriptMark)
	alone := bytes.HasPrefix(site, []byte(begin+nodeScriptMark)) // nothing but the script, of any version

	script := []byte(NodeScript(server))
	what = "starts slurmd"
	if server != "" {
		what += " with slurm.conf of " + server
	}

	switch {
	case alone && server == "", !alone && bytes.Contains(site, []byte(nodeScriptMark)): // as the run before had it
		return site, "as it is", nil
	case alone || len(site) == 0:
		return script, what, nil
	}

	data, err = pcs.Archive(site, script)

	return data, "after that of " + cmp.Or(in.like.Name, in.source.Name) + ", " + what, err
}

// wantedPartition returns the partition with the entry, and in a file of ours without ended reservations.
func wantedPartition(in inspection, entry capacity.GroupSettings) capacity.PartitionSettings {
	p := in.settings()
	if p.Name == "" {
		p = config.NewPartition(in.request.Queue, in.Provider)
	}

	p.AllowAccounts = in.allowAccounts()
	p.Spare = in.spare()
	p.Groups = slices.Clone(p.Groups)

	if p.File == in.partitionFile.path && in.partitionFile.owned {
		isOver := func(id string) bool { _, over := in.IsLive(id); return over }
		for i := range p.Groups {
			g := &p.Groups[i]
			g.ReservationIDs = slices.DeleteFunc(slices.Clone(g.ReservationIDs), isOver)
		}
	}

	isWanted := func(g capacity.GroupSettings) bool { return g.Name == entry.Name }
	if i := slices.IndexFunc(p.Groups, isWanted); i >= 0 {
		p.Groups[i] = merge(p.Groups[i], entry, in.reservation)
	} else {
		p.Groups = append(p.Groups, entry)
	}

	return p
}

// merge adds a reservation to a node group. An entry stands for both slots, so it has the subnets of
// both and the larger of their sizes. A selected reservation is not listed.
func merge(g, with capacity.GroupSettings, r capacity.Reservation) capacity.GroupSettings {
	alone := false
	if !g.Select.Matches(r) {
		alone = len(g.ReservationIDs) == 0 || slices.Equal(g.ReservationIDs, with.ReservationIDs)
		g.ReservationIDs = union(g.ReservationIDs, with.ReservationIDs)
		g.Select = nil
	}

	switch {
	case !alone:
		g.SubnetIDs = union(g.SubnetIDs, with.SubnetIDs)
		g.MaxNodes = max(g.MaxNodes, with.MaxNodes)
	case sameSet(g.SubnetIDs, with.SubnetIDs): // in the order that they have
		g.MaxNodes = with.MaxNodes
	default:
		g.SubnetIDs = with.SubnetIDs
		g.MaxNodes = with.MaxNodes
	}

	g.LaunchTemplate = with.LaunchTemplate
	g.InstanceType = with.InstanceType
	g.Dynamic = with.Dynamic
	g.PurchaseOption = with.PurchaseOption
	g.Reserve = cmp.Or(with.Reserve, g.Reserve)

	return g
}

// attached returns the launch with what its nodes are attached to.
func (in *inspection) attached() facts.Launch {
	l := in.launch
	l.Provider = in.Provider
	l.Group = in.request.NodeGroup
	l.Region = in.Region
	l.Nodes = cmp.Or(in.request.MaxNodes, in.reservation.Size())
	l.Subnets = in.launchSubnets()

	return l
}
