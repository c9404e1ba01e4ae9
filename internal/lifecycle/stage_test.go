package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/model"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// stage is a small world that a test writes down itself: AWS and Slurm in memory, each with its
// own clock. It keeps a tape of what passes change and say.
type stage struct {
	*testing.T
	*model.Model
	tape    strings.Builder
	slurm   *model.Slurm
	aws     *model.EC2
	sources Sources
	said    map[string]bool  // by the pass before
	test    string           // the path of an open_test
	lines   int              // changes so far, of the pass
	dieAt   int              // the pass is killed before this change; 0 for none
	fails   map[string]error // by the verb of a call, which has no effect then
	lost    map[string]error // the same, which has its effect
	down    error            // of all calls of AWS
	rolls   error            // why a compute node group of PCS cannot be set up
}

// killed is the panic of a pass that is killed.
type killed struct{}

// opens is when the block of most scenarios opens, on a Friday.
var opens = time.Date(2027, 1, 1, 11, 30, 0, 0, time.UTC)

// newStage has partition solo with four nodes and partition gpu with two slots of two.
func newStage(t *testing.T) *stage {
	w := model.New(opens.Add(-time.Hour))
	st := &stage{
		T:     t,
		Model: w,
		slurm: w.Slurm,
		aws:   w.EC2,
		said:  map[string]bool{},
		fails: map[string]error{},
		lost:  map[string]error{},
	}
	st.slurm.Add("gpu", "gpu-a", 2)
	st.slurm.Add("gpu", "gpu-b", 2)
	st.slurm.Add("solo", "solo", 4)
	st.slurm.Boot, st.slurm.Resume = 0, st.resume
	st.Before, st.After = st.call, func(c model.Call) error { return st.lost[c.Verb] }
	d := func(d time.Duration) capacity.Duration { return capacity.Duration{Duration: d} }
	part := func(name string, slots int, onEnd capacity.OnEnd) capacity.PartitionSettings {
		return capacity.PartitionSettings{
			Name:     name,
			Provider: capacity.ProviderEC2,
			MinTime:  d(30 * time.Minute),
			OnEnd:    onEnd,
			Groups: []capacity.GroupSettings{
				{
					Name:           name,
					InstanceType:   "p5.48xlarge",
					SubnetIDs:      []string{"subnet-a"},
					PurchaseOption: capacity.CapacityBlock,
					Select: &capacity.Select{
						Tags: map[string]string{"team": name},
					},
					MaxNodes:       4,
					LaunchTemplate: "nodes",
					Slots:          slots,
				},
			},
		}
	}

	st.sources = Sources{
		Settings: capacity.Settings{Submit: capacity.Submit{
			Strict:     true,
			StaleAfter: d(10 * time.Minute),
		}, Timing: capacity.Timing{
			DrainMargin: d(10 * time.Minute), BootAllowance: d(10 * time.Minute),
			ReclaimLead: d(30 * time.Minute),
		}, Partitions: []capacity.PartitionSettings{part("solo", 1, capacity.RequeueAtEnd)}},
		Owner: me, OwnerIs: "settings /etc/pcs-capacity", Poll: time.Minute, World: World{
			Slurm: st.slurm, EC2: st.aws,
			State: state.Dir(model.Dir(t)), MachineTime: func() time.Time { return st.slurm.Now },
		},
	}
	if err := st.MarkIn(model.Dir(t)); err != nil {
		t.Fatal(err)
	}

	return st
}

// solo are the settings of the partition of most scenarios.
func (st *stage) solo() *capacity.PartitionSettings { return &st.sources.Settings.Partitions[0] }

func (st *stage) write(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if st.test != "" {
		line = strings.ReplaceAll(line, st.test, "/etc/test.sh")
	}

	st.tape.WriteString(line + "\n")
}

// note is a line of the tape that tells what happens.
func (st *stage) note(format string, args ...any) { st.write("# "+format, args...) }

// call notes a change that a pass asks for, and fails what is to fail.
func (st *stage) call(c model.Call) (err error) {
	if err = st.fails[c.Verb]; c.EC2 && err == nil {
		err = st.down
	}

	if !c.Change {
		return err
	}

	st.lines++
	if st.lines == st.dieAt {
		st.write("  (killed)")
		panic(killed{})
	}

	line := "  " + c.Verb
	if c.Text != "" {
		line += " " + c.Text
	}

	if lost := st.lost[c.Verb]; err != nil || lost != nil {
		line += " -> " + errors.Join(err, lost).Error()
	}

	st.write("%s", line)

	return err
}

// pass makes a pass at a time of AWS's clock, since opens, and writes down what it does.
func (st *stage) pass(at time.Duration) Report {
	st.AdvanceTo(opens.Add(at))
	st.write("pass at %s", model.Clock(st.Now()))

	var (
		report Report
		err    error
	)

	planned := st.dryRun()
	killed := st.dieAt > 0
	if st.alive(func() { _, report, err = Pass(st.Context(), st.sources) }) {
		st.tell(report, err)
	}

	if !killed {
		st.isAsPlanned(planned, report)
	}

	st.AdvanceTo(st.Now()) // Slurm calls its programs

	return report
}

// passes makes passes a minute apart.
func (st *stage) passes(at time.Duration, n int) {
	for i := range n {
		st.pass(at + time.Duration(i)*time.Minute)
	}
}

// alive runs a pass, which may be killed.
func (st *stage) alive(pass func()) (alive bool) {
	defer func() {
		st.dieAt = 0

		if r := recover(); r != nil {
			if _, ok := r.(killed); !ok {
				panic(r)
			}

			alive = false
		}
	}()

	st.lines = 0

	pass()

	return true
}

// tell writes down what a report says that the one before did not.
func (st *stage) tell(report Report, err error) {
	for _, d := range report.Done {
		line := "  = " + d.Do
		if d.Slot != "" {
			line += " on " + d.Slot
		}

		if d.Job != "" {
			line += " job " + d.Job
		}

		st.write("%s: %s", line, d)
	}

	said := map[string]bool{}
	for _, p := range report.All() {
		line := fmt.Sprintf("  ! %s: %s", p.Severity, p.Text())
		if said[line] = true; !st.said[line] {
			st.write("%s", line)
		}
	}

	st.said = said
	if err != nil {
		st.write("  failed: %s", strings.ReplaceAll(err.Error(), "\n", "\n          "))
	}
}

// block is one of EC2's: from opens+from for a length of time, bought for a partition.
func (st *stage) block(id, team string, from, length time.Duration, size int) {
	st.aws.Reserve(
		capacity.Reservation{
			ID:           id,
			Kind:         capacity.CapacityBlock,
			InstanceType: "p5.48xlarge",
			AZID:         "use2-az1",
			AZ:           "us-east-2a",
			Total:        size,
			Available:    size,
			Platform:     "Linux/UNIX",
			Tenancy:      "default",
			Start:        opens.Add(from),
			End:          opens.Add(from + length),
			Tags:         map[string]string{"team": team},
		},
	)
}

// resume launches nodes into the open block of their slot.
func (st *stage) resume(nodes []string) {
	for _, r := range st.aws.All {
		if strings.HasPrefix(st.slurm.Node(nodes[0]).Slot, r.Tags["team"]) && st.aws.Open(r.ID) {
			st.slurm.LaunchInto(r.ID, nodes)
			return
		}
	}

	st.slurm.LaunchInto("", nodes)
}

// job has a job of user alice run on nodes, for as long as Slurm thinks it may, or wait if it has none. Before a
// comment, "fitted" and "fitted:600" stand for what a pass knows of it from before its start.
func (st *stage) job(limit int, comment string, nodes ...string) *model.Job {
	fitted, rest, _ := strings.Cut(comment, " ")
	isFitted := strings.HasPrefix(fitted, "fitted")
	if isFitted {
		comment = rest
	}

	j := st.slurm.Submit(
		model.Job{
			Job: capacity.Job{
				Partition: "solo",
				User:      "alice",
				Account:   "nlp",
				Batch:     true,
				Requeue:   true,
				NumNodes:  max(1, len(nodes)),
				TimeLimit: capacity.Minutes(limit),
				Comment:   comment,
			},
			Work: 1000 * time.Hour,
		},
	)
	if isFitted {
		records, err := st.sources.State.JobRecords().Read()
		if err != nil {
			st.Fatal(err)
		}

		all := map[string]state.JobRecord{}
		maps.Copy(all, records)

		upTo, _ := strconv.Atoi(strings.TrimPrefix(fitted, "fitted:"))

		all[j.Shown] = state.JobRecord{Wanted: state.Wanted{Fit: true, Minutes: upTo}}
		if err := st.sources.State.JobRecords().Save(all); err != nil {
			st.Fatal(err)
		}
	}

	if len(nodes) > 0 {
		j.State, j.Nodes, j.Start, j.End = "RUNNING", nodes, st.slurm.Now, st.slurm.Now.Add(j.TimeLimit.Duration())
		for _, name := range nodes {
			n := st.slurm.Node(name)
			n.Job, n.State = j, "ALLOCATED+CLOUD"
		}
	}

	j.Never = len(nodes) == 0 // Slurm does not start it

	return j
}

// boots makes the nodes of a job boot still.
func (st *stage) boots(j *model.Job) *model.Job {
	j.StateFlag = "CONFIGURING"
	for _, name := range j.Nodes {
		n := st.slurm.Node(name)
		n.State, n.BootedAt = model.Boots, time.Time{} // until the scenario says so
	}

	return j
}

// held is PCS's answer about compute node groups.
func (st *stage) held(ctx context.Context, names []string) (held, failed map[string]string, err error) {
	failed = map[string]string{}
	for _, g := range st.PCS.Groups {
		if g.Failures != nil {
			failed[g.Name] = g.Failures.String()
		}
	}

	held, err = st.PCS.Slots(ctx, "", names)

	return held, failed, err
}

// group is a compute node group that is set up for a block.
func (st *stage) group(name, block string) {
	st.PCS.Groups = append(
		st.PCS.Groups,
		pcs.NodeGroup{
			Name: name,
			Tags: map[string]string{capacity.TagCluster: st.PCS.Cluster.Name, capacity.TagReservation: block},
		},
	)
}

// SetUp and Remove are the roll over of PCS.
func (st *stage) SetUp(
	_ context.Context,
	partition string,
	group capacity.NodeGroup,
	block capacity.Reservation,
	anew bool,
) ([]string, error) {
	if st.write("  set up %s of partition %s for %s, anew %t", group.Name, partition, block.ID, anew); st.rolls != nil {
		return nil, st.rolls
	}
	return []string{"create compute node group " + group.Name + "-b"}, nil
}

func (st *stage) Remove(_ context.Context, partition, slot string) ([]string, error) {
	st.write("  remove %s of partition %s", slot, partition)
	return []string{"delete compute node group " + slot}, nil
}

// passOf is a pass that has seen something.
func passOf(s Sources, view View) *pass {
	p := newPass(s)
	view.Settings, view.Owner, view.Poll = p.view.Settings, p.view.Owner, p.view.Poll
	p.view = view
	return p
}
