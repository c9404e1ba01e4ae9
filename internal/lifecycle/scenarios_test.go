package lifecycle

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/model"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

var update = flag.Bool("update", false, "write the golden files of this package")

// errUnread is an answer that does not come back.
var errUnread = errors.New("reading it back: squeue: Socket timed out")

const scenariosFile = "testdata/scenarios.txt"

// TestScenarios compares what passes change, say and refuse in some scenarios, call by call, with
// the session in testdata. After a change on purpose: go test -run TestScenarios -update.
func TestScenarios(t *testing.T) {
	var got strings.Builder
	for _, s := range slices.Concat(scenarios, holdScenarios) {
		t.Run(s.name, func(t *testing.T) {
			st := newStage(t)

			got.WriteString("== " + s.name + "\n")
			s.play(st)
			got.WriteString(st.tape.String() + "\n")
		})
	}

	if *update {
		if err := os.WriteFile(scenariosFile, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	want, err := os.ReadFile(scenariosFile)
	if err != nil {
		t.Fatal(err)
	}

	if strings.Contains(flag.Lookup("test.run").Value.String(), "/") {
		t.Skip("only some of the scenarios were played")
	}

	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); diff != "" {
		t.Errorf("(-%s +this)\n%s", scenariosFile, diff)
	}
}

// One block of most scenarios is of 24 hours: its fence is at 23h20m, and jobs are requeued 90 s before, at 23h18m30s.
const (
	day       = 24 * time.Hour
	fenceAt   = day - 40*time.Minute
	requeueAt = fenceAt - 90*time.Second
)

// opening has a block of four nodes open in partition solo.
func (st *stage) opening() {
	st.block("cr-1", "solo", 0, day, 4)
	st.pass(-time.Minute)
	st.pass(time.Hour)
}

// tests opens a block whose nodes are tested.
func (st *stage) tests(test func(nodes []string) (time.Duration, string)) {
	g := &st.solo().Groups[0]
	st.test = filepath.Join(st.TempDir(), "test.sh")
	g.OpenTest = st.test
	g.OpenTestLimit.Duration = 10 * time.Minute

	if err := os.WriteFile(g.OpenTest, []byte("#!/bin/sh\n"), 0o755); err != nil {
		st.Fatal(err)
	}

	st.slurm.Test = test
	st.block("cr-1", "solo", 0, day, 4)
	st.pass(-time.Minute)
	st.tape.Reset()
	st.note("cr-1 opens at 11:30; its nodes are to be tested")
}

// bad returns a test that takes 10 seconds and fails where one of some nodes is.
func bad(names ...string) func(nodes []string) (time.Duration, string) {
	return func(nodes []string) (time.Duration, string) {
		for _, n := range nodes {
			if slices.Contains(names, n) {
				return 10 * time.Second, "GPU 3 has fallen off the bus"
			}
		}

		return 10 * time.Second, ""
	}
}

// bootsAt opens a block whose nodes are up at these times since then; the others never are.
func (st *stage) bootsAt(up map[string]time.Duration) {
	st.slurm.Boot = day
	st.block("cr-1", "solo", 0, day, 4)
	st.pass(-time.Minute)
	st.pass(0)

	for name, at := range up {
		st.slurm.Node(name).BootedAt = opens.Add(at)
	}
}

// openBlock is where most scenarios begin: nothing of the opening is on the tape.
func (st *stage) openBlock() {
	st.opening()
	st.tape.Reset()
	st.note("since an hour cr-1 is open on solo-[1-4], until 02 11:30")
}

// earlier has the snapshot of a backup, in which all reservations end earlier.
func (st *stage) earlier(by time.Duration) {
	if err := backdate(st.sources.State, by); err != nil {
		st.Fatal(err)
	}

	st.note("the snapshot says that all reservations end %s earlier", by)
}

func backdate(dir state.Dir, by time.Duration) error {
	snap, err := dir.ReadSnapshot()
	if err != nil {
		return err
	}

	for i := range snap.Reservations {
		r := &snap.Reservations[i]
		if !r.End.IsZero() {
			r.End = r.End.Add(-by)
		}
	}

	return dir.WriteSnapshot(snap)
}

// requeues is a stage on which a pass after another requeues job 1 at its fence.
func (st *stage) requeues(comment string, change func(*model.Job)) *model.Job {
	st.openBlock()

	j := st.job(22*60+21, comment, "solo-1", "solo-2")
	j.TimeMin = capacity.Minutes(30)
	if change != nil {
		change(j)
	}

	st.pass(requeueAt - time.Minute)
	st.pass(requeueAt)
	st.pass(requeueAt + 30*time.Second)

	return j
}

// marks are those that the last pass kept.
func (st *stage) marks() string {
	records, err := st.sources.State.JobRecords().Read()
	if err != nil {
		st.Fatal(err)
	}

	return shownMarks(records)
}

func shownMarks(records map[string]state.JobRecord) string {
	var all []string
	for _, job := range slices.Sorted(maps.Keys(records)) {
		m := records[job]
		words := []string{}
		add := func(is bool, format string, args ...any) {
			if is {
				words = append(words, fmt.Sprintf(format, args...))
			}
		}
		add(m.Restarts > 0, "restarts=%d", m.Restarts)
		add(m.Fit, "fit")
		add(m.Wanted.Minutes > 0, "up to %d", m.Wanted.Minutes)
		add(m.OnEnd != "", "on_end=%s", m.OnEnd)
		add(m.WarnedMinutes > 0, "told=%d", m.WarnedMinutes)
		add(m.FenceRequeues > 0, "ends=%d", m.FenceRequeues)
		add(m.LastFence > 0, "ended at %s", model.Clock(time.Unix(m.LastFence, 0)))
		add(m.Ending != nil, "ending")
		add(m.Ending != nil && m.Ending.Release, "release")

		if m.Cut != nil {
			add(true, "cut from %s to %d", m.Cut.Own, m.Cut.Minutes)
		}

		all = append(all, fmt.Sprintf("%s(%s)", job, strings.Join(words, " ")))
	}

	return strings.Join(all, " ")
}

// cutShort has a job start with its --time-min, which ends before sync comes back.
func (st *stage) cutShort(limit int, timeMin capacity.Limit) {
	st.slurm.CutsToFloor = true
	st.openBlock()
	j := st.job(limit, "on_end=requeue")
	j.TimeMin = timeMin

	st.passes(time.Hour, 2)

	j.Never = false

	st.AdvanceTo(opens.Add(time.Hour + 34*time.Minute))
	st.note("%s after %s", j.State, j.TimeLimit)
	st.pass(time.Hour + 35*time.Minute)
	st.note("%s with %s", j.State, j.TimeLimit)
	st.passes(time.Hour+36*time.Minute, 1)
}

type scenario struct {
	name string
	play func(*stage)
}

var scenarios = []scenario{
	{"a block is scheduled, opens, and its fence comes", func(st *stage) {
		st.block("cr-1", "solo", 0, day, 4)
		st.pass(-30 * time.Minute)
		st.pass(-29 * time.Minute)
		st.pass(0)
		st.pass(time.Minute)
		st.slurm.Node("solo-1").State = model.Idle
		st.pass(fenceAt)
		st.pass(day + time.Minute)
	}},
	{"an extension moves a fence that has not begun", func(st *stage) {
		st.openBlock()
		st.aws.All[0].End = opens.Add(2 * day)
		st.passes(2*time.Hour, 2)
	}},
	{"an extension moves a fence that is active", func(st *stage) {
		st.openBlock()
		st.pass(fenceAt + time.Minute)
		st.aws.All[0].End = opens.Add(2 * day)
		st.passes(fenceAt+2*time.Minute, 2)
	}},
	{"another block has the slot after this one", func(st *stage) {
		st.openBlock()
		st.block("cr-2", "solo", day+time.Hour, day, 3)
		st.passes(2*time.Hour, 2)
		st.pass(fenceAt + time.Minute)
		st.pass(day + time.Minute)
		st.pass(day + time.Hour)
		st.pass(day + time.Hour + time.Minute)
	}},
	{"a block opens when its nodes are up, within two minutes", func(st *stage) {
		st.bootsAt(map[string]time.Duration{
			"solo-1": 3 * time.Minute,
			"solo-2": 3 * time.Minute,
			"solo-3": 4 * time.Minute,
			"solo-4": 4*time.Minute + 50*time.Second,
		})
		st.job(600, "")
		st.passes(3*time.Minute, 3)
	}},
	{"a block opens node by node when they are up one after the other, and one never", func(st *stage) {
		st.bootsAt(map[string]time.Duration{"solo-2": 3 * time.Minute, "solo-1": 6 * time.Minute})
		st.slurm.Node("solo-4").State = model.GivenUp
		st.passes(3*time.Minute, 4)
		st.note("an administrator drains a node that is open: it stays as it is")
		st.slurm.Node("solo-2").State += "+DRAIN"
		st.pass(7 * time.Minute)
		st.pass(10 * time.Minute)
	}},
	{"a block opens although its nodes cannot be powered up", func(st *stage) {
		st.block("cr-1", "solo", 0, day, 4)
		st.pass(-time.Minute)
		st.fails["power up"] = errors.New("Invalid node state specified")
		st.pass(0)
		st.pass(2 * time.Second)
	}},
	{"a block opens without sync", func(st *stage) {
		st.block("cr-1", "solo", 0, day, 4)
		st.pass(-time.Minute)
		st.AdvanceTo(opens.Add(time.Minute))
		st.note("Slurm has reservations %v", slices.Sorted(maps.Keys(st.slurm.Fences)))
		st.pass(2 * time.Minute)
	}},
	{"AWS opens a block late, an administrator opens it early", func(st *stage) {
		st.block("cr-1", "solo", 0, day, 4)
		st.aws.OpensLate = 20 * time.Second
		st.slurm.Boot = 5 * time.Minute
		st.pass(-time.Minute)
		st.pass(0)
		st.pass(20 * time.Second)
		st.note("scontrol delete reservationname=pcs-capacity-wait-solo.cr-1.0123abcd")
		delete(st.slurm.Fences, "pcs-capacity-wait-solo.cr-1.0123abcd")
		st.pass(time.Minute)
	}},
	{"a block follows at once, and opens when its nodes are up", func(st *stage) {
		st.openBlock()
		st.block("cr-2", "solo", day, day, 4)
		st.pass(2 * time.Hour)
		st.pass(fenceAt)
		st.slurm.Boot = 2 * time.Minute
		st.pass(day)
		st.pass(day + time.Minute)
		st.pass(day + 2*time.Minute)
	}},
	{"a bad node is found by halves, and good when it is launched again", func(st *stage) {
		st.tests(bad("solo-3"))
		st.passes(0, 5)
		st.slurm.Test = bad()
		st.passes(5*time.Minute, 5)
	}},
	{"a bad node is bad again, and drained", func(st *stage) {
		st.tests(bad("solo-3"))
		st.passes(0, 10)
	}},
	{"nodes fail together and pass alone", func(st *stage) {
		st.tests(func(nodes []string) (time.Duration, string) {
			if len(nodes) == 4 {
				return 10 * time.Second, "ring 0-3 is slow"
			}

			return 10 * time.Second, ""
		})
		st.passes(0, 5)
	}},
	{"a test hangs", func(st *stage) {
		st.tests(func([]string) (time.Duration, string) { return day, "" })
		st.pass(0)
		st.pass(2 * time.Second)
		st.pass(10*time.Minute + 2*time.Second)
		st.pass(10*time.Minute + 4*time.Second)
		st.pass(10*time.Minute + 6*time.Second)
	}},
	{"the file of a test is not there, or others can write it", func(st *stage) {
		st.tests(bad())
		os.Remove(st.solo().Groups[0].OpenTest)
		st.pass(0)
		st.pass(2 * time.Second)
	}},
	{"the nodes that are to be tested cannot be powered up", func(st *stage) {
		st.tests(bad())
		st.fails["power up"] = errors.New("Invalid node state specified")
		st.pass(0)
		st.pass(2 * time.Second)
	}},
	{"Slurm refuses a test", func(st *stage) {
		st.tests(bad())
		st.fails["submit"] = errors.New("Invalid account or account/partition combination specified")
		st.pass(0)
		st.pass(2 * time.Second)
		st.pass(4 * time.Second)
	}},
	{"a pass is killed before it knows of the test that it has submitted", func(st *stage) {
		st.tests(bad("solo-1"))
		st.pass(0)
		st.lost["submit"] = slurm.ErrUnreachable
		st.pass(2 * time.Second)
		delete(st.lost, "submit")
		st.pass(8 * time.Second)
		st.pass(14 * time.Second)
	}},
	{"a node dies in its test", func(st *stage) {
		st.tests(bad("solo-3"))
		st.pass(0)
		st.pass(2 * time.Second)
		st.note("the instance of solo-3 ends")
		st.aws.End(st.slurm.Node("solo-3").InstanceID)
		st.AdvanceTo(opens.Add(30 * time.Second))
		st.slurm.Node("solo-3").State = "IDLE+CLOUD+POWERING_DOWN"
		st.pass(30 * time.Second)
		st.slurm.Node("solo-3").State = model.Off
		st.passes(time.Minute, 4)
	}},
	{"a node is launched again while its block is open", func(st *stage) {
		st.tests(bad())
		st.passes(0, 3)
		st.note("the instance of solo-3 ends")
		st.aws.End(st.slurm.Node("solo-3").InstanceID)
		st.passes(2*time.Hour, 4)
	}},
	{"a block ends before a test could", func(st *stage) {
		st.tests(bad())
		st.aws.All[0].End = opens.Add(49 * time.Minute)
		st.passes(0, 3)
	}},
	{"a block ends before a bad node could be launched again", func(st *stage) {
		st.tests(bad("solo-3"))
		st.aws.All[0].End = opens.Add(64 * time.Minute)
		st.passes(0, 7)
	}},
	{"PCS: a bad node is drained, and its block opens", func(st *stage) {
		part := st.solo()
		part.Name, part.Provider = "gpu", capacity.ProviderPCS
		part.Groups[0].Name, part.Groups[0].Slots, part.Groups[0].LaunchTemplate = "gpu", 2, ""
		part.Groups[0].Select.Tags = map[string]string{"team": "solo"}
		part.Groups[0].MaxNodes = 2
		st.sources.Held = st.held
		st.group("gpu-a", "cr-1")
		st.slurm.All = st.slurm.All[:2]
		st.tests(bad("gpu-a-2"))
		st.pass(0)
		st.note("PCS has launched the nodes")

		for _, n := range st.slurm.All {
			n.State = model.Boots
		}

		st.slurm.LaunchInto("cr-1", []string{"gpu-a-1", "gpu-a-2"})
		st.passes(30*time.Second, 5)
	}},
	{"nodes that jobs start on demand open at the start of their block", func(st *stage) {
		st.solo().Groups[0].Dynamic = true
		st.block("cr-1", "solo", 0, day, 4)
		st.pass(-time.Minute)
		st.pass(0)
	}},
	{"two slots have two blocks that overlap, a third waits", func(st *stage) {
		gpu := st.sources.Settings.Partitions[0]
		gpu.Name, gpu.Groups = "gpu", []capacity.GroupSettings{gpu.Groups[0]}
		gpu.Groups[0].Name, gpu.Groups[0].Slots, gpu.Groups[0].Select = "gpu", 2, &capacity.Select{
			Tags: map[string]string{"team": "gpu"},
		}
		st.sources.Settings.Partitions = append(st.sources.Settings.Partitions, gpu)
		st.block("cr-1", "gpu", 0, day, 2)
		st.block("cr-2", "gpu", time.Hour, day, 2)
		st.block("cr-3", "gpu", 2*time.Hour, day, 2)
		st.pass(-time.Minute)
		st.pass(0)
	}},
	{"settings that were empty for a pass find the blocks in their slots", func(st *stage) {
		gpu := st.sources.Settings.Partitions[0]
		gpu.Name, gpu.Groups = "gpu", []capacity.GroupSettings{gpu.Groups[0]}
		gpu.Groups[0].Name, gpu.Groups[0].Slots, gpu.Groups[0].Select = "gpu", 2, &capacity.Select{
			Tags: map[string]string{"team": "gpu"},
		}

		st.block("cr-1", "gpu", time.Hour, 2*day, 2)

		for at, parts := range [][]capacity.PartitionSettings{{gpu}, nil, {gpu}} {
			st.sources.Settings.Partitions = parts
			if st.pass(2*time.Hour + time.Duration(at)*time.Minute); at == 0 {
				st.block("cr-0", "gpu", 0, day, 2)
				st.pass(2*time.Hour + 30*time.Second)
			}
		}
	}},
	{"the clocks of AWS and Slurm are apart", func(st *stage) {
		st.Skew = 3 * time.Minute
		st.opening()
		st.Skew = -20 * time.Second
		st.pass(2 * time.Hour)
	}},
	{"a reservation without an end has no fence", func(st *stage) {
		st.block("cr-1", "solo", -day, day, 4)
		st.aws.All[0].End, st.aws.All[0].Kind = time.Time{}, capacity.ODCR
		st.solo().Groups[0].PurchaseOption = capacity.ODCR
		st.pass(0)
	}},
	{"max_nodes is smaller than the slot, a host fails", func(st *stage) {
		st.solo().Groups[0].MaxNodes = 3
		st.opening()
		st.solo().Groups[0].MaxNodes = 4
		st.pass(2 * time.Hour)
		st.aws.All[0].Unhealthy = 1
		st.slurm.Node("solo-4").State = "DOWN+CLOUD"
		st.passes(3*time.Hour, 2)
	}},
	{"EC2 is about to take a host away", func(st *stage) {
		st.openBlock()
		st.aws.Hosts = map[string]string{
			"i-1": "instance-retirement, not before 2027-01-03T00:00:00Z: degraded hardware",
			"i-9": "another cluster's",
		}
		st.pass(2 * time.Hour)
	}},
	{"a fence cannot be made: the one before stays", func(st *stage) {
		st.pass(-2 * time.Minute)
		st.block("cr-1", "solo", 0, day, 4)
		st.fails["create reservation"] = errors.New("slurmctld is busy")
		st.pass(-time.Minute)
		clear(st.fails)
		st.pass(0)
	}},
	{"the settings lose a slot with a live block", func(st *stage) {
		st.openBlock()
		parts := st.sources.Settings.Partitions
		st.sources.Settings.Partitions = nil
		st.pass(2 * time.Hour)
		st.sources.Settings.Partitions = parts
		st.pass(3 * time.Hour)
	}},
	{"an end moves to an earlier time and back, and then goes", func(st *stage) {
		st.openBlock()
		st.job(20*60, "", "solo-1")

		st.job(0, "", "solo-2").TimeLimit = capacity.NoLimit
		st.job(20*60, "", "solo-3").AdminComment = "see ticket 12"
		block := &st.aws.All[0]
		for i, end := range []time.Duration{12 * time.Hour, day} {
			block.End = opens.Add(end)

			st.passes(time.Duration(2+i)*time.Hour, 2)
			st.slurm.Jobs[2].TimeLimit = capacity.Minutes(300) // its owner's by now
		}

		block.End, block.Kind, st.solo().Groups[0].PurchaseOption = time.Time{}, capacity.ODCR, capacity.ODCR
		st.passes(4*time.Hour, 2)
	}},
	{"other margins count when two passes have read them", func(st *stage) {
		st.openBlock()
		st.job(22*60, "", "solo-1")
		margin := &st.sources.Settings.Timing.DrainMargin
		was := *margin
		margin.Duration = 3 * time.Hour
		st.pass(2 * time.Hour)

		*margin = was

		st.passes(2*time.Hour+time.Minute, 2)
		margin.Duration = 3 * time.Hour
		st.passes(3*time.Hour, 2)
	}},
	{"state_dir is from a backup with an earlier end, and AWS is down", func(st *stage) {
		st.openBlock()
		st.job(22*60, "", "solo-1")
		st.earlier(12 * time.Hour)
		st.down = errors.New("503 Service Unavailable")
		st.passes(2*time.Hour, 2)
		st.note("what EC2 last said ends in the middle of that, and AWS is still down")
		st.passes(13*time.Hour, 2)
		st.down = nil
		st.passes(14*time.Hour, 2)
	}},
	{"one answer of AWS has a Date that is a day ahead", func(st *stage) {
		st.openBlock()
		st.job(22*60, "", "solo-1")
		st.pass(2 * time.Hour)

		for answers := range 5 {
			st.aws.Dates = append(make([]time.Duration, answers), day)
			st.pass(3 * time.Hour)
		}
	}},
	{"an open block is added before a future one", func(st *stage) {
		st.block("cr-1", "solo", 2*day, day, 4)
		st.pass(-time.Hour)
		st.block("cr-0", "solo", -2*time.Hour, day, 4)
		st.passes(0, 2)
	}},
	{"no settings name an open block, and state_dir is empty", func(st *stage) {
		st.openBlock()
		st.sources.Settings.Partitions, st.sources.State = nil, state.Dir(model.Dir(st.T))
		st.pass(2 * time.Hour)
		st.pass(day + time.Minute)
	}},
	{"EC2 leaves a live block out for a while", func(st *stage) {
		st.openBlock()
		st.aws.Hidden = []string{"cr-1"}
		st.pass(2 * time.Hour)
		st.pass(2*time.Hour + 61*time.Minute)
		st.aws.Hidden = nil
		st.pass(4 * time.Hour)
	}},
	{"what EC2 does not answer about one node group is as it was", func(st *stage) {
		st.solo().Groups[0].Select, st.solo().Groups[0].ReservationIDs = nil, []string{"cr-1"}
		st.openBlock()
		st.fails["describe reservations"] = errors.New("RequestLimitExceeded")
		st.pass(2 * time.Hour)
		st.pass(fenceAt + time.Minute)
		st.fails["describe reservations"] = nil
		st.pass(day + time.Minute)
	}},
	{"AWS is down over the fence and the end", func(st *stage) {
		st.openBlock()
		st.job(22*60+21, "on_end=requeue", "solo-1")
		st.down = errors.New("503 Service Unavailable")
		st.pass(requeueAt)
		st.pass(day + time.Hour)
		st.down = nil
		st.pass(day + 2*time.Hour)
	}},
	{"Slurm is down", func(st *stage) {
		st.openBlock()
		st.fails["config"] = errors.New("Unable to contact slurm controller")
		st.pass(2 * time.Hour)
		st.fails["config"], st.fails["jobs"] = nil, errors.New("squeue: Socket timed out")
		st.job(24*60, "", "solo-1")
		st.pass(3 * time.Hour)
		st.fails["jobs"] = nil
		st.pass(4 * time.Hour)
	}},
	{"other settings have a fence of their own", func(st *stage) {
		st.openBlock()
		st.sources.Owner, st.sources.OwnerIs = other, "settings /home/bob"
		st.passes(2*time.Hour, 2)
	}},
	{"a site's reservation that heeds no fence is named, and its job is cut to the fence", func(st *stage) {
		st.openBlock()
		st.slurm.Fences["course"] = model.Reservation{
			Name:  "course",
			Nodes: []string{"solo-1"},
			Start: opens,
			End:   opens.AddDate(1, 0, 0),
			Flags: []string{"MAINT"},
			Users: []string{"alice"},
		}
		st.job(30*60, "", "solo-1")
		st.pass(2 * time.Hour)
	}},
	{"requeue at the fence, with the limit of the next block", func(st *stage) {
		st.block("cr-2", "solo", day+time.Hour, 2*day, 4)
		st.requeues("fitted on_end=requeue", nil)
		st.pass(fenceAt + time.Minute)
	}},
	{"requeue at the fence, with a limit of its own and no next block", func(st *stage) {
		st.requeues("", func(j *model.Job) { j.TimeMin = capacity.Limit{} })
	}},
	{"requeue where Slurm would start the job again at once", func(st *stage) {
		st.slurm.RequeueDelay = 0
		st.requeues("fitted", func(j *model.Job) { j.TimeMin = capacity.Minutes(1) })
	}},
	{"requeue of a job that its administrator holds", func(st *stage) {
		st.requeues("on_end=hold", func(j *model.Job) { j.Held, j.Reason = true, "JobHeldAdmin" })
	}},
	{"the sixth requeue holds the job, if it does not get on", func(st *stage) {
		st.block("cr-2", "solo", day+time.Hour, 2*day, 4)
		st.requeues("fitted", func(j *model.Job) {
			j.Start = opens.Add(requeueAt - 20*time.Minute)
			j.End = j.Start.Add(j.TimeLimit.Duration())

			if err := st.sources.State.JobRecords().Save(map[string]state.JobRecord{
				"1": {Wanted: state.Wanted{Fit: true}, FenceRequeues: 5, LastFence: 7},
			}); err != nil {
				st.Fatal(err)
			}
		})
	}},
	{"a job longer than its block runs to the fence, and goes on with its own limit", func(st *stage) {
		st.slurm.CutsToFloor = true // before 25.05.3
		st.openBlock()
		st.block("cr-2", "solo", day, 3*day, 4)
		j := st.job(3*24*60, "on_end=requeue")
		st.pass(time.Hour)

		j.Never = false

		st.pass(time.Hour + time.Minute)
		st.note("it runs with %s", j.TimeLimit)
		st.note("%s", st.marks())
		st.passes(requeueAt, 2)
		st.note("it waits with %s", j.TimeLimit)
		st.passes(day+time.Hour, 2)
		st.note("it runs with %s", j.TimeLimit)
		st.note("%s", st.marks())
	}},
	{"a job that its owner requeues gets its own limit back", func(st *stage) {
		st.slurm.CutsToFloor = true
		st.openBlock()
		j := st.job(3*24*60, "on_end=requeue")
		st.pass(time.Hour)

		j.Never = false

		st.pass(time.Hour + time.Minute)

		j.Never = true

		st.slurm.Requeue(j, "REQUEUED")
		st.note("it waits with %s", j.TimeLimit)
		st.passes(2*time.Hour, 2)
		st.note("it waits with %s", j.TimeLimit)
	}},
	{"a job whose owner has taken --time-min away waits for the next block", func(st *stage) {
		st.openBlock()
		j := st.job(3*24*60, "on_end=requeue")
		st.passes(time.Hour, 2)

		j.TimeMin = capacity.Limit{}

		st.passes(2*time.Hour, 2)
	}},
	{"a job that sync was not there to raise is requeued when it is back", func(st *stage) {
		st.cutShort(3*24*60, capacity.Limit{})
	}},
	{"one whose limit sync fits is requeued with the whole window, at once", func(st *stage) {
		st.cutShort(60, capacity.Minutes(31))
	}},
	{"jobs wait that are too long for what is left, and nodes are idle", func(st *stage) {
		st.openBlock()
		st.block("cr-2", "solo", day, 3*day, 4)

		for _, comment := range []string{"on_end=stop", "on_end=stop", "fitted on_end=requeue"} {
			st.job(24*60, comment)
		}

		st.pass(time.Hour)

		st.slurm.Jobs[2].Held = true // it waits for its owner

		st.pass(time.Hour + time.Minute)
		st.pass(requeueAt - 28*time.Minute) // less than min_time
	}},
	{"hold at the fence, and its owner gets the hold", func(st *stage) {
		st.requeues("on_end=hold", nil)
		st.passes(requeueAt+time.Minute, 3)
	}},
	{"stop at the fence is left to the limit", func(st *stage) {
		st.requeues("on_end=stop", nil)
	}},
	{"on_end written while the job runs does not count", func(st *stage) {
		st.openBlock()
		j := st.job(22*60+21, "", "solo-1")
		st.pass(2 * time.Hour)

		j.Comment = "on_end=stop"

		st.pass(requeueAt)
	}},
	{"a suspended job is resumed and then requeued, and one that boots is requeued", func(st *stage) {
		st.openBlock()
		j := st.job(22*60+21, "", "solo-1")
		j.State, j.Held = "SUSPENDED", true

		st.boots(st.job(22*60+21, "", "solo-2"))
		st.passes(requeueAt, 2)
	}},
	{"tasks of an array are requeued at each fence, while others wait: squeue shows them as one", func(st *stage) {
		st.openBlock()
		st.note("cr-2 follows, until 03 11:30")
		st.block("cr-2", "solo", day, day, 4)

		for i := range 4 {
			j := st.job(60, "on_end=requeue")
			if i < 2 {
				j = st.job(22*60+21, "on_end=requeue", "solo-"+string(rune('1'+i)))
			}

			j.Shown, j.TimeMin = "12_"+string(rune('0'+i)), capacity.Minutes(1)
			j.Never, j.AdminComment = i > 1, "see ticket 12"
		}

		st.slurm.Jobs = slices.DeleteFunc(
			st.slurm.Jobs,
			func(j *model.Job) bool { return !strings.HasPrefix(j.Shown, "12_") },
		)
		st.pass(requeueAt - time.Minute)
		st.fails["release"] = errors.New("slurmctld is busy")
		st.pass(requeueAt)
		st.fails["release"] = nil
		st.passes(requeueAt+time.Minute, 2)
		st.note("%s", st.marks())
		st.passes(day+time.Hour, 2)
		st.passes(day+requeueAt, 2)
		st.note("%s", st.marks())

		for _, j := range st.slurm.Jobs {
			st.note("%s %s, held %t, requeued %d times", j.Shown, j.State, j.Held, j.Restarts)
		}
	}},
	{"a job of two components is requeued once", func(st *stage) {
		st.openBlock()
		st.job(22*60+21, "", "solo-1").Shown = "7+0"
		st.job(22*60+21, "", "solo-2").Shown = "7+1"
		st.pass(requeueAt)
	}},
	{"a requeue that Slurm refuses, and one that it forgets", func(st *stage) {
		st.fails["requeue"] = errors.New("slurm_requeue: Job is pending execution")
		st.requeues("", func(j *model.Job) { j.TimeMin = capacity.Limit{} })
		st.fails["requeue"] = errors.New("the job still runs, although Slurm accepted the change")
		st.pass(requeueAt + time.Minute)
	}},
	{"a requeue that Slurm forgets leaves the limit", func(st *stage) {
		st.block("cr-2", "solo", day+time.Hour, 2*day, 4)
		st.fails["requeue"] = errors.New("the job still runs, although Slurm accepted the change")
		st.requeues("fitted", nil)
	}},
	{"a requeue that is not read back is finished by the next pass", func(st *stage) {
		st.slurm.RequeueDelay = 0
		st.lost["requeue"], st.lost["requeue and hold"] = errUnread, errUnread
		st.requeues("fitted", func(j *model.Job) { j.TimeMin = capacity.Minutes(1) })
	}},
	{"a requeue that is not read back gets its limit in the next pass", func(st *stage) {
		st.block("cr-2", "solo", day+time.Hour, 2*day, 4)
		st.lost["requeue"], st.lost["requeue and hold"] = errUnread, errUnread
		st.requeues("fitted", nil)
		st.pass(requeueAt + time.Minute)
	}},
	{"what is left of a requeue is done after the fence", func(st *stage) {
		st.slurm.RequeueDelay = 0
		for _, verb := range []string{"begin", "release"} {
			st.fails[verb] = errors.New("slurmctld is busy")
		}

		st.requeues("", func(j *model.Job) { j.TimeMin = capacity.Minutes(1) })
		clear(st.fails)
		st.pass(fenceAt + time.Minute)
	}},
	{"what comes after a requeue fails", func(st *stage) {
		for _, verb := range []string{"admin comment", "begin", "release", "set time limit"} {
			st.fails[verb] = errors.New("slurmctld is busy")
		}

		st.block("cr-2", "solo", day+time.Hour, 2*day, 4)
		st.slurm.RequeueDelay = 0
		st.requeues("fitted", func(j *model.Job) { j.TimeMin = capacity.Minutes(1) })
		clear(st.fails)
		st.pass(requeueAt + time.Minute)
	}},
	{"killed before each change of a requeue", func(st *stage) {
		for change := 1; change <= 5; change++ {
			one := newStage(st.T)
			one.slurm.RequeueDelay = 0
			one.block("cr-2", "solo", day+time.Hour, 2*day, 4)
			one.openBlock()
			one.job(22*60+21, "fitted", "solo-1").TimeMin = capacity.Minutes(1)
			one.pass(2 * time.Hour)
			one.tape.Reset()
			one.note("killed before change %d", change)
			one.dieAt = change
			one.pass(requeueAt)
			one.passes(requeueAt+10*time.Second, 2)
			st.tape.WriteString(one.tape.String())
		}
	}},
	{"jobs that cannot be requeued are told three times", func(st *stage) {
		st.openBlock()

		st.job(22*60+21, "", "solo-1").Requeue = false
		st.job(22*60+21, "", "solo-2").Batch = false
		st.boots(st.job(22*60+21, "", "solo-3")).Requeue = false
		for _, minutes := range []time.Duration{61, 60, 59, 15, 14, 5, 1} {
			st.pass(fenceAt - minutes*time.Minute)
		}
	}},
	{"boot time pushes a limit past the fence, and it is lowered", func(st *stage) {
		st.openBlock()
		st.job(24*60, "", "solo-1")
		st.job(0, "", "solo-2").TimeLimit = capacity.NoLimit
		boots := st.boots(st.job(24*60, "", "solo-3"))
		st.passes(2*time.Hour, 2)
		st.slurm.Node("solo-3").State = model.Idle
		st.AdvanceTo(opens.Add(3 * time.Hour))
		st.note("the nodes of job %s are up", boots.Shown)
		st.fails["set time limit"] = errors.New("slurmctld is busy")
		st.pass(3 * time.Hour)
	}},
	{"limits that Slurm cut are raised, up to what each may have", func(st *stage) {
		st.slurm.CutsToFloor = true
		st.solo().OnEnd = capacity.StopAtEnd
		st.openBlock()

		for _, comment := range []string{"fitted", "fitted:600", ""} {
			st.job(300, comment, "solo-1").TimeMin = capacity.Minutes(30)
		}

		st.passes(time.Hour+time.Minute, 2)
		st.note("an extension")
		st.aws.All[0].End = opens.Add(2 * day)
		st.pass(2 * time.Hour)
	}},
	{"a limit that the owner of a fitted job lowers stays", func(st *stage) {
		st.slurm.CutsToFloor = true
		st.solo().OnEnd = capacity.StopAtEnd
		st.openBlock()
		j := st.job(31, "fitted", "solo-1")
		j.TimeMin = capacity.Minutes(31)
		st.dieAt = 1
		st.note("the pass that is to raise job 1 is killed")
		st.pass(time.Hour + time.Minute)
		st.pass(time.Hour + 2*time.Minute)
		st.note("its owner lowers it to 2 hours")

		j.TimeLimit, j.End = capacity.Minutes(120), j.Start.Add(2*time.Hour)
		st.passes(time.Hour+3*time.Minute, 2)
		st.note("an extension")
		st.aws.All[0].End = opens.Add(2 * day)
		st.pass(2 * time.Hour)
	}},
	{"what accounting lets jobs have bounds a raise, and where it limits use over time there is none", func(st *stage) {
		st.slurm.Limits = capacity.Walls{
			QOS: map[string]capacity.Wall{"short": {MaxWall: capacity.Minutes(500)}, "metered": {Metered: true}},
		}
		st.solo().OnEnd = capacity.StopAtEnd
		st.openBlock()

		for i, qos := range []string{"short", "metered", "normal"} {
			j := st.job(300, "fitted", "solo-"+string(rune('1'+i)))
			j.QOS, j.TimeMin = qos, capacity.Minutes(30)
		}

		st.pass(time.Hour + time.Minute)
	}},
	{"a job of the block before is not raised", func(st *stage) {
		st.solo().OnEnd = capacity.StopAtEnd
		st.openBlock()
		st.job(22*60+30, "fitted", "solo-1").TimeMin = capacity.Minutes(30)
		st.block("cr-2", "solo", day, day, 4)
		st.pass(2 * time.Hour)
		node := st.slurm.Node("solo-1") // whose instance EC2 does not take back in time
		st.aws.End(node.InstanceID)
		node.InstanceID = ""
		st.slurm.Jobs[0].TimeLimit, st.slurm.Jobs[0].End = capacity.Minutes(24*60), opens.Add(day+time.Hour)
		st.pass(day + time.Minute)
	}},
	{"waiting jobs without a limit get one, or are told why not", func(st *stage) {
		st.openBlock()
		st.job(0, "", nothing...).TimeLimit = capacity.NoLimit
		st.job(0, "", nothing...).TimeLimit = capacity.NoLimit
		st.slurm.Jobs[1].NumNodes = 9
		st.passes(2*time.Hour, 2)
		st.slurm.Jobs[1].NumNodes = 2
		st.job(0, "", nothing...).TimeLimit = capacity.NoLimit
		st.fails["edit"] = errors.New("slurmctld is busy")
		st.pass(3 * time.Hour)
		clear(st.fails)
		st.passes(4*time.Hour, 2)
	}},
	{"owners are told why a job never starts, and when that is over", func(st *stage) {
		st.openBlock()
		j := st.job(60, "", nothing...)
		j.NumNodes = 5
		st.job(60, "", nothing...).AdminComment = "see ticket 12"
		st.slurm.Jobs[1].NumNodes = 5
		st.passes(2*time.Hour, 2)

		j.NumNodes = 4
		st.aws.All[0].Unhealthy = 1
		st.slurm.Node("solo-4").State = "DOWN+CLOUD"
		st.passes(3*time.Hour, 2)
		st.aws.All[0].Unhealthy = 0
		st.passes(4*time.Hour, 2)
	}},
	{"a hold of ours is left to the job's owner", func(st *stage) {
		st.openBlock()

		for _, reason := range []string{
			"JobHeldAdmin",
			"JobHeldAdmin",
			"JobHeldUser",
			"job requeued in held state",
			"JobHeldAdmin",
		} {
			j := st.job(60, "", nothing...)
			j.Never, j.Held, j.Reason, j.Eligible = true, true, reason, opens
			j.AdminComment = capacity.AdminNote{
				Held: opens.Add(-time.Hour),
				Text: "cr-1 is not this partition's",
			}.String()
		}

		st.slurm.Jobs[1].AdminComment = "wait for bob"
		st.slurm.Jobs[3].Eligible = opens.Add(2*time.Hour - 5*time.Second)
		st.fails["user hold"] = errors.New("slurmctld is busy")
		st.pass(2 * time.Hour)
		clear(st.fails)
		st.passes(3*time.Hour, 2)
	}},
	{"instances that belong to no node are seen twice and ended", func(st *stage) {
		st.openBlock()
		st.aws.Instances = append(
			st.aws.Instances,
			capacity.Instance{
				ID:            "i-8",
				PrivateIP:     "10.0.0.8",
				State:         "running",
				ReservationID: "cr-1",
				Launched:      opens,
				Tags:          map[string]string{capacity.TagCluster: model.Mark, capacity.TagNode: "gone-7"},
			},
		)
		st.slurm.Node("solo-1").State = model.Off
		st.fails["terminate"] = errors.New("UnauthorizedOperation")
		st.passes(2*time.Hour, 2)
		clear(st.fails)
		st.passes(3*time.Hour, 2)
		st.note("the last partition is torn down")
		st.sources.Settings.Partitions = nil
		st.aws.Instances = append(
			st.aws.Instances,
			capacity.Instance{
				ID: "i-9", PrivateIP: "10.0.0.3", State: "running", Launched: opens,
				Tags: map[string]string{capacity.TagCluster: model.Mark, capacity.TagNodes: "old-1"},
			},
		)
		st.passes(4*time.Hour, 2)
	}},
	{"ODCRs that are held for nothing are given back", func(st *stage) {
		st.sources.Settings.Reserve.MaxInstances = 64
		st.openBlock()

		held := func(id, hold string, since time.Duration) {
			st.aws.All = append(
				st.aws.All,
				capacity.Reservation{
					ID:           id,
					Kind:         capacity.ODCR,
					InstanceType: "p5.48xlarge",
					AZID:         "use2-az1",
					State:        capacity.StateActive,
					Total:        2,
					Available:    2,
					Created:      opens.Add(since),
					End:          opens.Add(day),
					Tags:         map[string]string{capacity.TagCluster: model.Mark, capacity.TagHold: hold},
				},
			)
		}
		held("cr-probe", capacity.HoldProbe, -time.Hour)
		held("cr-hand", capacity.HoldByHand, -time.Hour)
		held("cr-job", capacity.HoldJobs([]capacity.JobRun{{ID: 99}}), -time.Hour)

		st.fails["jobs"] = errors.New("squeue: Socket timed out")
		st.pass(time.Hour + time.Minute)
		clear(st.fails)
		st.fails["cancel reservation"] = errors.New("UnauthorizedOperation")
		st.pass(2 * time.Hour)
		clear(st.fails)
		st.passes(3*time.Hour, 2)
	}},
	{"a node on the wrong instance is told", func(st *stage) {
		st.openBlock()

		for _, node := range []string{"solo-1", "solo-2"} {
			st.slurm.Node(node).State = model.Idle
			if err := st.sources.State.SaveMisplaced(state.Misplaced{
				Node:     node,
				At:       opens.Add(2 * time.Hour),
				Metadata: capacity.Metadata{InstanceID: "i-7", InstanceType: "p4d.24xlarge", AZID: "use2-az1"},
			}); err != nil {
				st.Fatal(err)
			}
		}

		st.pass(2*time.Hour + time.Minute)
	}},
	{"nodes that did not boot, and one with a job completing, are given back", func(st *stage) {
		st.openBlock()
		st.slurm.Node("solo-1").State = "DOWN+CLOUD+POWERED_DOWN"
		st.slurm.Node("solo-1").Reason = "ResumeTimeout reached"
		j := st.job(60, "", "solo-3")
		st.slurm.Node("solo-3").State = model.Off
		j.State = "COMPLETING"

		st.pass(2 * time.Hour)
	}},
	{"PCS: the next block is set up, the last one goes", func(st *stage) {
		part := st.solo()
		part.Name, part.Provider, part.RollOver = "gpu", capacity.ProviderPCS, true
		part.Groups[0].Name = "gpu"
		part.Groups[0].MaxNodes = 2
		part.Groups[0].LaunchTemplate = ""
		part.Groups[0].Slots = 2
		part.Groups[0].Select.Tags = map[string]string{"team": "gpu"}
		st.sources.Held, st.sources.RollOver = st.held, st
		st.block("cr-1", "gpu", 0, day, 2)
		st.block("cr-2", "gpu", day, day, 2)
		nodes := st.slurm.All
		st.slurm.All = nodes[:2]
		st.group("gpu-a", "cr-1")
		st.rolls = errors.New("ServiceQuotaExceededException")
		st.passes(0, 2)
		st.rolls = nil
		st.passes(6*time.Minute, 2)
		st.slurm.All = nodes[:4]
		st.group("gpu-b", "cr-2")
		st.pass(time.Hour)

		part.Groups[0].MaxNodes = 1

		st.pass(2 * time.Hour)

		part.Groups[0].MaxNodes = 2

		st.pass(fenceAt + time.Minute)
		st.pass(day + time.Minute)
	}},
}

// nothing are the nodes of a job that waits.
var nothing []string

// A pass gives so many jobs their limits, and tells so many owners; the next one goes on.
func TestSoManyJobsAPass(t *testing.T) {
	view := View{
		Snap:    oneSlot("ec2", []string{"cr-1"}, block("cr-1", "-1h", "24h", capacity.StateActive)),
		Cluster: &Cluster{},
		Now:     noon,
	}
	view.Snap.Submit.Strict, view.Snap.TakenAt, view.Snap.Submit.StaleAfter.Duration = true, noon, time.Hour
	view.Snap.Reservations[0].Total, view.Snap.Partitions[0].Groups[0].PurchaseOption = 4, capacity.CapacityBlock
	view.Old = view.Snap
	add := func(n int, j capacity.Job) {
		for i := range n {
			j.Shown, j.Partition, j.State = fmt.Sprint(i), "gpu", "PENDING"
			view.Jobs = append(view.Jobs, j)
		}
	}
	add(maxFitsPerPass+1, capacity.Job{TimeLimit: capacity.NoLimit}) // gets a limit
	add(
		maxNotesPerPass+1,
		capacity.Job{TimeLimit: capacity.Minutes(9999), AdminComment: again, NumNodes: 1},
	) // its own is too long

	count := map[string]int{}
	for _, a := range decideWaiting(view) {
		count[a.Code]++
	}

	if want := map[string]int{"set-limit": maxFitsPerPass, "tell-owner": maxNotesPerPass}; !maps.Equal(count, want) {
		t.Errorf("%v, want %v", count, want)
	}
}
