package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/facts"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// World is read and changed by a pass. The adapters are one, the model of the tests (internal/lab/model) is the other.
type World struct {
	Slurm  Slurm
	EC2    EC2
	Groups Groups // nil where no capacity is held for jobs on PCS
	State  state.Dir
	// MachineTime is the machine's clock, which stands for the Slurm controller's: time.Now. AWS's time is MachineTime
	// plus EC2.Offset.
	MachineTime func() time.Time
	// Outcome collects what actions did. Only a pass has one.
	Outcome Outcome
}

// Outcome has what later decisions of a pass, and later passes, must know of what its actions did. No decision reads
// it: the pass folds it into the View after each list of actions.
type Outcome struct {
	// Records are the job records that have changed, by recordKey.
	Records map[string]state.JobRecord
	// PoweredUp says when the nodes of slots were powered up, by slot.
	PoweredUp map[string]time.Time
	// Terminated has the instances that EC2 now ends, by id.
	Terminated map[string]bool
	// Open has the slots whose guards could not all be placed: later actions of the list remove none from them.
	Open map[string]bool

	// ODCRs have been created for waiting jobs, by id.
	ODCRs map[string]capacity.Reservation
	// Joined are those that have been added to the groups of slots, the slots by the ODCRs' ids.
	Joined map[string]string
	// Orders has the jobs for which ODCRs were ordered, each with EC2's last refusal, "" if one was created.
	Orders map[string]string
	// Ordered counts the instances of ODCRs, by slot.
	Ordered map[string]int
	// Full are the zones without room, by instance type and zone.
	Full map[string]fullZone
}

func newOutcome() Outcome {
	return Outcome{
		Records:    map[string]state.JobRecord{},
		PoweredUp:  map[string]time.Time{},
		Terminated: map[string]bool{},
		Open:       map[string]bool{},
		ODCRs:      map[string]capacity.Reservation{},
		Joined:     map[string]string{},
		Orders:     map[string]string{},
		Ordered:    map[string]int{},
		Full:       map[string]fullZone{},
	}
}

// Action is a change that a pass decides on.
type Action = capacity.Action[World]

func newAction(code string, about capacity.Subject, text string, do func(ctx context.Context, w World) error) Action {
	return Action{
		Code:  code,
		About: about,
		Text:  text,
		Do:    do,
	}
}

// errMoot is the error of an action that no longer fits: what it is about has changed since it was read, or an action
// on which it depends has failed. It is not reported; the next pass reads anew.
var errMoot = errors.New("what this is about has changed")

// isUnanswered reports whether nobody knows if a call to Slurm has had its effect.
func isUnanswered(err error) bool {
	return errors.Is(err, slurm.ErrUnreachable) || errors.Is(err, context.Canceled)
}

// Slurm has the calls of a pass to Slurm, in slurmctld's clock. Jobs are named as Slurm shows them.
type Slurm interface {
	Config(ctx context.Context) (slurm.Config, error)
	Nodes(ctx context.Context, names ...string) ([]capacity.Node, error)
	Partitions(ctx context.Context) ([]capacity.SlurmPartition, error)
	Reservations(ctx context.Context) ([]capacity.SlurmReservation, error)
	// Walls are the limits of accounting.
	Walls(ctx context.Context, clusterName string) (capacity.Walls, error)
	// JobsOf returns the jobs that have not ended, and with their results those that ended in the last minutes: of the
	// partitions, or of all if none is given. Only jobs that wanted keeps are returned; nil keeps all.
	JobsOf(
		ctx context.Context, partitions []string, wanted func(capacity.Job) bool,
	) (live, ended []capacity.Job, err error)
	// Tasks are tasks of arrays by name, which JobsOf shows as one while they wait.
	Tasks(ctx context.Context, names []string) ([]capacity.Job, error)
	// Job has no name if Slurm has forgotten it.
	Job(ctx context.Context, job string) (capacity.Job, error)

	CreateReservation(ctx context.Context, r capacity.SlurmReservation) error
	UpdateReservation(ctx context.Context, r capacity.SlurmReservation) error
	DeleteReservation(ctx context.Context, name string) error
	Drain(ctx context.Context, nodes []string, reason string) error
	PowerUp(ctx context.Context, nodes []string) error
	PowerDown(ctx context.Context, nodes []string, reason string) error
	PowerDownForce(ctx context.Context, nodes []string, reason string) error
	SetTimeLimit(ctx context.Context, job string, minutes int) error
	// Edit changes several waiting jobs. The errors are by job.
	Edit(ctx context.Context, edits map[string]capacity.Edits) map[string]error
	// SubmitBatch submits a job of root's and returns its name.
	SubmitBatch(ctx context.Context, job capacity.Batch) (string, error)
	Cancel(ctx context.Context, jobs ...string) error
	RequeueJob(ctx context.Context, before capacity.Job, hold bool) (after capacity.Job, err error)
	ResumeJob(ctx context.Context, job string) error
	SetBeginTime(ctx context.Context, job string, at time.Time) error
	UserHold(ctx context.Context, jobs ...string) error
	Release(ctx context.Context, job string) error
	SetAdminComment(ctx context.Context, text string, jobs ...string) error
	Notify(ctx context.Context, job, text string) error
}

// EC2 has the calls of a pass to EC2.
type EC2 interface {
	facts.AWS

	Region() string
	// Offset is AWS's time minus the machine's.
	Offset() time.Duration
	// Withheld returns warnings: what EC2 has withheld for lack of permission since the last call of Untold.
	Withheld() []string

	// Impaired are running instances whose host is impaired, or that EC2 is about to stop: its words, by instance.
	Impaired(ctx context.Context) (map[string]string, error)

	// CreateODCR answers an order that was made before with what it made then.
	CreateODCR(ctx context.Context, o capacity.HoldOrder) (capacity.Reservation, error)
	// ModifyODCR changes the number of instances and the end of an ODCR. EC2 refuses fewer than run in it.
	ModifyODCR(ctx context.Context, id string, count int, end time.Time) error
	// Terminate ends instances, CancelODCR an ODCR.
	Terminate(ctx context.Context, instances []capacity.Instance) error
	CancelODCR(ctx context.Context, id string) error
}

// Groups has the calls to Capacity Reservation groups, by the groups' names.
type Groups interface {
	// Members returns the ids of the reservations in a group.
	Members(ctx context.Context, group string) (reservations []string, err error)
	// Add adds reservations, by their ARNs. One that is there already is no error.
	Add(ctx context.Context, group string, reservationARNs []string) error
}

// Cluster holds slurmctld's answers: its settings, partitions, nodes and reservations.
type Cluster struct {
	slurm.Config // Config is zero but for what passes need
	// Mark is the value of our mark on what belongs to this cluster; "" if unknown, because of MarkErr.
	Mark    string
	MarkErr error
	Name    string // the ClusterName of self-managed Slurm, which is not unique; "" if Mark is a PCS cluster's
	// Walls are limits of Slurm's accounting; if WallsErr is not nil, the previous ones count.
	Walls        capacity.Walls
	WallsErr     error
	Nodes        []capacity.Node
	Partitions   []capacity.SlurmPartition
	Reservations []capacity.SlurmReservation

	slots map[string][]string // their nodes: see assign
}

// wallsTimeout bounds the wait for slurmdbd: a pass does without.
const wallsTimeout = 5 * time.Second

func (s Sources) cluster(ctx context.Context) (*Cluster, error) {
	// Side by side: each is a process, which takes longer to start than slurmctld to answer.
	c := &Cluster{}

	var (
		errs  [4]error
		reads sync.WaitGroup
	)
	reads.Go(func() { c.Config, errs[0] = s.Slurm.Config(ctx) })
	reads.Go(func() { c.Nodes, errs[1] = s.Slurm.Nodes(ctx) })
	reads.Go(func() { c.Partitions, errs[2] = s.Slurm.Partitions(ctx) })
	reads.Go(func() { c.Reservations, errs[3] = s.Slurm.Reservations(ctx) })
	reads.Wait()

	if err := cmp.Or(errs[:]...); err != nil {
		return nil, err
	}

	c.Mark = s.Settings.Cluster
	if c.Mark == "" {
		c.Name = c.ClusterName
		c.Mark, c.MarkErr = clusterMark(s.State, c.StateSaveLocation, c.ClusterName)
	}

	if c.ChecksLimits() {
		ctx, cancel := context.WithTimeout(ctx, wallsTimeout)
		defer cancel()

		c.Walls, c.WallsErr = s.Slurm.Walls(ctx, c.ClusterName)
	}

	c.assign(s.Settings)

	return c, nil
}

// clusterMark returns the mark of a self-managed cluster, or why it is unknown.
//
// sync ends what has this mark, so it takes only what a hook made on the controller: from there, or, where it runs
// elsewhere, from what that hook wrote down.
func clusterMark(dir state.Dir, stateSave, clusterName string) (string, error) {
	kept, keptErr := dir.Mark()
	if name, _, _ := strings.Cut(kept, "/"); keptErr == nil && name != clusterName {
		kept, keptErr = "", fmt.Errorf("the cluster's mark %q in %s is not that of cluster %s", kept, dir, clusterName)
	}

	id, err := state.ClusterID(stateSave, clusterName)
	mark := capacity.ClusterMark(clusterName, id)
	switch {
	case err == nil && keptErr == nil && mark != kept:
		return "", fmt.Errorf(
			"the cluster's mark is %s in %s and %s in %s; run sync on Slurm's controller, and delete %[4]s/mark if "+
				"it does so already",
			mark, stateSave, kept, dir)
	case err == nil:
		return mark, nil
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("no power-up has created an id in %s yet", stateSave)
	case !errors.Is(err, state.ErrNotSlurms) && !errors.Is(err, fs.ErrPermission):
		return "", err
	case keptErr != nil:
		return "", fmt.Errorf("%w; %w; run sync on Slurm's controller as root", err, keptErr)
	}

	return kept, nil
}

// assign finds the nodes of each slot. It reads partitions as well as nodes: Slurm 22.05 hides powered-down cloud nodes
// unless PrivateData has cloud, but still lists them in their partition.
func (c *Cluster) assign(settings capacity.Settings) {
	c.slots = map[string][]string{}
	there := map[string]bool{}

	add := func(name string) {
		if there[name] {
			return
		}

		there[name] = true
		_, _, slot, ok := settings.FindNode(name)
		if !ok { // of a slot that the settings had before
			slot, ok = capacity.SlotOf(name)
		}

		if ok {
			c.slots[slot] = append(c.slots[slot], name)
		}
	}
	for _, n := range c.Nodes {
		add(n.Name)
	}

	for _, p := range c.Partitions {
		for _, name := range p.Nodes {
			add(name)
		}
	}

	for _, names := range c.slots {
		slices.SortFunc(names, capacity.CompareNodes)
	}
}

// SlotNodes returns the names of a slot's nodes, sorted by number.
func (c *Cluster) SlotNodes(slot string) []string { return c.slots[slot] }

func (c *Cluster) byName() map[string]capacity.Node {
	nodes := make(map[string]capacity.Node, len(c.Nodes))
	for _, n := range c.Nodes {
		nodes[n.Name] = n
	}

	return nodes
}

// filterNodes returns the names of visible nodes that satisfy match.
func (c *Cluster) filterNodes(names []string, match func(capacity.Node) bool) []string {
	nodes := c.byName()

	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		n, there := nodes[name]
		return !there || !match(n)
	})
}

func (c *Cluster) visibleNodes(names []string) (shown []capacity.Node) {
	nodes := c.byName()
	for _, name := range names {
		if n, there := nodes[name]; there {
			shown = append(shown, n)
		}
	}

	return shown
}

// partition is Slurm's partition of a name.
func (c *Cluster) partition(name string) (sp capacity.SlurmPartition, there bool) {
	if i := slices.IndexFunc(c.Partitions, func(p capacity.SlurmPartition) bool { return p.Name == name }); i >= 0 {
		return c.Partitions[i], true
	}
	return sp, false
}

// inPartition reports whether any of the nodes is in a partition; of any name if that is "".
func (c *Cluster) inPartition(name string, nodes []string) bool {
	of := setOf(nodes)

	return slices.ContainsFunc(c.Partitions, func(part capacity.SlurmPartition) bool {
		return (name == "" || part.Name == name) &&
			slices.ContainsFunc(part.Nodes, func(n string) bool { return of[n] })
	})
}

func setOf(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}

	return set
}

// OurPartitions returns the Slurm partitions whose jobs can have our nodes: the partitions of the settings, and others
// that share nodes with them or with slots of the previous settings.
func (c *Cluster) OurPartitions(snap *capacity.Snapshot) (nodes []string) {
	for _, at := range capacity.AllSlots(slices.Concat(snap.Partitions, snap.Former)) {
		nodes = append(nodes, c.SlotNodes(at.Slot.Name)...)
	}

	var names []string
	for _, p := range c.Partitions {
		if _, ours := snap.Partition(p.Name); ours || c.inPartition(p.Name, nodes) {
			names = append(names, p.Name)
		}
	}

	return names
}

// feature returns the slot's name if every shown node of the slot has it as a feature, else "": Slurm would refuse a
// job with a constraint that no node has.
func (c *Cluster) feature(slot string, nodes []string) string {
	shown := c.visibleNodes(nodes)
	if len(shown) == 0 ||
		slices.ContainsFunc(shown, func(n capacity.Node) bool { return !slices.Contains(n.Features, slot) }) {
		return ""
	}

	return slot
}

// gpusAndCPUs returns the numbers of GPUs and CPUs in a node; if the nodes differ, the largest.
func (c *Cluster) gpusAndCPUs(nodes []string) (gpus, cpus int) {
	for _, n := range c.visibleNodes(nodes) {
		gpus = max(gpus, n.GPUs)
		cpus = max(cpus, n.CPUs)
	}

	return gpus, cpus
}

// lostNodes returns the nodes of a slot that stand for its failed hosts: as many as EC2 counts, chosen from nodes that
// take no jobs. A job of the whole block then waits in the queue instead of being launched in vain. nodes are those
// with instances. A lost node stays lost while it stays down.
func (c *Cluster) lostNodes(v capacity.SlotState, nodes []string) []string {
	places, usable := countInstances(v)
	missing := min(places-usable, len(nodes))
	if places == 0 || missing <= 0 {
		return nil
	}

	byName := c.byName()

	var before []string
	for _, r := range c.Reservations {
		if g := r.Guard(); g.Kind == "surplus" && g.Slot == v.Slot.Name && r.IsOurs() {
			before = append(before, r.Nodes...)
		}
	}
	// A down node is stronger evidence than one that is off, so it is lost first.
	rank := func(name string) int {
		switch n := byName[name]; {
		case slices.Contains(before, name):
			return 0
		case !n.PoweredDown():
			return 1
		}

		return 2
	}

	var out []string
	for _, name := range slices.Backward(nodes) {
		n, shown := byName[name]
		if idle := !shown || n.PoweredDown() || !n.IsUp() && !n.IsBooting(); idle {
			out = append(out, name)
		}
	}

	slices.SortStableFunc(out, func(a, b string) int { return rank(a) - rank(b) })

	return out[:min(missing, len(out))]
}

// nodesOut returns the nodes to which Slurm gives no job, by state and reason.
func (c *Cluster) nodesOut(names []string) []capacity.NodesOut {
	byName := c.byName()

	down := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return byName[name].OutState() == "" })

	type kind struct{ state, reason string }

	kindOf := func(name string) kind { return kind{byName[name].OutState(), byName[name].Reason} }

	var all []capacity.NodesOut
	for k, names := range groupBy(down, kindOf) {
		all = append(all, capacity.NodesOut{
			Nodes:  hostlist.Compress(names),
			Count:  len(names),
			State:  k.state,
			Reason: k.reason,
		})
	}

	return all
}

// groupBy yields those of all with the same key, in the order of the first of each.
func groupBy[K comparable, T any](all []T, key func(T) K) iter.Seq2[K, []T] {
	return func(yield func(K, []T) bool) {
		groups := map[K][]T{}
		order := []K{}
		for _, one := range all {
			k := key(one)
			if groups[k] == nil {
				order = append(order, k)
			}

			groups[k] = append(groups[k], one)
		}

		for _, k := range order {
			if !yield(k, groups[k]) {
				return
			}
		}
	}
}

// formatInstances names instances with their nodes, and chooses a word for one or for several.
func formatInstances(instances, nodes []string, one, several string) (who, word string) {
	if len(instances) == 1 {
		return fmt.Sprintf("instance %s (%s)", instances[0], nodes[0]), one
	}
	return fmt.Sprintf("instances %s (%s)", strings.Join(instances, ", "), hostlist.Compress(nodes)), several
}

// checkNodesOut reports the nodes of open reservations that are paid for and get no job.
func checkNodesOut(s View) (problems []capacity.Problem) {
	for _, v := range s.slotStates() {
		open := v.Reservation.State == capacity.StateActive && !v.Window.Start.After(s.Now) &&
			(v.Window.Unbounded() || v.Window.Fence.After(s.Now))
		if !open || v.Former {
			continue
		}

		for _, o := range v.Slot.Out {
			about := aboutSlot(v)
			about.Node = o.Nodes

			if line, failed := strings.CutPrefix(o.Reason, testReason); failed {
				problems = append(problems, s.testFailed(v, o, line))
				continue
			}

			fix := fmt.Sprintf("when that is fixed: `%s`",
				capacity.ReturnCommand(o.Nodes, o.State, v.Partition.Provider))
			problems = append(problems, capacity.Problemf(capacity.NodesOutOfService, about, fix,
				"%s is open and paid for, but no job gets nodes %s", v.Reservation.ID, o))
		}
	}

	return problems
}

// checkAccounts names the partitions whose allow_accounts Slurm does not enforce.
func checkAccounts(s View) (problems []capacity.Problem) {
	for _, p := range s.Snap.Partitions {
		if sp, there := s.Cluster.partition(p.Name); there {
			problems = append(problems, capacity.CheckAccounts(p, sp.AllowAccounts, s.Cluster.Accounting())...)
		}
	}

	return problems
}

// checkSpares reports what keeps jobs from getting the nodes back that their partition lends.
func checkSpares(s View) (problems []capacity.Problem) {
	for _, p := range s.Snap.Partitions {
		lender, known := s.Cluster.partition(p.Name)
		if spare, there := s.Cluster.partition(p.Spare.Name); known && there {
			problems = append(problems, capacity.CheckSpare(lender, spare, s.Cluster.Preemption)...)
		}
	}

	return problems
}

// NextBoundary returns the next moment at which a reservation of the snapshot opens, warns or requeues its jobs, meets
// its fence or ends; false if there is none.
func NextBoundary(snap *capacity.Snapshot, now time.Time) (at time.Time, ok bool) {
	for _, v := range snap.SlotStates(now) {
		all := []time.Time{v.Event(now).At}
		if o := v.Slot.Opening; o != nil && o.Soon {
			all = append(all, now.Add(openPoll))
		}

		if v.Slot.Holding != nil {
			all = append(all, now.Add(holdPoll))
		}

		if fence := v.Window.Fence; !fence.IsZero() {
			all = append(all, capacity.RequeueAt(fence, snap.KillWait.Duration))
			for _, minutes := range warnMinutes {
				all = append(all, fence.Add(-time.Duration(minutes)*time.Minute))
			}
		}

		for _, t := range all {
			if t.After(now) && (!ok || t.Before(at)) {
				at = t
				ok = true
			}
		}
	}

	return at, ok
}
