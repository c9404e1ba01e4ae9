package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// model is a Slurm in memory, as far as blocks and jobs meet in it: what facts measured of the
// real one. It has the real one's refusals and its unkind parts: boot time pushes the end of a
// job past a reservation, an old version cuts --time-min jobs to their floor, an active
// reservation cannot be moved, a job that its limit ends is gone. Times are in its own clock.
type model struct {
	now          time.Time
	collapses    bool
	boot         time.Duration
	requeueDelay time.Duration
	stateSave    string // slurmctld's folder, with the cluster's id
	nodes        []*modelNode
	reservations map[string]capacity.SlurmReservation
	jobs         []*modelJob
	ids          int

	// block is the block that ResumeProgram launches the nodes of a slot into at a time, and for
	// how many it has instances; "" for none. reclaimed is whether EC2 has taken those back.
	block     func(slot string, at time.Time) (id string, instances int)
	reclaimed func(block string, at time.Time) bool

	// ran is told of each run that ends, powered of each node that is powered up or down.
	ran     func(j *modelJob, how string)
	powered func(node string, on bool)

	// calls counts the changes that were asked for; the caller is killed before the dieAt-th
	// one, or after its effect.
	calls, dieAt int
	dieAfter     bool
}

// The states of nodes.
const (
	nodeIdle  = "IDLE+CLOUD"
	nodeOff   = "IDLE+CLOUD+POWERED_DOWN"
	nodeBoots = "ALLOCATED+CLOUD+POWERING_UP"
)

type modelNode struct {
	capacity.Node
	job    *modelJob
	dead   bool      // its host has failed: it does not boot
	booted time.Time // when it is up
	block  string    // its instance is of this block; "" while it is powered down
}

type modelJob struct {
	capacity.Job
	slot string // where it may run; "" is anywhere
	work time.Duration
	// fails is how it ends when its work is done, if that is not COMPLETED.
	fails string
	over  string // how it ended; "" if it has not
	held  bool

	submitted time.Time
}

// killed is the panic of a caller that is killed.
type killed struct{}

func (m *model) change() (after func()) {
	m.calls++
	die := m.calls == m.dieAt
	if die && !m.dieAfter {
		panic(killed{})
	}
	return func() {
		if die {
			panic(killed{})
		}
	}
}

func newModel(now time.Time, slots map[string]int) *model {
	m := &model{now: now, boot: 5 * time.Minute, requeueDelay: 2 * time.Minute, reservations: map[string]capacity.SlurmReservation{}}
	for _, slot := range []string{"gpu-a", "gpu-b", "solo"} {
		for i := range slots[slot] {
			m.nodes = append(m.nodes, &modelNode{Node: capacity.Node{Name: fmt.Sprintf("%s-%d", slot, i+1), State: nodeOff, Features: []string{slot}, GPUs: 8}})
		}
	}
	return m
}

func (m *model) node(name string) *modelNode {
	i := slices.IndexFunc(m.nodes, func(n *modelNode) bool { return n.Name == name })
	return m.nodes[i]
}

func (m *model) slotOf(name string) string { return name[:strings.LastIndex(name, "-")] }

// advance lets time pass: jobs end, nodes boot, reservations begin and end, jobs start.
func (m *model) advance(to time.Time) {
	for {
		next := m.next(to)
		if m.now = next; !next.Before(to) {
			m.happen()
			return
		}
	}
}

// next lets happen what is due, and is when something is due again, at the latest to.
func (m *model) next(to time.Time) time.Time {
	m.happen()
	next := to
	consider := func(t time.Time) {
		if t.After(m.now) && t.Before(next) {
			next = t
		}
	}
	for _, r := range m.reservations {
		consider(r.Start)
		consider(r.End)
	}
	for _, n := range m.nodes {
		consider(n.booted)
	}
	for _, j := range m.jobs {
		if j.over != "" {
			continue
		}
		consider(j.Eligible)
		if j.State == "RUNNING" {
			consider(j.End)
			consider(j.Start.Add(j.work))
		}
	}
	return next
}

func (m *model) happen() {
	for name, r := range m.reservations {
		if !r.End.After(m.now) {
			delete(m.reservations, name)
		}
	}
	for _, n := range m.nodes {
		if n.job == nil && n.block != "" && m.reclaimed(n.block, m.now) {
			m.off(n)
		}
		if n.State == nodeBoots && !n.booted.After(m.now) {
			if n.dead {
				continue // until somebody powers it down
			}
			n.State = nodeIdle
		}
	}
	for _, j := range m.jobs {
		if j.State != "RUNNING" {
			continue
		}
		if ready := !slices.ContainsFunc(j.Nodes, func(n string) bool { return !m.node(n).Up() }); j.Configuring() && ready {
			// The limit counts from when all nodes are up, and no reservation is looked at again.
			j.StateFlag, j.Start = "", m.now
			j.End = m.now.Add(j.TimeLimit.Duration())
		}
		switch {
		case j.Configuring():
		case !j.Start.Add(j.work).After(m.now):
			m.end(j, cmp.Or(j.fails, "COMPLETED"))
		case j.TimeLimit.Bounded() && !j.End.After(m.now):
			m.end(j, "TIMEOUT")
		}
	}
	for _, j := range m.jobs {
		if j.State == "PENDING" && !j.held && !j.Eligible.After(m.now) {
			m.start(j)
		}
	}
}

// end ends a job.
func (m *model) end(j *modelJob, how string) {
	m.free(j, how)
	j.State, j.over, j.End = how, how, m.now
}

// free takes the nodes of a job away.
func (m *model) free(j *modelJob, how string) {
	if m.ran != nil {
		m.ran(j, how)
	}
	for _, name := range j.Nodes {
		m.node(name).job = nil
	}
}

// start starts a job if there are nodes for it, all of one slot.
func (m *model) start(j *modelJob) {
	for _, slot := range []string{"gpu-a", "gpu-b", "solo"} {
		if slot == "solo" != (j.Partition == "solo") || j.slot != "" && j.slot != slot {
			continue
		}
		var names []string
		room := capacity.Limit{}
		for _, n := range m.nodes {
			free := n.job == nil && m.slotOf(n.Name) == slot && (n.Up() || n.PoweredDown())
			limit, fits := m.limit(j, n.Name)
			if !free || !fits {
				continue
			}
			if names = append(names, n.Name); room.Minutes == 0 || limit.Minutes < room.Minutes {
				room = limit
			}
			if len(names) == j.NumNodes {
				break
			}
		}
		if len(names) < j.NumNodes {
			continue
		}
		if m.boots(names) > m.places(slot) {
			j.Eligible = m.now.Add(15 * time.Minute) // EC2 refuses, and the job goes back into the queue
			return
		}
		j.State, j.Nodes, j.TimeLimit, j.Start = "RUNNING", names, room, m.now
		j.End = m.now.Add(room.Duration())
		for _, name := range names {
			n := m.node(name)
			n.job = j
			if n.PoweredDown() {
				m.powerUp(n)
				j.StateFlag = "CONFIGURING"
			}
		}
		return
	}
}

// boots counts the nodes that have to boot.
func (m *model) boots(names []string) (n int) {
	for _, name := range names {
		if m.node(name).PoweredDown() {
			n++
		}
	}
	return n
}

// places is how many nodes of a slot can be launched now.
func (m *model) places(slot string) int {
	id, n := m.block(slot, m.now)
	return n - m.of(id)
}

// of is how many nodes have an instance of a block.
func (m *model) of(block string) (n int) {
	for _, node := range m.nodes {
		if node.block != "" && node.block == block {
			n++
		}
	}
	return n
}

func (m *model) powerUp(n *modelNode) {
	n.State, n.booted = nodeBoots, m.now.Add(m.boot)
	n.block, _ = m.block(m.slotOf(n.Name), m.now)
	if m.powered != nil {
		m.powered(n.Name, true)
	}
}

func (m *model) off(n *modelNode) {
	n.State, n.block = nodeOff, ""
	if m.powered != nil {
		m.powered(n.Name, false)
	}
}

// limit is that with which a job may start on a node.
func (m *model) limit(j *modelJob, node string) (capacity.Limit, bool) {
	if !j.TimeLimit.Bounded() && len(m.reservations) > 0 && !j.TimeMin.Bounded() {
		for _, r := range m.reservations {
			if slices.Contains(r.Nodes, node) {
				return capacity.Limit{}, false
			}
		}
	}
	want := j.TimeLimit.Minutes
	least := want
	if j.TimeMin.Bounded() {
		least = j.TimeMin.Minutes
		future := false
		for _, r := range m.reservations {
			future = future || r.Start.After(m.now)
		}
		if m.collapses && future {
			want = least
		}
	}
	for _, r := range m.reservations {
		if slices.Contains(r.Nodes, node) {
			want = min(want, int(r.Start.Sub(m.now)/time.Minute))
		}
	}
	return capacity.Minutes(want), want >= least && want > 0
}

func (m *model) submit(j modelJob) *modelJob {
	m.ids++
	j.ID, j.submitted = m.ids, m.now
	j.Shown, j.State, j.Eligible = fmt.Sprint(j.ID), "PENDING", m.now
	m.jobs = append(m.jobs, &j)
	return &j
}

func (m *model) find(shown string) (*modelJob, error) {
	for _, j := range m.jobs {
		if j.Shown == shown && j.over == "" {
			return j, nil
		}
	}
	return nil, errors.New("no such job")
}

func (m *model) Config(context.Context) (slurm.Config, error) {
	version := slurm.Version{Major: 25, Minor: 11}
	if m.collapses {
		version.Major = 24
	}
	return slurm.Config{Version: version, ClusterName: "lab", StateSaveLocation: m.stateSave, KillWait: 30 * time.Second}, nil
}

func (m *model) Nodes(_ context.Context, names ...string) (nodes []capacity.Node, err error) {
	for _, n := range m.nodes {
		if len(names) == 0 || slices.Contains(names, n.Name) {
			nodes = append(nodes, n.Node)
		}
	}
	return nodes, nil
}

func (m *model) Partitions(context.Context) ([]capacity.SlurmPartition, error) {
	gpu, solo := capacity.SlurmPartition{Name: "gpu"}, capacity.SlurmPartition{Name: "solo"}
	for _, n := range m.nodes {
		if m.slotOf(n.Name) == "solo" {
			solo.Nodes = append(solo.Nodes, n.Name)
		} else {
			gpu.Nodes = append(gpu.Nodes, n.Name)
		}
	}
	return []capacity.SlurmPartition{gpu, solo}, nil
}

func (m *model) Reservations(context.Context) (all []capacity.SlurmReservation, err error) {
	for _, r := range m.reservations {
		r.Active = !r.Start.After(m.now)
		r.Flags = append(slices.Clone(r.Flags), specNodes)
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b capacity.SlurmReservation) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

func (m *model) Walls(context.Context, string) (capacity.Walls, error) { return capacity.Walls{}, nil }

func (m *model) JobsOf(_ context.Context, partitions []string, wanted func(capacity.Job) bool) (live, ended []capacity.Job, err error) {
	for _, j := range m.jobs {
		asked := len(partitions) == 0
		for name := range strings.SplitSeq(j.Partition, ",") {
			asked = asked || slices.Contains(partitions, name)
		}
		if !asked || wanted != nil && !wanted(j.Job) {
			continue
		}
		switch {
		case j.over == "":
			live = append(live, j.Job)
		case m.now.Sub(j.End) < 5*time.Minute:
			ended = append(ended, j.Job)
		}
	}
	return merged(live), ended, nil
}

// merged shows tasks of an array that wait as squeue does: as one job, with what is true of the first.
func merged(jobs []capacity.Job) (all []capacity.Job) {
	at := map[string]int{}
	for _, j := range jobs {
		array, task, is := strings.Cut(j.Shown, "_")
		i, known := at[array]
		switch {
		case !is || !j.Pending():
			all = append(all, j)
		case known:
			all[i].Shown = strings.TrimSuffix(all[i].Shown, "]") + "," + task + "]"
		default:
			at[array] = len(all)
			j.Shown = array + "_[" + task + "]"
			all = append(all, j)
		}
	}
	return all
}

func (m *model) Tasks(ctx context.Context, names []string) (tasks []capacity.Job, err error) {
	for _, name := range names {
		j, _ := m.Job(ctx, name)
		tasks = append(tasks, j)
	}
	return tasks, nil
}

func (m *model) Job(_ context.Context, shown string) (capacity.Job, error) {
	for _, j := range m.jobs {
		if j.Shown == shown {
			return j.Job, nil
		}
	}
	return capacity.Job{}, nil
}

func (m *model) CreateReservation(_ context.Context, r capacity.SlurmReservation) error {
	defer m.change()()
	if _, there := m.reservations[r.Name]; there || r.Start.Before(m.now.Add(-time.Second)) {
		return fmt.Errorf("cannot create %s", r.Name)
	}
	if slices.Contains(r.Flags, specNodes) {
		return fmt.Errorf("error parsing flags %s", r.Flags)
	}
	m.put(r)
	return nil
}

// specNodes is a flag that Slurm shows of each reservation of named nodes, and takes from nobody.
const specNodes = "SPEC_NODES"

func (m *model) put(r capacity.SlurmReservation) {
	if r.End.IsZero() {
		r.End = r.Start.Add(365 * 24 * time.Hour)
	}
	m.reservations[r.Name] = r
}

// guards is the Slurm reservation of a slot that is there for a block, or, with none, for
// whatever ended last.
func (m *model) guards(slot string, kind capacity.GuardKind, block string) (r capacity.SlurmReservation, there bool) {
	for _, one := range m.reservations {
		if g := one.Guard(); g.Slot == slot && g.Kind == kind && (g.Block == block || block == "") {
			r, there = one, true
		}
	}
	return r, there
}

func (m *model) UpdateReservation(_ context.Context, r capacity.SlurmReservation) error {
	defer m.change()()
	old, there := m.reservations[r.Name]
	active := there && !old.Start.After(m.now)
	if !there || active && !r.Active || r.Start.Before(m.now.Add(-time.Second)) && !active {
		return errors.New("reservation already started, or there is none")
	}
	if active {
		r.Start = old.Start
	}
	m.put(r)
	return nil
}

func (m *model) DropReservation(_ context.Context, name string) error {
	defer m.change()()
	delete(m.reservations, name)
	return nil
}

func (m *model) SetTimeLimit(_ context.Context, job string, minutes int) error {
	defer m.change()()
	j, err := m.find(job)
	if err == nil {
		j.TimeLimit = capacity.Minutes(minutes)
		j.End = j.Start.Add(j.TimeLimit.Duration())
	}
	return err
}

func (m *model) Edit(_ context.Context, edits map[string]capacity.Edits) map[string]error {
	defer m.change()()
	errs := map[string]error{}
	for name, e := range edits {
		j, err := m.find(name)
		if errs[name] = err; err != nil {
			continue
		}
		j.TimeLimit, j.TimeMin = e.TimeLimit, e.TimeMin
		delete(errs, name)
	}
	return errs
}

func (m *model) RequeueJob(_ context.Context, before capacity.Job, hold bool) (after capacity.Job, err error) {
	defer m.change()()
	j, err := m.find(before.Shown)
	if err != nil {
		return capacity.Job{}, err
	}
	was := j.held
	j.held = was || hold
	if err = m.requeue(before.Shown); err != nil {
		j.held = was
	} else if hold {
		j.Held, j.Reason, j.Start = true, "JobHeldAdmin", time.Time{}
	}
	return j.Job, err
}

func (m *model) requeue(job string) error {
	j, err := m.find(job)
	if err != nil || j.State != "RUNNING" && j.State != "SUSPENDED" {
		return errors.New("not running")
	}
	m.free(j, "REQUEUED")
	j.work -= max(0, m.now.Sub(j.Start)) // it goes on from where it was
	j.State, j.Nodes, j.StateFlag, j.Eligible = "PENDING", nil, "", m.now.Add(m.requeueDelay)
	j.Restarts++
	if m.requeueDelay == 0 && !j.held {
		m.start(j) // as with --requeue=expedite
	}
	return nil
}

func (m *model) ResumeJob(_ context.Context, job string) error {
	defer m.change()()
	j, err := m.find(job)
	if err == nil {
		j.State, j.Held = "RUNNING", false
	}
	return err
}

func (m *model) Begin(_ context.Context, job string, at time.Time) error {
	defer m.change()()
	j, err := m.find(job)
	if err == nil {
		j.Eligible = at
	}
	return err
}

func (m *model) Release(_ context.Context, job string) error {
	defer m.change()()
	j, err := m.find(job)
	if err == nil {
		j.held, j.Held, j.Reason = false, false, ""
	}
	return err
}

func (m *model) UserHold(_ context.Context, jobs ...string) error {
	defer m.change()()
	for _, name := range jobs {
		if j, err := m.find(name); err == nil {
			j.Reason = "JobHeldUser"
		}
	}
	return nil
}

func (m *model) Notify(context.Context, string, string) error { return nil }

func (m *model) SetAdminComment(_ context.Context, job, text string) error {
	defer m.change()()
	j, err := m.find(job)
	if err == nil {
		j.AdminComment = text
	}
	return err
}

func (m *model) PowerUp(_ context.Context, nodes []string) error {
	defer m.change()()
	for _, name := range nodes {
		if n := m.node(name); n.PoweredDown() && m.places(m.slotOf(name)) > 0 {
			m.powerUp(n)
		}
	}
	return nil
}

func (m *model) PowerDown(_ context.Context, nodes []string, _ string) error {
	defer m.change()()
	for _, name := range nodes {
		if n := m.node(name); n.job == nil {
			m.off(n)
		}
	}
	return nil
}

func (m *model) PowerDownForce(ctx context.Context, nodes []string, reason string) error {
	return m.PowerDown(ctx, nodes, reason)
}

var _ Slurm = (*model)(nil)
