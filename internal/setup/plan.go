package setup

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// wanted is what a plan leads to.
type wanted struct {
	provider capacity.Provider
	cluster  pcs.Cluster
	region   string
	template capacity.LaunchTemplateSpec
	group    pcs.NodeGroup // without ID, status and template
	queue    string
	// allowAccounts are those that Slurm shall let into the queue; empty for all.
	allowAccounts []string
	// dropUnknown allows updates that may lose what this program cannot express.
	dropUnknown bool

	configPath string
	partition  config.NodeGroup
	// ended are reservations of the partition that are over.
	ended []string
	// reservation, and members of groups, are what a select may look for.
	reservation capacity.Reservation
	members     capacity.Members
}

// plan decides, from what was read, what to do and what is in the way.
func (in *inspection) plan() *Plan {
	p := &Plan{Cluster: in.inv.Cluster, Reservation: in.reservation}
	in.checkNames()
	if !in.found {
		if m := capacity.StateMismatch(in.reservation, in.now); in.reservation.ID != "" && m != nil {
			in.problems = append(in.problems, *m)
		}
		p.Mismatches = in.problems
		return p
	}
	if !in.onEC2() {
		in.checkCluster()
	}
	in.checkLaunch()
	in.checkSubnets()
	in.checkEFA()
	slot := in.chooseSlot()
	want := in.want(slot)
	if in.reservation.ID == "" {
		// What was asked for is all that is known of the number of nodes.
		in.checkQuotas(want, slot)
		p.Mismatches = in.problems
		return p
	}
	in.checkMatch(want, slot)
	in.checkPurchaseOption(slot)
	in.checkSelect()
	in.checkAddresses(want, slot)
	in.checkUsers(want)
	in.checkQuotas(want, slot)

	p.Slot = slot.name
	p.want = want
	template := in.templateStep(want, slot)
	in.checkAccounts()
	if in.onEC2() {
		in.checkEntry(want)
		p.Steps = append(p.Steps, template)
		return in.planned(p, want)
	}
	group, compared := groupStep(want, slot, template)
	in.checkUnused(slot, compared)
	queue := in.queueStep(want, slot)
	in.checkUnknown(want, slot, template, group, queue)
	p.Steps = append(p.Steps, template, group, queue)
	in.checkFamiliar()
	return in.planned(p, want)
}

// planned adds the files, and everything that is in the way.
func (in *inspection) planned(p *Plan, want *wanted) *Plan {
	p.Mismatches, p.Warnings = in.problems, in.warnings
	if in.unattended {
		return p
	}
	files, snippet, problems := planFiles(in.request.Config, want)
	if slices.ContainsFunc(in.problems, func(m capacity.Mismatch) bool { return m.Code == "purchase-option" }) {
		// What to write depends on what is chosen there.
		problems = slices.DeleteFunc(problems, func(m capacity.Mismatch) bool { return m.Code == "partition-file" })
		snippet = ""
	}
	p.Steps, p.Snippet = append(p.Steps, files...), snippet
	p.Mismatches = append(p.Mismatches, problems...)
	return p
}

// chooseSlot takes the slot that has the reservation already, else one without a node
// group, else one whose reservation has ended.
func (in *inspection) chooseSlot() slotState {
	for _, slot := range in.slots {
		if slot.group != nil && !slot.ours {
			in.notOurs("compute node group", slot.name, slot.group.ARN)
		}
	}
	choices := []func(slotState) bool{
		func(s slotState) bool { return s.holds(in.reservation.ID) },
		func(s slotState) bool { return s.group == nil },
		func(s slotState) bool { return s.ours && !s.live },
	}
	for _, fits := range choices {
		if i := slices.IndexFunc(in.slots, fits); i >= 0 {
			return in.slots[i]
		}
	}
	var held []string
	for _, slot := range in.slots {
		if slot.ours {
			held = append(held, fmt.Sprintf("%s has %s until %s", slot.name, slot.reservationID, until(slot.until)))
		}
	}
	if len(held) > 0 {
		in.problem("slots-taken", "run this again after one of them has ended, or choose another --node-group", "both slots of node group %s are taken: %s", in.request.NodeGroup, strings.Join(held, ", "))
	}
	return in.slots[0]
}

func (in *inspection) notOurs(what, name, id string) {
	fix := fmt.Sprintf("choose another name, or hand it over by tagging %s with %s=%s", id, capacity.TagCluster, in.inv.Cluster.Name)
	in.problem("not-ours", fix, "%s %s exists, but does not carry our tag, so it is not changed", what, name)
}

// want is the state that the plan leads to.
func (in *inspection) want(slot slotState) *wanted {
	r := in.reservation
	most := in.mostNodes(slot)
	least := most
	if in.request.Dynamic {
		least = 0
	}
	subnets := in.wantedSubnets()
	settings, _ := in.like.SettingsFor(r.InstanceType)
	launchTemplate := ""
	if in.onEC2() {
		launchTemplate = in.keptEntryTemplate(slot)
	}
	return &wanted{
		provider: in.provider(),
		cluster:  in.inv.Cluster,
		region:   in.region,
		template: in.templateSpec(slot.name),
		queue:    in.request.Queue,

		allowAccounts: in.allowAccounts(),
		dropUnknown:   in.request.DropUnknown,
		group: pcs.NodeGroup{
			Name: slot.name, PurchaseOption: r.Kind, InstanceTypes: []string{r.InstanceType}, SubnetIDs: subnets,
			ClusterID: in.inv.Cluster.ID, AMI: in.ami(), InstanceProfile: in.profile(), Min: least, Max: most, Tags: in.tags(),
			SlurmSettings: settings, IdleSeconds: in.like.IdleSeconds,
		},
		configPath:  in.request.ConfigPath,
		ended:       in.ended,
		reservation: r,
		members:     in.members,
		partition: config.NodeGroup{
			Name: in.request.NodeGroup, InstanceType: r.InstanceType, SubnetIDs: subnets, PurchaseOption: r.Kind,
			ReservationIDs: []string{r.ID}, MaxNodes: most, Dynamic: in.request.Dynamic, LaunchTemplate: launchTemplate,
		},
	}
}

// wantedSubnets are those asked for or kept; or, of those to choose from, the ones in the
// reservation's zone, so that no launch can go anywhere else.
func (in *inspection) wantedSubnets() []string {
	var ids []string
	said := len(in.request.SubnetIDs) > 0
	stays := !said && len(in.keptSubnets()) > 0
	if only := in.interfaceSubnet(); !in.onEC2() && only != "" && !said && (!stays || in.efa() != efaOf(in.keptTemplate())) {
		return []string{only}
	}
	for _, s := range in.network.chosen {
		if (said || stays || s.AZID == in.reservation.AZID) && !slices.Contains(ids, s.ID) {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// until is the end of a reservation in words.
func until(end time.Time) string {
	if end.IsZero() {
		return "it is cancelled"
	}
	return capacity.FormatUTC(end)
}
