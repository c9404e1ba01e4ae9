package setup

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"regexp"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

func (in *inspection) provider() capacity.Provider {
	return cmp.Or(in.request.Provider, capacity.ProviderPCS)
}

// onEC2 reports whether the cluster is self-managed Slurm, where our ResumeProgram launches nodes.
func (in *inspection) onEC2() bool { return in.provider() == capacity.ProviderEC2 }

// readLikeTemplate finds the launch template to copy: the requested one, else the node group's own.
func (s Setup) readLikeTemplate(ctx context.Context, in *inspection, n *notes) error {
	name, version, _ := strings.Cut(in.request.Like, ":")
	if name == "" {
		in.source = in.templates[pcs.TemplateName(in.request.Mark, in.request.NodeGroup)] // one that is not ours is refused
		return nil
	}
	source, found, err := s.EC2.LaunchTemplate(ctx, name, version)
	if err == nil && !found {
		n.problem(capacity.LikeUnknown, "name another one",
			"EC2 has no launch template %s in %s to copy from (--like)", in.request.Like, in.region)
	}
	in.source = source
	return err
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

// otherUserData is the remedy for user data that cannot be copied.
const otherUserData = "correct it in its launch template, or give another --like"

// readNodeUserData appends the start of slurmd to the copied user data.
func readNodeUserData(in *inspection) {
	server, site := in.request.ConfServer, in.source.UserData
	if found := confServerOption.FindSubmatch(in.keptTemplate().UserData); found != nil {
		server = string(found[1])
	}
	script := []byte(NodeScript(server))
	in.nodeScript = "starts slurmd"
	if server != "" {
		in.nodeScript += " with slurm.conf of " + server
	}
	switch {
	case len(site) == 0 || isNodeScript(site):
		in.userData = script
		if server == "" && len(site) > 0 { // as the run before had it
			in.userData, in.nodeScript = site, "as it is"
		}
		return
	case bytes.Contains(site, []byte(nodeScriptMark)):
		in.userData, in.nodeScript = site, "as it is"
		return
	}
	in.nodeScript = "after that of " + in.copied() + ", " + in.nodeScript
	data, err := pcs.Archive(site, script)
	if err != nil {
		in.problem(capacity.BadUserData, otherUserData, "the user data of %s cannot be used: %s", in.copied(), err)
	}
	in.userData = data
}

// isNodeScript reports whether user data is nothing but the nodeScript, of any version.
func isNodeScript(data []byte) bool {
	begin, _, _ := strings.Cut(nodeScript, nodeScriptMark)
	return bytes.HasPrefix(data, []byte(begin+nodeScriptMark))
}

// subnetsOnEC2 returns the requested subnets, else the node group's in the settings, else those of
// the partition's other node groups.
func (in *inspection) subnetsOnEC2() []string {
	if len(in.request.SubnetIDs) > 0 {
		return in.request.SubnetIDs
	}
	if own := in.entry(); own.Name != "" {
		return own.SubnetIDs
	}
	var ids []string
	for _, g := range in.settings().Groups {
		ids = union(ids, g.SubnetIDs)
	}
	return ids
}

// oneOf returns the first existing subnet: the nodes are in its VPC.
func (s Setup) oneOf(ctx context.Context, ids []string) ([]string, error) {
	for _, id := range ids {
		_, err := s.EC2.Subnets(ctx, []string{id})
		if err == nil || !absent(err) {
			return []string{id}, err
		}
	}
	return nil, nil
}

// checkEntry compares a reservation with the entry of the settings that it joins.
func (in *inspection) checkEntry(want *wanted) {
	if in.request.Config == nil || !in.onEC2() {
		return
	}
	if _, wanted := partition(in.request.Config, want); len(in.problems) == 0 {
		for _, err := range in.request.Config.With(wanted) { // such as a slot that is another's too
			in.problem(capacity.BadSettings, "choose another --node-group, or mend the settings", "%s", err)
		}
	}
	p, g := in.settings(), in.entry()
	left := without(g.ReservationIDs, append(slices.Clone(in.ended), in.reservation.ID)...)
	if r := in.reservation; g.Slots < 2 && !r.End.IsZero() {
		for _, other := range in.others {
			if slices.Contains(left, other.ID) && !other.End.IsZero() && other.Start.Before(r.End) &&
				r.Start.Before(other.End) {
				in.warn("reservations %s and %s are open at the same time, and node_group %q uses one at a time: choose another --node-group, or set slots = 2",
					r.ID, other.ID, g.Name)
			}
		}
	}
	if p.Name != "" && p.Provider != capacity.ProviderEC2 {
		in.problem(capacity.WrongProvider, "choose another --queue", "partition %q of %s has provider %q", p.Name,
			p.File, p.Provider)
	}
}

// copied names the source of copied settings.
func (in *inspection) copied() string {
	if in.onEC2() {
		return in.source.Name
	}
	return in.like.Name
}

// likeWhat is the kind of thing that --like names.
func (in *inspection) likeWhat() string {
	if in.onEC2() {
		return "a launch template"
	}
	return "a node group"
}

// vpcWord says what ties nodes to a VPC.
func (in *inspection) vpcWord() string {
	if in.onEC2() {
		return "of " + in.network.chosen[0].ID
	}
	return "of cluster " + in.inv.Cluster.Name
}
