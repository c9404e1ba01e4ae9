package model

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// Slurm is slurmctld, with its clock.
type Slurm struct {
	*Model
	Now         time.Time
	CutsToFloor bool // Old cuts jobs with --time-min to their floor, as Slurm before 25.05.3
	// Boot is a node's boot time. RequeueDelay must pass after a requeue before a job starts again; 0 is at once, as
	// with --requeue=expedite.
	Boot, RequeueDelay, KillWait time.Duration
	StateSave                    string         // slurmctld's folder
	Limits                       capacity.Walls // those of accounting
	// Nodes are in the order in which Slurm takes them. Jobs are in that of their submission, which is their priority.
	All    []*Node
	Jobs   []*Job
	Fences map[string]Reservation // Slurm's reservations by name, whoever made them
	// Resume is ResumeProgram; without it nodes boot, and no instance is launched. Suspend is SuspendProgram and
	// ResumeFailProgram; without it the instance ends. Slurm calls them when time goes on.
	Resume, Suspend func(nodes []string)
	ResumeTimeout   time.Duration            // after which Slurm gives up a node without an address; 0 is never
	Ran             func(j *Job, how string) // told of each run of a job that ends
	// Test is what a test finds on nodes, and how long that takes; "" is that they are good.
	Test func(nodes []string) (took time.Duration, finds string)

	// Lenders has the partitions whose jobs preempt those of spare partitions over the same nodes, by the spare ones.
	Lenders map[string]string

	partitions []string
	resumes    [][]string // the nodes of the calls of Resume that come next
	suspends   []string   // those of the call of Suspend
	ids        int
}

// Reservation is one of Slurm's.
type Reservation = capacity.SlurmReservation

// The states of nodes.
const (
	Idle    = "IDLE+CLOUD"
	Busy    = "ALLOCATED+CLOUD"
	Off     = "IDLE+CLOUD+POWERED_DOWN"
	Boots   = "ALLOCATED+CLOUD+POWERING_UP"
	GivenUp = "DOWN+CLOUD+POWERED_DOWN"
)

// Node is a node of the model. Its address and instance are those of its instance.
type Node struct {
	capacity.Node
	Partition, Slot     string
	Job                 *Job
	ResumedAt, BootedAt time.Time // when ResumeProgram was called, and when it is up; zero if that is not known yet
	VisibleAt           time.Time // when Slurm begins to show it
	down                bool      // it is powered down when its job ends
}

// Job is a job of the model, with the work that it has to do.
type Job struct {
	capacity.Job
	// Slot names the slot in which it may run; "" is anywhere. Stays: Slurm does not start it.
	Slot    string
	Never   bool
	Work    time.Duration // what is left to do
	Outcome string        // how it ended; "" if it has not
	finds   string        // what a test finds
	asks    string        // the partitions that it was submitted to
}

// Add adds nodes SLOT-1, SLOT-2, … to a partition.
func (s *Slurm) Add(partition, slot string, n int) {
	if partition != "" && !slices.Contains(s.partitions, partition) {
		s.partitions = append(s.partitions, partition)
	}

	for i := range n {
		s.All = append(
			s.All,
			&Node{
				Node: capacity.Node{
					Name:     fmt.Sprintf("%s-%d", slot, i+1),
					State:    Off,
					Features: []string{slot},
					GPUs:     8,
				},
				Partition: partition,
				Slot:      slot,
			},
		)
	}
}

// Node returns the node of a name.
func (s *Slurm) Node(name string) *Node {
	return s.All[slices.IndexFunc(s.All, func(n *Node) bool { return n.Name == name })]
}

// Submit submits a job.
func (s *Slurm) Submit(j Job) *Job {
	s.ids++
	j.ID = s.ids
	j.Shown = fmt.Sprint(j.ID)
	j.State = "PENDING"
	j.Eligible = s.Now
	j.asks = j.Partition
	s.Jobs = append(s.Jobs, &j)

	return &j
}

// setEnd sets the end of a job that has its nodes, by its limit.
func (j *Job) setEnd() {
	j.End = j.Start.Add(capacity.SlurmInfinite)
	if j.TimeLimit.Bounded() {
		j.End = j.Start.Add(j.TimeLimit.Duration())
	}
}

// End ends a job, as scancel does, or as its own end.
func (s *Slurm) End(j *Job, how string) {
	s.free(j, how)
	j.State = how
	j.Outcome = how
	j.End = s.Now
}

// next returns the time at which something is due again, at the latest to.
func (s *Slurm) next(to time.Time) time.Time {
	next := to

	consider := func(t time.Time) {
		if t.After(s.Now) && t.Before(next) {
			next = t
		}
	}
	for _, r := range s.Fences {
		consider(r.Start)
		consider(r.End)
	}

	for _, r := range s.EC2.All {
		consider(r.Start.Add(s.EC2.OpensLate + s.Skew))
		consider(r.End.Add(s.Skew - 30*time.Minute))
	}

	for _, n := range s.All {
		consider(n.BootedAt)
		consider(n.ResumedAt.Add(s.ResumeTimeout))
	}

	for _, j := range s.Jobs {
		if j.Outcome == "" {
			consider(j.Eligible)
		}

		if j.State == "RUNNING" {
			consider(j.End)
			consider(j.Start.Add(j.Work))
		}
	}

	return next
}

// advance makes everything happen that is due.
func (s *Slurm) advance() {
	maps.DeleteFunc(s.Fences, func(_ string, r Reservation) bool { return !r.End.After(s.Now) })

	// Backward, because End removes them.
	for n, i := range slices.Backward(s.EC2.Instances) {
		switch r, _ := s.EC2.Real(i.ReservationID); {
		case r.ID == "" || s.EC2.Open(r.ID):
		case r.Kind.IsBlock():
			s.EC2.End(i.ID) // EC2 takes it back
		default:
			s.EC2.leave(s.EC2.Instances[n].ReservationID) // it goes on, on demand
		}
	}

	for _, n := range s.All {
		switch i := n.InstanceID; {
		case i != "" && !slices.ContainsFunc(s.EC2.Instances, func(one capacity.Instance) bool { return one.ID == i }):
			s.off(n, "NODE_FAIL") // somebody has ended it
		case n.PoweringUp() && n.BootedAt.IsZero() && s.ResumeTimeout > 0 &&
			!s.Now.Before(n.ResumedAt.Add(s.ResumeTimeout)):
			s.off(n, "RESUME_TIMEOUT")
			n.State = GivenUp
			n.Reason = "ResumeTimeout reached"
			s.suspends = append(s.suspends, n.Name)
		case n.PoweringUp() && !n.BootedAt.IsZero() && !n.BootedAt.After(s.Now):
			n.State = Idle
			n.SlurmdStart = n.BootedAt
			if n.Job != nil {
				n.State = Busy
			}
		}
	}

	for _, j := range s.Jobs {
		if j.State != "RUNNING" {
			continue
		}

		if ready := !slices.ContainsFunc(j.Nodes, func(n string) bool { return !s.Node(n).IsUp() }); j.Configuring() &&
			ready {
			// The limit counts from when all nodes are up, and no reservation is looked at again.
			j.StateFlag = ""
			j.Start = s.Now
			j.setEnd()
		}

		switch {
		case j.Configuring():
		case !j.Start.Add(j.Work).After(s.Now) && j.finds != "":
			j.AdminComment = j.finds
			s.End(j, "FAILED")
		case !j.Start.Add(j.Work).After(s.Now):
			s.End(j, "COMPLETED")
		case j.TimeLimit.Bounded() && !j.End.After(s.Now):
			s.End(j, "TIMEOUT")
		}
	}

	for _, j := range s.Jobs {
		for _, partition := range strings.Split(j.Partition, ",") {
			if j.State == "PENDING" && !j.Never && !j.Eligible.After(s.Now) {
				s.startIn(partition, j)
			}
		}
	}
}

func (s *Slurm) free(j *Job, how string) {
	if s.Ran != nil && len(j.Nodes) > 0 {
		s.Ran(j, how)
	}

	for _, name := range j.Nodes {
		n := s.Node(name)
		if n.Job == j {
			n.Job = nil
			n.State = strings.Replace(n.State, Busy, Idle, 1)
		}

		if n.down {
			s.suspend(n)
		}
	}
}

// startIn starts a job in a partition if there are nodes for it, all of one slot, those that are up first and those of
// spare jobs last.
func (s *Slurm) startIn(partition string, j *Job) {
	nodes := map[string][]*Node{}
	room := map[string]int{}
	lender := s.Lenders[partition]

	var free, off, lent []*Node
	for _, n := range s.All {
		switch {
		case n.Partition != cmp.Or(lender, partition) || j.Slot != "" && j.Slot != n.Slot || n.down || n.IsGivenUp():
		case n.Job != nil && lender == "" && s.Lenders[n.Job.Partition] != "" && n.IsUp():
			lent = append(lent, n)
		case n.Job != nil:
		case n.PoweredDown():
			off = append(off, n)
		case n.IsUp():
			free = append(free, n)
		}
	}

	for _, n := range slices.Concat(free, off, lent) {
		limit, fits := s.limit(j, n.Name)
		if !fits {
			continue
		}

		nodes[n.Slot] = append(nodes[n.Slot], n)
		if room[n.Slot] == 0 || limit < room[n.Slot] {
			room[n.Slot] = limit
		}

		if len(nodes[n.Slot]) < j.NumNodes {
			continue
		}

		for _, n := range nodes[n.Slot] {
			s.preempt(n.Job)
		}

		j.State = "RUNNING"

		j.Partition = partition
		j.Nodes = nil
		j.Start = s.Now
		if j.TimeLimit.Bounded() {
			j.TimeLimit = capacity.Minutes(room[n.Slot])
		}

		j.setEnd()

		var boot []*Node
		for _, n := range nodes[n.Slot] {
			n.Job, j.Nodes = j, append(j.Nodes, n.Name)
			n.State = strings.Replace(n.State, Idle, Busy, 1)
			if n.PoweredDown() {
				boot = append(boot, n)
				j.StateFlag = "CONFIGURING"
			}
		}

		s.powerUp(boot)

		return
	}
}

// limit returns the limit in minutes with which a job may start on a node now.
func (s *Slurm) limit(j *Job, node string) (minutes int, fits bool) {
	want := capacity.MaxMinutes
	least := capacity.MaxMinutes
	if j.TimeLimit.Bounded() {
		want = j.TimeLimit.Minutes
		least = j.TimeLimit.Minutes
	}

	if j.TimeMin.Bounded() {
		least = j.TimeMin.Minutes
	}

	room := capacity.MaxMinutes

	if s.CutsToFloor && j.TimeMin.Bounded() {
		want = least
	}

	for _, r := range s.Fences {
		if slices.Contains(r.Nodes, node) {
			room = min(room, int(r.Start.Sub(s.Now)/time.Minute))
		}
	}

	want = min(want, room)

	return want, want >= least && want > 0
}

// runPrograms has Slurm call its programs, one after the other. A node that goes up is down by then.
func (s *Slurm) runPrograms() {
	for len(s.resumes) > 0 || len(s.suspends) > 0 {
		if nodes := s.suspends; len(nodes) > 0 {
			s.suspends = nil
			s.Suspend(nodes)
			continue
		}

		nodes := s.resumes[0]
		s.resumes = s.resumes[1:]
		s.Resume(nodes)
	}
}

func (s *Slurm) powerUp(nodes []*Node) {
	var names []string
	for _, n := range nodes {
		n.State = Boots
		n.ResumedAt = s.Now

		n.BootedAt = time.Time{}
		n.Reason = ""
		names = append(names, n.Name)
		if s.Resume == nil {
			n.BootedAt = s.Now.Add(s.Boot)
		}
	}

	if s.Resume != nil && len(names) > 0 {
		s.resumes = append(s.resumes, names)
	}
}

func (s *Slurm) suspend(n *Node) {
	if s.Suspend == nil {
		s.EC2.End(n.InstanceID)
	} else {
		s.suspends = append(s.suspends, n.Name)
	}

	s.off(n, "POWER_DOWN")
}

// preempt takes its nodes from a job, if there is one.
func (s *Slurm) preempt(j *Job) {
	switch {
	case j == nil:
	case j.Requeue && j.Batch:
		s.Requeue(j, "PREEMPTED")
	default:
		s.End(j, "PREEMPTED")
	}
}

// PowerDownIdle powers down the idle nodes of a partition, as Slurm does after SuspendTime.
func (s *Slurm) PowerDownIdle(partition string) {
	for _, n := range s.All {
		if n.Partition == partition && n.Job == nil && n.State == Idle {
			s.suspend(n)
		}
	}
}

// off takes the instance from a node. A job on it ends.
func (s *Slurm) off(n *Node, how string) {
	n.State = Off

	n.InstanceID = ""
	n.Address = ""
	n.down = false
	if j := n.Job; j != nil {
		n.Job = nil

		if j.Requeue && j.Batch {
			s.Requeue(j, how)
		} else {
			s.End(j, how)
		}
	}
}

// at gives a node an address, from which it boots.
func (s *Slurm) at(n *Node, address string) {
	n.Address = address
	if n.PoweringUp() && n.BootedAt.IsZero() {
		n.BootedAt = s.Now.Add(s.Boot)
	}

	for _, i := range s.EC2.Instances {
		if i.PrivateIP == address {
			n.InstanceID = i.ID
		}
	}
}

// LaunchInto returns a ResumeProgram that never fails: it launches nodes into a reservation, or takes them
// down where there is no room for all.
func (s *Slurm) LaunchInto(reservation string, nodes []string) {
	launched, err := s.EC2.launch(
		capacity.Launch{
			ClientToken:   fmt.Sprint(nodes, s.Now),
			ReservationID: reservation,
			Count:         len(nodes),
			Tags: map[string]string{
				capacity.TagCluster:     Mark,
				capacity.TagNodes:       hostlist.Compress(nodes),
				capacity.TagReservation: reservation,
			},
		},
	)
	for i, name := range nodes {
		n := s.Node(name)
		if err == nil {
			s.at(n, launched[i].PrivateIP)
			continue
		}

		j := n.Job
		if s.off(n, "POWER_DOWN"); j != nil {
			j.Eligible = s.Now.Add(15 * time.Minute)
		}
	}
}

// Requeue puts a job back into the queue; it goes on from where it was.
func (s *Slurm) Requeue(j *Job, how string) {
	s.free(j, how)
	j.Work -= max(0, s.Now.Sub(j.Start))
	j.State = "PENDING"
	j.Nodes = nil
	j.StateFlag = ""
	j.Partition = cmp.Or(j.asks, j.Partition)
	j.Eligible = s.Now.Add(s.RequeueDelay)
	j.Restarts++
}

func (s *Slurm) find(shown string) (*Job, error) {
	for _, j := range s.Jobs {
		if j.Shown == shown && j.Outcome == "" {
			return j, nil
		}
	}

	return nil, errors.New("no such job")
}

func (s *Slurm) read(verb string, do func()) error {
	return s.Do(Call{Verb: verb}, func() error { do(); return nil })
}

func (s *Slurm) change(verb, text string, do func() error) error {
	return s.Do(Call{Verb: verb, Text: text, Change: true}, do)
}

// onJobs changes jobs that have not ended, with pending such as wait.
func (s *Slurm) onJobs(verb, text string, pending bool, do func(j *Job), jobs ...string) error {
	return s.change(verb, text, func() (err error) {
		for _, job := range jobs {
			j, one := s.find(job)
			if one == nil && pending && j.State != "PENDING" {
				one = errors.New("job is no longer pending execution")
			}

			if err = errors.Join(err, one); one == nil {
				do(j)
			}
		}

		return err
	})
}

func (s *Slurm) onNodes(verb, text string, nodes []string, do func(n *Node)) error {
	return s.change(verb, hostlist.Compress(nodes)+text, func() error {
		for _, name := range nodes {
			do(s.Node(name))
		}
		return nil
	})
}

func (s *Slurm) Config(context.Context) (c slurm.Config, err error) {
	err = s.read("config", func() {
		c = slurm.Config{
			Version:           slurm.Version{Major: 25, Minor: 11},
			ClusterName:       "lab",
			StateSaveLocation: s.StateSave,
			KillWait:          s.KillWait,
			ResumeTimeout:     s.ResumeTimeout,
		}
		if s.CutsToFloor {
			c.Version.Major = 24
		}

		if s.Limits.QOS != nil {
			c.AccountingEnforce = []string{"limits"}
		}
	})

	return c, err
}

// Nodes lists the named nodes, or all.
func (s *Slurm) Nodes(_ context.Context, names ...string) (nodes []capacity.Node, err error) {
	err = s.read("nodes", func() {
		for _, n := range s.All {
			if (len(names) == 0 || slices.Contains(names, n.Name)) && !n.VisibleAt.After(s.Now) {
				nodes = append(nodes, n.Node)
			}
		}
	})

	return nodes, err
}

// SetAddresses tells where nodes are.
func (s *Slurm) SetAddresses(_ context.Context, addresses map[string]netip.Addr) error {
	return s.onNodes(
		"set addresses",
		"",
		slices.Sorted(maps.Keys(addresses)),
		func(n *Node) { s.at(n, addresses[n.Name].String()) },
	)
}

// Partitions lists those that have nodes.
func (s *Slurm) Partitions(context.Context) (all []capacity.SlurmPartition, err error) {
	err = s.read("partitions", func() {
		for _, name := range s.partitions {
			one := capacity.SlurmPartition{Name: name}
			for _, n := range s.All {
				if n.Partition == name && !n.VisibleAt.After(s.Now) {
					one.Nodes = append(one.Nodes, n.Name)
				}
			}

			all = append(all, one)
		}

		for spare, lender := range s.Lenders {
			of := slices.IndexFunc(all, func(p capacity.SlurmPartition) bool { return p.Name == lender })
			all = append(all, capacity.SlurmPartition{Name: spare, Nodes: all[of].Nodes})
		}
	})

	return all, err
}

// specNodes is a flag that Slurm shows of each reservation of named nodes, and takes from nobody.
const specNodes = "SPEC_NODES"

// Reservations returns Slurm's reservations.
func (s *Slurm) Reservations(context.Context) (all []Reservation, err error) {
	err = s.read("reservations", func() {
		for _, name := range slices.Sorted(maps.Keys(s.Fences)) {
			r := s.Fences[name]
			r.Active, r.Flags = !r.Start.After(s.Now), append(slices.Clone(r.Flags), specNodes)
			all = append(all, r)
		}
	})

	return all, err
}

func (s *Slurm) Walls(context.Context, string) (walls capacity.Walls, err error) {
	err = s.read("walls", func() { walls = s.Limits })
	return walls, err
}

// minJobAge after its end, Slurm forgets a job.
const minJobAge = 5 * time.Minute

// JobsOf returns the jobs of the partitions, or all, and those that ended a moment ago.
func (s *Slurm) JobsOf(
	_ context.Context,
	partitions []string,
	wanted func(capacity.Job) bool,
) (live, ended []capacity.Job, err error) {
	err = s.read("jobs", func() {
		for _, j := range s.Jobs {
			asked := len(partitions) == 0 ||
				slices.ContainsFunc(
					strings.Split(j.Partition, ","),
					func(name string) bool { return slices.Contains(partitions, name) },
				)
			switch {
			case !asked || wanted != nil && !wanted(j.Job):
			case j.Outcome == "":
				live = append(live, j.Job)
			case s.Now.Sub(j.End) < minJobAge:
				ended = append(ended, j.Job)
			}
		}

		live = merged(live)
	})

	return live, ended, err
}

// BriefJobs lists the jobs that have not ended.
func (s *Slurm) BriefJobs(ctx context.Context) ([]capacity.Job, error) {
	live, _, err := s.JobsOf(ctx, nil, nil)
	return live, err
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

// Tasks returns tasks of arrays.
func (s *Slurm) Tasks(ctx context.Context, names []string) (tasks []capacity.Job, err error) {
	for _, name := range names {
		j, one := s.Job(ctx, name)
		tasks = append(tasks, j)
		err = cmp.Or(err, one)
	}

	return tasks, err
}

// Job returns a job, without a name if there is none.
func (s *Slurm) Job(_ context.Context, shown string) (found capacity.Job, err error) {
	err = s.read("job", func() {
		for _, j := range s.Jobs {
			if j.Shown == shown {
				found = j.Job
			}
		}
	})

	return found, err
}

func span(r Reservation) string {
	text := fmt.Sprintf("%s %s from %s to %s", r.Name, hostlist.Compress(r.Nodes), Clock(r.Start), Clock(r.End))
	if len(r.Flags) > 0 {
		text += " flags=" + strings.Join(r.Flags, ",")
	}

	if len(r.Users) > 0 {
		text += " users=" + strings.Join(r.Users, ",")
	}

	return text
}

// Clock formats a time as calls have it: the day of the year 2027, and the time.
func Clock(t time.Time) string {
	if t.IsZero() {
		return "never"
	}

	t = t.UTC()
	if t.Year() != 2027 {
		return t.Format("2006-01-02 15:04:05")
	}

	return fmt.Sprintf("%02d %s", t.YearDay(), t.Format("15:04:05"))
}

// Put has a reservation, whoever makes it.
func (s *Slurm) Put(r Reservation) {
	if r.End.IsZero() {
		r.End = r.Start.Add(365 * 24 * time.Hour)
	}

	s.Fences[r.Name] = r
}

// CreateReservation refuses a name in use, a start in the past, and a flag of its own.
func (s *Slurm) CreateReservation(_ context.Context, r Reservation) error {
	return s.change("create reservation", span(r), func() error {
		if _, there := s.Fences[r.Name]; there || r.Start.Before(s.Now.Add(-time.Second)) ||
			slices.Contains(r.Flags, specNodes) {
			return fmt.Errorf("cannot create %s", r.Name)
		}

		s.Put(r)

		return nil
	})
}

// UpdateReservation does not move the start of one that has begun.
func (s *Slurm) UpdateReservation(_ context.Context, r Reservation) error {
	return s.change("update reservation", span(r), func() error {
		old, there := s.Fences[r.Name]
		active := there && !old.Start.After(s.Now)
		if !there || active && !r.Active || r.Start.Before(s.Now.Add(-time.Second)) && !active {
			return errors.New("reservation already started, or there is none")
		}

		if active {
			r.Start = old.Start
		}

		s.Put(r)

		return nil
	})
}

// DeleteReservation deletes a reservation, if it is there.
func (s *Slurm) DeleteReservation(_ context.Context, name string) error {
	return s.change("delete reservation", name, func() error {
		delete(s.Fences, name)
		return nil
	})
}

// SetTimeLimit sets the limit of a job.
func (s *Slurm) SetTimeLimit(_ context.Context, job string, minutes int) error {
	return s.onJobs(
		"set time limit",
		fmt.Sprintf("of job %s to %s", job, capacity.FormatMinutes(minutes)),
		false,
		func(j *Job) {
			j.TimeLimit = capacity.Minutes(minutes)
			if j.State == "RUNNING" {
				j.setEnd()
			}
		},
		job,
	)
}

// Edit changes waiting jobs.
func (s *Slurm) Edit(_ context.Context, edits map[string]capacity.Edits) map[string]error {
	failed := map[string]error{}
	for _, job := range slices.Sorted(maps.Keys(edits)) {
		e := edits[job]

		err := s.onJobs(
			"edit",
			fmt.Sprintf("job %s: %s, --time-min=%s", job, e.TimeLimit, e.TimeMin),
			false,
			func(j *Job) {
				before := j.TimeMin
				j.Job = e.Apply(j.Job)
				if j.State == "RUNNING" {
					j.TimeMin = before
					j.setEnd()
				}
			},
			job,
		)
		if err != nil {
			failed[job] = err
		}
	}

	return failed
}

// recall takes a job whose limit has ended it for one that still runs, as a requeue does while Slurm knows the job.
func (s *Slurm) recall(shown string) {
	for _, j := range s.Jobs {
		if j.Shown == shown && j.Outcome == "TIMEOUT" && s.Now.Sub(j.End) < minJobAge {
			j.Outcome = ""
			j.State = "RUNNING"
			j.Work += s.Now.Sub(j.End) // in which it did not run
		}
	}
}

// RequeueJob takes a job off its nodes.
func (s *Slurm) RequeueJob(_ context.Context, before capacity.Job, hold bool) (after capacity.Job, err error) {
	verb := "requeue"
	if hold {
		verb = "requeue and hold"
	}

	err = s.change(verb, "job "+before.Shown, func() error {
		s.recall(before.Shown)

		j, err := s.find(before.Shown)
		if err == nil && j.State == "PENDING" {
			after = j.Job // it waits already
			return nil
		}

		if err != nil || !j.Requeue || !j.Batch || j.State != "RUNNING" && j.State != "SUSPENDED" {
			return errors.New("not running")
		}

		s.Requeue(j, "REQUEUED")

		if hold {
			j.Never = true
			j.Held = true
			j.Reason = "JobHeldAdmin"
			j.Start = time.Time{}
		}

		if s.RequeueDelay == 0 && !j.Never {
			s.startIn(j.Partition, j)
		}

		after = j.Job

		return nil
	})

	return after, err
}

// ResumeJob lets a suspended job go on.
func (s *Slurm) ResumeJob(_ context.Context, job string) error {
	return s.onJobs("resume", "job "+job, false, func(j *Job) {
		j.State = "RUNNING"
		j.Held = false
	}, job)
}

// SetBeginTime lets a job start no earlier.
func (s *Slurm) SetBeginTime(_ context.Context, job string, at time.Time) error {
	return s.onJobs(
		"begin",
		fmt.Sprintf("of job %s not before %s", job, Clock(at)),
		true,
		func(j *Job) { j.Eligible = at },
		job,
	)
}

// UserHold gives a hold to the owners of jobs.
func (s *Slurm) UserHold(_ context.Context, jobs ...string) error {
	return s.onJobs(
		"user hold",
		"of job "+strings.Join(jobs, ","),
		true,
		func(j *Job) {
			j.Never = true
			j.Held = true
			j.Reason = "JobHeldUser"
		},
		jobs...)
}

// SubmitBatch submits a job of root's, which starts at once in a reservation of his, or never.
func (s *Slurm) SubmitBatch(_ context.Context, b capacity.Batch) (job string, err error) {
	text := fmt.Sprintf("over %s in %s, %d minutes", hostlist.Compress(b.Nodes), b.Reservation, b.Minutes)
	err = s.change("submit", text, func() error {
		r, there := s.Fences[b.Reservation]
		if !there || r.Start.After(s.Now) || r.End.Before(s.Now.Add(time.Duration(b.Minutes)*time.Minute)) {
			return errors.New("requested reservation is invalid")
		}

		j := s.Submit(Job{
			Job: capacity.Job{
				Partition:   b.Partition,
				User:        "root",
				Batch:       true,
				NumNodes:    len(b.Nodes),
				TimeLimit:   capacity.Minutes(b.Minutes),
				Reservation: b.Reservation,
			},
			Never: true,
		})
		job = j.Shown

		isFree := func(name string) bool {
			n := s.Node(name)
			return n.IsUp() && n.Job == nil && slices.Contains(r.Nodes, name)
		}
		if slices.ContainsFunc(b.Nodes, func(name string) bool { return !isFree(name) }) {
			return nil // it waits
		}

		j.State = "RUNNING"
		j.Nodes = b.Nodes
		j.Start = s.Now
		j.setEnd()
		j.Work, j.finds = s.Test(b.Nodes)

		for _, name := range b.Nodes {
			n := s.Node(name)
			n.Job = j
			n.State = Busy
		}

		return nil
	})

	return job, err
}

// Cancel ends jobs.
func (s *Slurm) Cancel(_ context.Context, jobs ...string) error {
	return s.onJobs("cancel", "of job "+strings.Join(jobs, ","), false, func(j *Job) { s.End(j, "CANCELLED") }, jobs...)
}

// Release ends a hold.
func (s *Slurm) Release(_ context.Context, job string) error {
	return s.onJobs("release", "job "+job, false, func(j *Job) {
		j.Never = false
		j.Held = false
		j.Reason = ""
	}, job)
}

// SetAdminComment writes a note on jobs.
func (s *Slurm) SetAdminComment(_ context.Context, text string, jobs ...string) error {
	return s.onJobs(
		"admin comment",
		"of job "+strings.Join(jobs, ",")+": "+text,
		false,
		func(j *Job) { j.AdminComment = text },
		jobs...)
}

// Notify tells a job.
func (s *Slurm) Notify(_ context.Context, job, text string) error {
	return s.change("notify", fmt.Sprintf("job %s: %s", job, text), func() error { return nil })
}

// Drain keeps new jobs off nodes.
func (s *Slurm) Drain(_ context.Context, nodes []string, reason string) error {
	return s.onNodes("drain", ": "+reason, nodes, func(n *Node) {
		n.State = n.State + "+DRAIN"
		n.Reason = reason
	})
}

// PowerUp launches nodes that are off.
func (s *Slurm) PowerUp(_ context.Context, nodes []string) error {
	return s.onNodes("power up", "", nodes, func(n *Node) {
		if n.PoweredDown() {
			s.powerUp([]*Node{n})
		}
	})
}

// PowerDown powers nodes down when their jobs have ended.
func (s *Slurm) PowerDown(_ context.Context, nodes []string, reason string) error {
	return s.onNodes("power down", ": "+reason, nodes, func(n *Node) {
		n.Reason = reason
		if n.Job != nil {
			n.down = true
			n.State = n.State + "+POWER_DOWN"
		} else {
			s.suspend(n)
		}
	})
}

// PowerDownForce powers nodes down at once.
func (s *Slurm) PowerDownForce(_ context.Context, nodes []string, reason string) error {
	return s.onNodes("power down by force", ": "+reason, nodes, func(n *Node) {
		n.Reason = reason
		s.suspend(n)
	})
}
