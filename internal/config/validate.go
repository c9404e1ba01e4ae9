package config

import (
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// slurmName matches the partitions and node prefixes that slurm.conf takes without quotes.
var slurmName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]*$`)

// errorList are errors of settings, each with its file and place.
type errorList []error

// reporter returns a function that adds an error about a place in a file.
func (w *errorList) reporter(file, where string) func(message string, args ...any) {
	return func(message string, args ...any) {
		*w = append(*w, fmt.Errorf("%s: %s: %s", file, where, fmt.Sprintf(message, args...)))
	}
}

// isWebhook reports whether a text is a URL that can be posted to, or that of a file which has one.
func isWebhook(text string) bool {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return false
	case u.Scheme == "file":
		return u.Host == "" && filepath.IsAbs(u.Path)
	default:
		return u.Host != "" && (u.Scheme == "https" || u.Scheme == "http")
	}
}

// validate checks all settings and returns every error.
func (c *Config) validate() []error {
	var all errorList
	for _, d := range []struct {
		name         string
		value, least time.Duration
	}{
		{"timing.poll", c.Timing.Poll.Duration, time.Second},
		{"timing.drain_margin", c.Timing.DrainMargin.Duration, 0},
		{"timing.boot_allowance", c.Timing.BootAllowance.Duration, 0},
		{"timing.reclaim_lead", c.Timing.ReclaimLead.Duration, 0},
	} {
		if d.value < d.least {
			all.reporter(c.Path, d.name)("%s is too short; use at least %s", d.value, d.least)
		}
	}

	if c.Reserve.MaxInstances < 0 {
		all.reporter(c.Path, "reserve.max_instances")("%d is too few; use 0 to hold nothing", c.Reserve.MaxInstances)
	}

	if path := c.Notify.Command; path != "" && !filepath.IsAbs(path) {
		all.reporter(c.Path, "notify.command")("%q is not an absolute path", path)
	}

	if c.Notify.Webhook != "" && !isWebhook(c.Notify.Webhook) {
		fail := all.reporter(c.Path, "notify.webhook")
		fail("is not a URL; it begins with https://, or with file:/// for a file that has it")
	}

	return append(all, c.validatePartitions()...)
}

// validatePartitions checks each partition and node group, and that no name is used twice.
func (c *Config) validatePartitions() []error {
	var all errorList

	settings := c.Domain()

	// By name, where it stood first: Slurm and PCS know each of them by its name alone.
	seen := map[string]string{}
	groups := map[string]string{}
	slots := map[string]string{}
	for _, p := range c.Partitions {
		where := fmt.Sprintf("partition %q", p.Name)
		fail := all.reporter(p.File, where)
		if first, twice := seen[p.Name]; twice {
			fail("is there already in %s; keep one of them", first)
		}

		seen[p.Name] = p.File
		validatePartition(p, fail)

		if p.Spare != "" {
			validateSpare(p, c.Partitions, fail)
		}

		for _, g := range p.Groups {
			if first, twice := groups[g.Name]; twice {
				fail("node_group %q is there already in partition %q; give it another name", g.Name, first)
			}

			groups[g.Name] = p.Name
			inGroup := all.reporter(p.File, fmt.Sprintf("%s, node_group %q", where, g.Name))
			validateGroup(g, p.Provider, inGroup)
			validateReserve(g, p.Provider, c.Reserve, inGroup)

			for _, slot := range g.SlotNames(p.Provider) {
				if first, twice := slots[slot]; twice && first != g.Name {
					inGroup("its slot %s is one of node_group %q as well; give it another name", slot, first)
				}

				slots[slot] = g.Name
			}

			for _, node := range g.Nodes {
				if _, first, _, _ := settings.FindNode(node); first.Name != g.Name {
					inGroup("nodes: %s is a node of node_group %q as well; keep one of them", node, first.Name)
					break // one says enough
				}
			}
		}
	}

	return all
}

func validatePartition(p capacity.PartitionSettings, fail func(message string, args ...any)) {
	if !slurmName.MatchString(p.Name) {
		fail("a partition name starts with a letter and has letters, digits, '-', '_' and '.' only")
	}

	if !p.Provider.IsKnown() {
		fail("provider = %q is not valid; use \"pcs\", \"ec2\" or \"none\"", p.Provider)
	}

	if p.MinTime.Duration < time.Minute {
		fail("min_time = %q is too short; Slurm counts in minutes", p.MinTime)
	}

	if !p.OnEnd.IsKnown() {
		fail("on_end = %q is not valid; use \"stop\", \"requeue\" or \"hold\"", p.OnEnd)
	}

	switch {
	case p.RollOver && p.Provider.IsGuest():
		fail("roll_over is for provider pcs; with none, whoever launches the nodes launches them into the next block")
	case p.RollOver && !p.Provider.Configures():
		fail("roll_over is for provider pcs; with ec2 nodes are launched into the next block without it")
	}

	if len(p.Groups) == 0 {
		fail("has no [[partition.node_group]]; add one")
	}
}

// validateSpare finds what is wrong with the spare partition of a partition; all are those of the settings.
func validateSpare(p capacity.PartitionSettings, all []capacity.PartitionSettings, fail func(string, ...any)) {
	if !slurmName.MatchString(p.Spare) {
		fail("spare = %q cannot be the name of a partition; start with a letter and use letters, digits, '-', '_' and "+
			"'.' only", p.Spare)
	}

	for _, other := range all {
		if other.Name == p.Spare || other.Spare == p.Spare && other.Name != p.Name {
			fail("spare = %q is partition %q of the settings, or its spare one; give it another name", p.Spare,
				other.Name)
		}
	}

	if !slices.ContainsFunc(p.Groups, func(g capacity.GroupSettings) bool { return g.PurchaseOption.IsReserved() }) {
		fail("spare = %q lends the nodes of reservations, and no node_group has one: leave it out", p.Spare)
	}
}

func validateGroup(g capacity.GroupSettings, provider capacity.Provider, fail func(message string, args ...any)) {
	if problem := GroupName(provider, g.Name); problem != "" {
		fail("%s", problem)
	}

	if g.InstanceType == "" {
		fail("instance_type is missing")
	}

	if len(g.SubnetIDs) == 0 {
		fail("subnet_ids is missing")
	}

	for _, id := range g.SubnetIDs {
		if !capacity.IsSubnetID(id) {
			fail("subnet_ids: %q is not a subnet id", id)
		}
	}

	for _, id := range g.ReservationIDs {
		if !capacity.IsReservationID(id) {
			fail("capacity_reservation_ids: %q is not a capacity reservation id", id)
		}
	}

	if g.Select != nil && len(g.ReservationIDs) > 0 {
		fail("has capacity_reservation_ids and select; keep one of them")
	}

	if g.Select != nil && len(g.Select.Tags) == 0 {
		fail("select has no tags, which would choose every reservation; name at least one")
	}

	if !slices.Contains(capacity.PurchaseOptions, g.PurchaseOption) {
		fail("purchase_option = %q is not valid; use \"capacity-block\", \"odcr\" or \"on-demand\"", g.PurchaseOption)
	}

	if g.MaxNodes < 1 {
		fail("max_nodes is missing or below 1")
	}

	if provider.Launches() && g.LaunchTemplate == "" {
		fail("launch_template is missing; provider ec2 launches from it")
	}

	if provider.IsGuest() && g.LaunchTemplate != "" {
		fail("launch_template is for provider ec2; with none, nothing of ours launches: leave it out")
	}

	validateSlots(g, provider, fail)
	validateTest(g, provider, fail)
}

func validateTest(g capacity.GroupSettings, provider capacity.Provider, fail func(message string, args ...any)) {
	switch {
	case g.OpenTest == "" && g.OpenTestLimit.Duration != 0:
		fail("open_test_limit is for open_test, which is missing")
	case g.OpenTest == "":
	case !filepath.IsAbs(g.OpenTest):
		fail("open_test = %q is not a path that begins with /", g.OpenTest)
	case g.OpenTestLimit.Duration < time.Minute:
		fail("open_test_limit = %q is too short; Slurm counts in minutes", g.OpenTestLimit)
	case provider.IsGuest():
		fail("open_test is for provider pcs and ec2; with none, nothing of ours sets the states of nodes: leave it out")
	case g.PurchaseOption != capacity.CapacityBlock:
		fail("open_test is for purchase_option = \"capacity-block\", which opens; leave it out")
	case g.Dynamic:
		fail("open_test needs nodes that are up when a block opens; leave it out, or dynamic")
	}
}

func validateSlots(g capacity.GroupSettings, provider capacity.Provider, fail func(message string, args ...any)) {
	switch {
	case provider.IsGuest() && g.Slots != 0:
		fail("slots = %d is for provider ec2; with none, use a node group for each of two reservations at once",
			g.Slots)
	case provider.Configures() && g.Slots != 0:
		fail("slots = %d is for provider ec2; with pcs a node group always has two slots: leave it out", g.Slots)
	case provider.Configures() && len(g.Nodes) > 0:
		fail("nodes is for provider ec2; PCS names its nodes itself: leave it out")
	case g.Slots < 0 || g.Slots > 2:
		fail("slots = %d: use 1 or 2", g.Slots)
	case g.Slots == 2 && len(g.Nodes) > 0:
		fail("slots = 2 names the nodes %s-a-1, %[1]s-b-1, …: leave nodes out, or use two node groups", g.Name)
	}
}

// GroupName says what is wrong with the name of a node group; "" if nothing. It begins the names of nodes; PCS takes 3
// to 25 letters, digits and hyphens, starting with a letter and not with pcs_, and the slots add "-a" and "-b".
func GroupName(provider capacity.Provider, name string) string {
	if !provider.Configures() {
		if !slurmName.MatchString(name) {
			return fmt.Sprintf(
				"%q cannot begin the names of nodes; start with a letter and use letters, digits, '-', '_' and '.' "+
					"only",
				name)
		}

		return ""
	}

	// PCS counts the suffix of the slot.
	most := 25 - len(capacity.SlotNames(capacity.ProviderPCS, "")[0])

	if !regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]*$`).MatchString(name) {
		return fmt.Sprintf(
			"%q cannot name a PCS compute node group; start with a letter and use letters, digits and hyphens only",
			name)
	}

	if len(name) > most {
		return fmt.Sprintf("%q has %d characters; PCS takes 25 and the slots add 2, so use at most %d", name, len(name),
			most)
	}

	return ""
}

// validateReserve finds what a node group may not have unless it buys on demand, through us.
func validateReserve(
	g capacity.GroupSettings, provider capacity.Provider, all capacity.Reserve, fail func(message string, args ...any),
) {
	// Where the site launches, neither an ODCR nor another type is ours to choose; where PCS does, no other type.
	onDemand := provider == capacity.ProviderEC2 && !g.PurchaseOption.IsReserved()
	holds := onDemand || provider == capacity.ProviderPCS && !g.PurchaseOption.IsReserved()
	switch {
	case g.Reserve != "" && g.Reserve != capacity.ReserveNever && g.Reserve != capacity.ReservePerJob:
		fail("reserve = %q is not valid; use \"never\" or \"per-job\"", g.Reserve)
	case g.Reserve == capacity.ReservePerJob && all.MaxInstances == 0:
		fail(
			"reserve = \"per-job\" holds nothing while max_instances of [reserve] is 0; say how many instances may " +
				"be held at once")
	case g.Reserve == capacity.ReservePerJob && !holds:
		fail("reserve = \"per-job\" is for provider ec2 or pcs and purchase_option = \"on-demand\"; leave it out")
	case g.Reserve == capacity.ReservePerJob && !onDemand && (len(g.ReservationIDs) > 0 || g.Select != nil):
		fail("with provider pcs and reserve = \"per-job\", nodes launch only into ODCRs that sync creates; leave " +
			"capacity_reservation_ids and select out")
	}

	if len(g.OtherTypes) > 0 && g.Reserve == capacity.ReservePerJob {
		fail(
			"other_instance_types cannot be together with reserve = \"per-job\": a job's nodes are to be alike; give " +
				"each type a node_group of its own")
	}

	if len(g.OtherTypes) > 0 && !onDemand {
		fail("other_instance_types is for provider ec2 and purchase_option = \"on-demand\"; leave it out")
	}

	for i, t := range g.OtherTypes {
		switch {
		case !capacity.IsInstanceType(t):
			fail("other_instance_types: %q is not an instance type", t)
		case t == g.InstanceType || slices.Contains(g.OtherTypes[:i], t):
			fail("other_instance_types: %s is there twice; keep one of them", t)
		}
	}
}
