// Package canary asks a live AWS PCS cluster, with a small block, what no documentation says and
// the product, or who runs it, depends on. Most of it is seen at one time of a block only, so
// answers are kept from run to run.
package canary

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/pcs"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// Outcome is what became of a statement.
type Outcome string

// The outcomes. Unknown is also what could not be asked now.
const (
	Confirmed Outcome = "confirmed"
	Refuted   Outcome = "refuted"
	Unknown   Outcome = "unknown"
)

// Phase is a time of the block.
type Phase string

// The phases. Closing is from EC2's first terminations until the block's end: nothing is asked.
const (
	Any     Phase = "at any time"
	Before  Phase = "before the block opens"
	Open    Phase = "while it is open"
	Closing Phase = "while EC2 takes its instances back"
	After   Phase = "after its end"
)

// Answer is the outcome of one statement, with what was seen.
type Answer struct {
	ID       string    `json:"id"`
	States   string    `json:"states"`
	Outcome  Outcome   `json:"outcome"`
	Evidence string    `json:"evidence"`
	At       time.Time `json:"at"`
	// Began and Saw are of a change that is looked at again in a later run.
	Began time.Time `json:"began,omitzero"`
	Saw   string    `json:"saw,omitempty"`
}

// Report is all answers about one node group, for sending back.
type Report struct {
	Version     string    `json:"version"`
	Region      string    `json:"region"`
	Slurm       string    `json:"slurm"`
	NodeGroup   string    `json:"node_group"`
	Reservation string    `json:"reservation"`
	Start       time.Time `json:"start,omitzero"`
	End         time.Time `json:"end,omitzero"`
	Phase       Phase     `json:"phase"`
	Answers     []Answer  `json:"answers"`
}

// Canary is one cluster and the node group whose block is asked about.
type Canary struct {
	EC2   *ec2.Client
	PCS   *pcs.Client
	Slurm *slurm.Client
	// Cluster is a name or id, Group the full name of a node group that setup made.
	Cluster, Group string
	Timing         capacity.Timing
	// Change allows the items that change something.
	Change bool
	// Settle is how long a change is left to PCS before it is looked at again.
	Settle time.Duration
	// Poll is the time between two looks at a node group that is made; 0 for the default.
	Poll time.Duration
}

// Run asks what can be asked now, and keeps the answers of the last run about the same block
// where it cannot.
func (c Canary) Run(ctx context.Context, earlier Report) (Report, error) {
	cluster, err := c.PCS.Cluster(ctx, c.Cluster)
	if err != nil {
		return Report{}, err
	}
	group, found, err := c.PCS.NodeGroup(ctx, cluster.ID, c.Group)
	switch {
	case err != nil:
		return Report{}, err
	case !found:
		return Report{}, fmt.Errorf("cluster %s has no compute node group %s; `pcs-capacity setup` makes it", cluster.Name, c.Group)
	case !cluster.Ours(group.Tags) || group.Tags[capacity.TagReservation] == "":
		return Report{}, fmt.Errorf("compute node group %s was not made by `pcs-capacity setup` for a reservation", group.Name)
	}
	res, err := c.EC2.Reservation(ctx, group.Tags[capacity.TagReservation])
	if err != nil {
		return Report{}, err
	}
	if !res.Kind.Bought() {
		return Report{}, fmt.Errorf("reservation %s is no Capacity Block", res.ID)
	}
	if earlier.Reservation != res.ID {
		earlier.Answers = slices.DeleteFunc(earlier.Answers, func(a Answer) bool { return a.Began.IsZero() }) // what was changed is taken back
	}
	r := &run{Canary: c, cluster: cluster, group: group, block: res, now: c.EC2.Now()}
	r.window = c.Timing.Window(res)
	r.phase = phase(r.window, r.now)
	r.Slurm.Dir = slurm.PCSFolder(cluster.SlurmVersion)
	r.nodes, r.slurmErr = r.askSlurm(ctx)
	report := Report{Region: c.EC2.Region(), Slurm: cluster.SlurmVersion, NodeGroup: group.Name, Reservation: res.ID,
		Start: res.Start, End: res.End, Phase: r.phase}
	for _, item := range Items {
		var before Answer
		if at := slices.IndexFunc(earlier.Answers, func(a Answer) bool { return a.ID == item.ID }); at >= 0 {
			before = earlier.Answers[at]
		}
		report.Answers = append(report.Answers, r.answer(ctx, item, before))
	}
	return report, nil
}

func phase(w capacity.Window, now time.Time) Phase {
	switch {
	case now.Before(w.Start):
		return Before
	case now.Before(w.Reclaim):
		return Open
	case now.Before(w.End):
		return Closing
	}
	return After
}

// run is the state of one run.
type run struct {
	Canary
	cluster pcs.Cluster
	group   pcs.NodeGroup
	block   capacity.Reservation
	window  capacity.Window
	phase   Phase
	now     time.Time
	// nodes are those of the group in Slurm; nil for slurmErr.
	nodes    []capacity.Node
	held     []capacity.SlurmReservation
	config   slurm.Config
	slurmErr error
}

// askSlurm reads what the items look at.
func (r *run) askSlurm(ctx context.Context) (nodes []capacity.Node, err error) {
	if r.config, err = r.Slurm.Config(ctx); err != nil {
		return nil, err
	}
	if r.held, err = r.Slurm.Reservations(ctx); err != nil {
		return nil, err
	}
	all, err := r.Slurm.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	for _, n := range all {
		if at := strings.LastIndex(n.Name, "-"); at >= 0 && n.Name[:at] == r.group.Name { // PCS names nodes GROUP-N
			nodes = append(nodes, n)
		}
	}
	if len(nodes) == 0 {
		return nil, errors.New("Slurm shows no nodes of " + r.group.Name)
	}
	return nodes, nil
}

// answer asks one item. What is not decided now leaves what was decided before.
func (r *run) answer(ctx context.Context, item Item, before Answer) Answer {
	a := Answer{ID: item.ID, States: item.States, Outcome: Unknown, At: r.now, Began: before.Began, Saw: before.Saw}
	switch {
	case item.ask == nil:
		a.Evidence = "not asked: " + item.How
	case item.Changes != "" && !r.Change && before.Began.IsZero():
		a.Evidence = "not asked without --change"
	case item.When != Any && item.When != r.phase && before.Began.IsZero():
		a.Evidence = "asked " + string(item.When)
	case item.slurm && r.slurmErr != nil:
		a.Evidence = r.slurmErr.Error()
	default:
		item.ask(ctx, r, &a)
	}
	if a.Outcome == Unknown && (before.Outcome == Confirmed || before.Outcome == Refuted) && a.Began.Equal(before.Began) {
		return before
	}
	return a
}

func (a *Answer) confirm(evidence string, args ...any) {
	a.Outcome, a.Evidence = Confirmed, fmt.Sprintf(evidence, args...)
}

func (a *Answer) refute(evidence string, args ...any) {
	a.Outcome, a.Evidence = Refuted, fmt.Sprintf(evidence, args...)
}

func (a *Answer) unknown(evidence string, args ...any) {
	a.Outcome, a.Evidence = Unknown, fmt.Sprintf(evidence, args...)
}

// decide confirms or refutes with the same evidence.
func (a *Answer) decide(yes bool, evidence string, args ...any) {
	if a.refute(evidence, args...); yes {
		a.Outcome = Confirmed
	}
}
