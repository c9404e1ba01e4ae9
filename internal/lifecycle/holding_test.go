package lifecycle

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/model"
)

// heldGroup is the Capacity Reservation group of the node group of these scenarios.
const heldGroup = "pcs-capacity-ml-gpu"

// holds has partition gpu on PCS with four nodes that are launched only into held capacity, in two zones with room for
// so many instances.
func (st *stage) holds(first, second int) {
	part := st.solo()
	part.Name = "gpu"
	part.Provider = capacity.ProviderPCS
	part.Groups = []capacity.GroupSettings{{
		Name:           "gpu",
		InstanceType:   "p5.48xlarge",
		SubnetIDs:      []string{"subnet-1", "subnet-2"},
		PurchaseOption: capacity.OnDemand,
		Reserve:        capacity.ReservePerJob,
		MaxNodes:       4,
	}}
	st.sources.Settings.Cluster = "ml"
	st.sources.Settings.Reserve.MaxInstances = 64
	st.sources.Groups = st.aws.Pools
	st.sources.Held = st.held
	st.group("gpu", "")

	st.aws.VPC = []ec2.Subnet{
		{Subnet: capacity.Subnet{ID: "subnet-1", AZID: "use2-az1"}},
		{Subnet: capacity.Subnet{ID: "subnet-2", AZID: "use2-az2"}},
	}
	st.aws.Zones = map[string]int{"use2-az1": first, "use2-az2": second}
	st.aws.Pools.All[heldGroup] = nil

	st.slurm.All = nil
	st.slurm.Add("gpu", "gpu", 4)
	st.slurm.Boot = 2 * time.Minute
	st.slurm.Resume = func(nodes []string) { st.slurm.LaunchIntoGroup(heldGroup, nodes) }
}

// waits has a job wait for nodes, which it then uses for so long.
func (st *stage) waits(nodes int, work time.Duration) *model.Job {
	return st.slurm.Submit(model.Job{
		Job: capacity.Job{
			Partition: "gpu",
			User:      "alice",
			Account:   "nlp",
			Batch:     true,
			Requeue:   true,
			NumNodes:  nodes,
			TimeLimit: capacity.Minutes(600),
			Reason:    "Resources",
		},
		Work: work,
	})
}

// until makes passes half a minute apart, and leaves those out of the tape that do nothing.
func (st *stage) until(at time.Duration) {
	for now := st.Now().Sub(opens) + 30*time.Second; now <= at; now += 30 * time.Second {
		before := st.tape.String()

		st.pass(now)

		if strings.Count(st.tape.String()[len(before):], "\n") == 1 {
			st.tape.Reset()
			st.tape.WriteString(before)
		}
	}
}

// powerDown ends the instance of a node, as PCS does when Slurm powers it down.
func (st *stage) powerDown(name string) { st.aws.End(st.slurm.Node(name).InstanceID) }

// heldNow returns the live ODCRs.
func (st *stage) heldNow() (ids []string) {
	for _, r := range st.aws.All {
		if one, _ := st.aws.Real(r.ID); one.State.IsLive() {
			ids = append(ids, r.ID)
		}
	}

	return ids
}

var holdScenarios = []scenario{
	{"PCS: capacity is held for a job in the zone that has room, as long as its nodes run", func(st *stage) {
		st.holds(1, 16)
		st.pass(0)
		st.waits(2, 20*time.Minute)
		st.until(24 * time.Minute)
		st.note("the job has ended; Slurm powers down one of its nodes, and then the other")
		st.powerDown("gpu-1")
		st.until(26 * time.Minute)
		st.powerDown("gpu-2")
		st.until(28 * time.Minute)
	}},
	{"PCS: jobs wait until the zone that has the held capacity is done", func(st *stage) {
		st.holds(2, 2)
		st.pass(0)
		st.waits(2, 20*time.Minute)
		st.waits(1, 20*time.Minute)
		st.waits(1, 20*time.Minute)
		st.until(10 * time.Minute)
	}},
	{"PCS: an array starts as many tasks as there is room for", func(st *stage) {
		st.holds(0, 1)
		st.pass(0)

		for _, task := range []string{"1_1", "1_2", "1_3"} {
			st.waits(1, 3*time.Minute).Shown = task
		}

		st.until(time.Minute)
		st.aws.Zones["use2-az2"] = 2
		st.until(2 * time.Minute)
	}},
	{"PCS: no zone has room for a job, then one has", func(st *stage) {
		st.holds(1, 1)
		st.pass(0)
		st.waits(2, 20*time.Minute)
		st.until(time.Minute)
		st.aws.Zones["use2-az2"] = 2
		st.until(2 * time.Minute)
	}},
	{"PCS: EC2 refuses to hold capacity, then it does not", func(st *stage) {
		st.holds(4, 0)
		st.pass(0)
		st.waits(2, 20*time.Minute)
		st.fails = map[string]error{"create ODCR": &model.Refusal{
			Code:    "UnauthorizedOperation",
			Message: "You are not authorized.",
			Outcome: capacity.ErrRefused,
		}}
		st.until(time.Minute)
		st.fails = nil
		st.until(2 * time.Minute)
	}},
	{"PCS: a job is cancelled while capacity is held for it", func(st *stage) {
		st.holds(4, 0)
		st.pass(0)
		j := st.waits(2, 20*time.Minute)
		j.Never = true

		st.until(time.Minute)
		st.slurm.End(j, "CANCELLED")
		st.until(2 * time.Minute)
	}},
	{"PCS: Slurm does not start a job for which capacity is held", func(st *stage) {
		st.holds(4, 0)
		st.pass(0)
		st.waits(2, 20*time.Minute).Never = true
		st.until(13 * time.Minute)
	}},
	{"PCS: somebody has deleted the Capacity Reservation group", func(st *stage) {
		st.holds(4, 0)
		st.pass(0)
		st.waits(2, 20*time.Minute)
		delete(st.aws.Pools.All, heldGroup)
		st.until(2 * time.Minute)
	}},
	{"PCS: instances that run outside of a reservation take what is held for the next job", func(st *stage) {
		st.holds(4, 0)
		st.pass(0)
		st.waits(2, day)
		st.until(5 * time.Minute)
		st.note("sync does not run for half an hour")
		st.AdvanceTo(opens.Add(35 * time.Minute))
		st.waits(2, day)
		st.until(38 * time.Minute)
	}},
	{"PCS: a new ODCR is pending for a while", func(st *stage) {
		st.holds(4, 0)
		st.aws.Pends = 45 * time.Second
		st.pass(0)
		st.waits(2, 20*time.Minute)
		st.until(3 * time.Minute)
	}},
	{"PCS: of two node groups of a queue, one has capacity held for a job", func(st *stage) {
		st.holds(4, 4)

		other := st.solo().Groups[0]
		other.Name = "big"
		st.solo().Groups = append(st.solo().Groups, other)
		st.group("big", "")
		st.slurm.Add("gpu", "big", 4)

		st.aws.Pools.All["pcs-capacity-ml-big"] = nil
		st.aws.Pends = time.Minute // so that the job waits for some passes
		st.pass(0)
		st.waits(2, 20*time.Minute)
		st.until(3 * time.Minute)
	}},
	{"PCS: AWS does not answer", func(st *stage) {
		st.holds(4, 0)
		st.pass(0)
		st.waits(2, day)
		st.down = errors.New("503")
		st.until(time.Minute)
	}},
}

// The snapshot says what is held, and when it is held again for a job that Slurm has not started.
func TestHoldingInSnapshot(t *testing.T) {
	st := newStage(t)
	st.holds(4, 0)

	holding := func(at time.Duration) *capacity.Holding {
		st.pass(at)

		snap, err := st.sources.State.ReadSnapshot()
		if err != nil {
			t.Fatal(err)
		}

		return capacity.AllSlots(snap.Partitions)[0].Slot.Holding
	}

	if h := holding(0); h != nil {
		t.Errorf("%+v is held for no job", h)
	}

	st.waits(2, day).Never = true

	h := holding(time.Minute)
	if h == nil || h.AZID != "use2-az1" || h.Count != 2 || h.Free != 2 || !slices.Equal(h.Jobs, []string{"1"}) {
		t.Errorf("%+v is held", h)
	}

	h = holding(4 * time.Minute)
	if h == nil || h.Count != 0 || !h.Paused["1"].Equal(st.Now().Add(4*time.Minute)) {
		t.Errorf("%+v after Slurm has not started the job", h)
	}
}

// A look reads no groups: it shows what the last pass could not read, until one can, or needs none.
func TestLookShowsUnreadGroups(t *testing.T) {
	st := newStage(t)
	st.holds(4, 0)

	shows := func(want bool) {
		t.Helper()

		snap, _, _, err := Look(t.Context(), st.sources)
		unread := func(p capacity.Problem) bool { return p.Code == capacity.HoldGroupUnread && p.About.Slot == "gpu" }
		if is := slices.ContainsFunc(snap.Problems, unread); err != nil || is != want {
			t.Errorf("%t, want %t; %v", is, want, err)
		}
	}

	delete(st.aws.Pools.All, heldGroup)
	st.pass(0)
	shows(false)

	j := st.waits(2, day)
	st.pass(time.Minute)
	shows(true)

	st.slurm.End(j, "CANCELLED")
	st.pass(2 * time.Minute)
	shows(false)
}

// A pass is killed before each of its changes, with a job that then waits on, and with one that is cancelled: the job
// runs, or nothing is left after one pass.
func TestR5_HoldKilledAnywhere(t *testing.T) {
	for _, cancelled := range []bool{false, true} {
		for dies := 1; ; dies++ {
			st := newStage(t)
			st.holds(1, 4)
			st.pass(0)

			j := st.waits(2, day)
			j.Never = cancelled
			st.dieAt = dies
			st.pass(time.Minute)

			if !strings.Contains(st.tape.String(), "(killed)") {
				if dies < 4 {
					t.Fatalf("a pass makes only %d changes:\n%s", dies, &st.tape)
				}

				break
			}

			if cancelled {
				st.slurm.End(j, "CANCELLED")
			}

			st.pass(2 * time.Minute)

			if cancelled { // what was not ordered is in the ledger until it would be shown
				st.pass(7 * time.Minute)
			}

			held := st.heldNow()
			ledger, err := st.sources.State.Holds(st.Now())
			_, guard := st.slurm.Fences["pcs-capacity-surplus-gpu.none.0123abcd"]
			switch {
			case err != nil || !guard:
				t.Errorf("killed before change %d: guard %t, %v:\n%s", dies, guard, err, &st.tape)
			case cancelled && (len(held) > 0 || len(ledger) > 0):
				t.Errorf("killed before change %d: %v and %v are left:\n%s", dies, held, ledger, &st.tape)
			case !cancelled && (len(held) != 1 || j.State != "RUNNING"):
				t.Errorf("killed before change %d: %v is held, and the job is %s:\n%s", dies, held, j.State, &st.tape)
			}
		}
	}
}

// So many days of holds are played, each with some forty things that happen.
const holdDays = 16

// Whatever happens, jobs run as soon as there is room, and nothing is held when all have ended. If passes are made in
// time and none is killed, no launch fails.
func TestR4_HoldSeeds(t *testing.T) {
	for seed := range uint64(holdDays) {
		st := newStage(t)
		st.holds(4, 4)
		st.pass(st.Now().Sub(opens)) // that of setup

		random := rand.New(rand.NewPCG(seed, 0))
		calm := seed%2 == 0

		var boots []string // PCS launches them some time later

		failed := 0
		launch := func() {
			for _, name := range boots {
				if st.slurm.Node(name).IsBooting() {
					st.slurm.LaunchIntoGroup(heldGroup, []string{name})

					if st.slurm.Node(name).PoweredDown() {
						failed++
					}
				}
			}

			boots = nil
		}
		st.slurm.Resume = func(nodes []string) { boots = append(boots, nodes...) }
		st.aws.Pends = time.Duration(random.IntN(2)) * 20 * time.Second

		for range 40 {
			st.happens(random, calm)
			st.pass(st.Now().Sub(opens) + time.Duration(15+random.IntN(45))*time.Second)
			clear(st.fails)
			clear(st.lost)

			if random.IntN(2) == 0 {
				launch()
			}

			if calm && (failed > 0 || st.runOutside() > 0) {
				t.Fatalf("seed %d: %d launches have failed, and %d instances run outside of ODCRs:\n%s", seed, failed,
					st.runOutside(), &st.tape)
			}
		}

		st.slurm.Resume = func(nodes []string) { st.slurm.LaunchIntoGroup(heldGroup, nodes) }

		launch()

		st.aws.Zones["use2-az1"] = 8
		st.passes(st.Now().Sub(opens)+time.Minute, 120)

		for _, j := range st.slurm.Jobs {
			if j.Outcome == "" {
				t.Fatalf("seed %d: job %s is %s:\n%s", seed, j.Shown, j.State, &st.tape)
			}
		}

		st.slurm.PowerDownIdle("gpu")
		st.passes(st.Now().Sub(opens)+time.Minute, 6)

		ledger, err := st.sources.State.Holds(st.Now())
		if left := st.heldNow(); err != nil || len(left)+len(ledger) > 0 {
			t.Fatalf("seed %d: left are %v and %v, %v:\n%s", seed, left, ledger, err, &st.tape)
		}
	}
}

// runOutside counts the instances that run outside of reservations.
func (st *stage) runOutside() (n int) {
	for _, i := range st.aws.Instances {
		if i.ReservationID == "" {
			n++
		}
	}

	return n
}

// happens has something happen before the next pass. Where it is calm, passes and their calls succeed.
func (st *stage) happens(random *rand.Rand, calm bool) {
	what := random.IntN(11)
	if calm {
		what %= 7
	}

	switch what {
	case 0, 1, 2:
		st.waits(1+random.IntN(4), time.Duration(1+random.IntN(6))*time.Minute)
	case 3:
		if n := len(st.slurm.Jobs); n > 0 {
			if j := st.slurm.Jobs[random.IntN(n)]; j.Outcome == "" {
				st.slurm.End(j, "CANCELLED")
			}
		}
	case 4:
		st.aws.Zones[[]string{"use2-az1", "use2-az2"}[random.IntN(2)]] = random.IntN(6)
	case 5: // which takes Slurm longer than it is to the next pass
		st.slurm.PowerDownIdle("gpu")
		st.pass(st.Now().Sub(opens))
	case 7:
		st.dieAt = 1 + random.IntN(5)
	case 8:
		st.lost[[]string{"create ODCR", "add to group", "cancel reservation"}[random.IntN(3)]] = errUnread
	case 9:
		st.fails[[]string{"create ODCR", "add to group", "modify reservation", "update reservation"}[random.IntN(4)]] = errUnread
	case 10: // sync does not run
		st.AdvanceTo(st.Now().Add(time.Duration(random.IntN(30)) * time.Minute))
	}
}
