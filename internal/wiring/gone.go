package wiring

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// drainReason is what Slurm shows on nodes that go.
const drainReason = "pcs-capacity hooks: the node goes"

// gone are nodes and partitions that slurmctld loses at its restart, and with them their jobs.
type gone struct{ nodes, partitions []string }

// goneWith lists the things that our include had before and that neither it nor the site has after.
func goneWith(site Conf, before, after string) (gone, error) {
	was, err := parse(before)
	if err != nil {
		return gone{}, err
	}
	is, err := parse(after)
	if err != nil {
		return gone{}, err
	}
	var g gone
	for _, name := range slices.Sorted(maps.Keys(was.Nodes)) {
		if !site.Nodes[name] && !is.Nodes[name] {
			g.nodes = append(g.nodes, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(was.Partitions)) {
		_, theirs := site.Partitions[name]
		if _, ours := is.Partitions[name]; !theirs && !ours {
			g.partitions = append(g.partitions, name)
		}
	}
	return g, nil
}

// parse reads a text of our include.
func parse(text string) (Conf, error) {
	c := newConf()
	return c, c.read("", text)
}

// String names them.
func (g gone) String() string {
	var parts []string
	if len(g.nodes) > 0 {
		parts = append(parts, "nodes "+slurm.Compress(g.nodes))
	}
	if len(g.partitions) > 0 {
		parts = append(parts, "partition "+strings.Join(g.partitions, ", "))
	}
	return strings.Join(parts, " and ")
}

// jobs are those that end: they have nodes that go, or wait for nothing but partitions that go.
func (g gone) jobs(all []capacity.Job) (ids []string) {
	for _, j := range all {
		among := func(some []string) func(string) bool {
			return func(name string) bool { return slices.Contains(some, name) }
		}
		left := slices.DeleteFunc(j.Partitions(), among(g.partitions))
		if j.Active() && (len(left) == 0 || slices.ContainsFunc(j.Nodes, among(g.nodes))) {
			ids = append(ids, j.Shown)
		}
	}
	return ids
}

// ending plans to keep new jobs off the nodes that go, and refuses while jobs would end with
// them, unless that is forced. Where it is not known which of them slurmctld has, it leaves that,
// and the restart, to a person.
func (p *Plan) ending(ctx context.Context, s *Settings, site Conf, after string) error {
	before, _, err := read(s.include())
	if err != nil {
		return err
	}
	g, err := goneWith(site, string(before), after)
	if err != nil || len(g.nodes)+len(g.partitions) == 0 {
		return err
	}
	if s.Slurm == nil {
		p.ByHand = append(p.ByHand, fmt.Sprintf("Slurm does not answer here: before slurmctld is restarted, see with squeue that no job has %s, which go", g))
		return nil
	}
	look := func(ctx context.Context) (ids []string, err error) {
		all, err := s.Slurm.Jobs(ctx)
		if err != nil {
			return nil, err
		}
		return g.jobs(all), nil
	}
	ids, err := look(ctx)
	if err != nil {
		return err
	}
	busy := "; they end with them: wait until they have ended, move those that wait (`scontrol update jobid=ID partition=NAME`), or add --force"
	if len(ids) > 0 && !s.Force {
		return fmt.Errorf("jobs have %s, which go: %s%s", g, strings.Join(ids, ", "), busy)
	}
	p.Ends = ids
	if len(g.nodes) == 0 {
		return nil
	}
	known, err := s.Slurm.Nodes(ctx, g.nodes...) // before its restart it has nothing of what we wrote
	switch {
	case ctx.Err() != nil:
		return err
	case err != nil:
		s.Restarts = false
		p.ByHand = append(p.ByHand, fmt.Sprintf("whether slurmctld has nodes %[1]s, which go, is not known (%[3]s): drain those that it has with `scontrol update nodename=%[1]s state=drain reason=%[2]q`",
			slurm.Compress(g.nodes), drainReason, err))
		return nil
	case len(known) == 0:
		return nil
	}
	var nodes []string
	for _, n := range known {
		nodes = append(nodes, n.Name)
	}
	p.Changes = append(p.Changes, Change{Do: "drain", What: "nodes " + slurm.Compress(nodes), do: func(ctx context.Context) error {
		if err := s.Slurm.Drain(ctx, nodes, drainReason); err != nil {
			return err
		}
		ids, err := look(ctx)
		if err == nil && len(ids) > 0 && !s.Force {
			err = fmt.Errorf("jobs started meanwhile: %s%s; or give the nodes back with `scontrol update nodename=%s state=resume`", strings.Join(ids, ", "), busy, slurm.Compress(nodes))
		}
		return err
	}})
	return nil
}
