package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/explain"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// explainWorld is a partition with one slot: a block that is open for another day or so, and one that follows it.
func explainWorld(t *testing.T) *capacity.Snapshot {
	t.Helper()

	d := func(d time.Duration) capacity.Duration { return capacity.Duration{Duration: d} }
	block := func(id string, start, end time.Duration, s capacity.State) capacity.Reservation {
		return capacity.Reservation{
			ID:           id,
			Kind:         capacity.CapacityBlock,
			State:        s,
			Total:        4,
			Available:    4,
			InstanceType: "p5.48xlarge",
			Platform:     "Linux/UNIX",
			Tenancy:      "default",
			AZID:         "use2-az1",
			Start:        simStart.Add(start),
			End:          simStart.Add(end),
		}
	}

	return &capacity.Snapshot{
		TakenAt: simStart.Add(-time.Minute),
		Region:  "us-east-2",
		Submit:  capacity.Submit{Strict: true, StaleAfter: d(10 * time.Minute)},
		Timing: capacity.Timing{
			DrainMargin:   d(10 * time.Minute),
			BootAllowance: d(10 * time.Minute),
			ReclaimLead:   d(30 * time.Minute),
		},
		Partitions: []capacity.Partition{
			{
				Name:          "gpu",
				Provider:      capacity.ProviderEC2,
				AllowAccounts: []string{"nlp"},
				MinTime:       d(30 * time.Minute),
				OnEnd:         capacity.StopAtEnd,
				ResumeTimeout: d(20 * time.Minute),
				Groups: []capacity.NodeGroup{
					{
						Name: "gpu", InstanceType: "p5.48xlarge", PurchaseOption: capacity.CapacityBlock, MaxNodes: 4,
						Subnets: []capacity.Subnet{
							{ID: "subnet-0e200000000000a01", AZID: "use2-az1", AZ: "us-east-2a"},
						},
						Slots: []capacity.Slot{
							{
								Name:           "gpu",
								Nodes:          "gpu-[1-4]",
								ReservationIDs: []string{"cr-0e2000000000000a1", "cr-0e2000000000000a2"},
							},
						},
					},
				},
			},
		},
		Reservations: []capacity.Reservation{
			block("cr-0e2000000000000a1", -24*time.Hour, 6*time.Hour, capacity.StateActive),
			block("cr-0e2000000000000a2", 10*time.Hour, 58*time.Hour, capacity.StateScheduled),
		},
	}
}

// Each state in which a job can wait, and all else that explain answers, at 100 columns.
// UPDATE_TRANSCRIPTS=1 writes the file anew.
func TestExplainScreens(t *testing.T) {
	const blockEnd = 6 * time.Hour

	now := func(d time.Duration) time.Time { return simStart.Add(d) }
	job := func(changes ...func(j *capacity.Job)) capacity.Job {
		j := capacity.Job{
			Shown:     "7",
			State:     "PENDING",
			Reason:    "Resources",
			Batch:     true,
			Requeue:   true,
			Partition: "gpu",
			Account:   "nlp",
			NumNodes:  2,
			TimeLimit: capacity.Minutes(120),
		}
		for _, change := range changes {
			change(&j)
		}

		return j
	}
	maint := func(j *capacity.Job) {
		j.Reason, j.Start = "ReqNodeNotAvail, Reserved for maintenance", simStart.AddDate(1, 0, 0)
	}
	limit := func(minutes int) func(j *capacity.Job) {
		return func(j *capacity.Job) { j.TimeLimit = capacity.Minutes(minutes) }
	}
	requeues := func(j *capacity.Job) { j.Comment = "on_end=requeue" }
	told := func(text string) func(j *capacity.Job) { return func(j *capacity.Job) { j.AdminComment = text } }
	slurmHeld := func(reason string) func(j *capacity.Job) {
		return func(j *capacity.Job) { j.Held, j.Reason = true, reason }
	}
	held := slurmHeld("JobHeldUser")
	runs := func(j *capacity.Job) {
		j.State, j.Reason, j.Nodes, j.Start, j.End = "RUNNING", "None", []string{
			"gpu-1",
			"gpu-2",
		}, now(
			-time.Hour,
		), now(
			time.Hour,
		)
	}
	boots := func(j *capacity.Job) { j.StateFlag, j.Start = "CONFIGURING", now(-3*time.Minute) }
	refused := "partition gpu refuses this job: account-not-allowed: account \"vision\" may not use the " +
		"reservations of partition gpu; allowed: nlp; change it before you release it"
	notLaunched := "pcs-capacity: nodes gpu-[1-2] were not launched: InsufficientInstanceCapacity: There is no Spot " +
		"capacity available that matches your request; attempt 3, again in 1m"
	failed := state.Record{
		At:        now(-20 * time.Second),
		Hook:      "resume",
		Partition: "gpu",
		Nodes:     "gpu-[1-2]",
		Jobs:      []string{"7"},
		Code:      "InsufficientInstanceCapacity",
		EC2Code:   "InsufficientInstanceCapacity",
		Message:   "There is no capacity available that matches your request",
	}
	only := func(snap *capacity.Snapshot) *capacity.Snapshot { // the second block is not bought
		snap.Partitions[0].Groups[0].Slots[0].ReservationIDs = snap.Partitions[0].Groups[0].Slots[0].ReservationIDs[:1]
		snap.Reservations = snap.Reservations[:1]
		return snap
	}
	world := func() *capacity.Snapshot { return explainWorld(t) }
	at := func(d time.Duration) *capacity.Snapshot {
		snap := world()
		snap.TakenAt = now(d - time.Minute)
		if d >= blockEnd {
			snap.Reservations[0].State = capacity.StateExpired
		}

		return snap
	}
	inTwo := at(blockEnd - 10*time.Minute) // the second one is open already, in a slot of its own
	inTwo.Reservations[1].Start = now(0)
	inTwo.Reservations[1].State = capacity.StateActive
	inTwo.Partitions[0].Groups[0].Slots = []capacity.Slot{
		{Name: "gpu", Feature: "gpu", ReservationIDs: []string{"cr-0e2000000000000a1"}},
		{Name: "more", Feature: "more", ReservationIDs: []string{"cr-0e2000000000000a2"}},
	}
	heedless := world()
	heedless.FenceBypasses = map[string]time.Time{"course": now(5*time.Hour + 20*time.Minute)}
	small := world()
	small.Reservations[0].Total = 1
	dead := world()
	dead.Reservations[0].Unhealthy = 3

	twoPartitions := world()
	twoPartitions.Partitions = append(
		twoPartitions.Partitions,
		capacity.Partition{
			Name: "big", Provider: capacity.ProviderEC2,
			Groups: []capacity.NodeGroup{
				{Name: "big", Slots: []capacity.Slot{{Name: "big", ReservationIDs: []string{"cr-0e2000000000000d4"}}}},
			},
		},
	)
	apart := world()
	apart.Partitions[0].Groups[0].Subnets[0].AZID = "use2-az2"
	images := world() // of RHEL, and the first block is not for that
	images.Reservations[1].Platform = "Red Hat Enterprise Linux"
	images.Partitions[0].Groups[0].Platform = "Red Hat Enterprise Linux"
	drained := world()
	drained.Partitions[0].Groups[0].Slots[0].Count = 4
	drained.Partitions[0].Groups[0].Slots[0].Out = []capacity.NodesOut{
		{Nodes: "gpu-[1-4]", Count: 4, State: "drained", Reason: "bad cable"},
	}
	oneDrained := world()
	oneDrained.Partitions[0].Groups[0].Slots[0].Count = 4
	oneDrained.Partitions[0].Groups[0].Slots[0].Out = []capacity.NodesOut{
		{Nodes: "gpu-2", Count: 1, State: "down", Reason: "Not responding"},
	}
	opening := world()
	opening.Partitions[0].Groups[0].Slots[0].Count = 4
	opening.Partitions[0].Groups[0].Slots[0].Opening = &capacity.Opening{
		Nodes: "gpu-[1-4]",
		Count: 4,
		Until: now(8 * time.Minute),
	}
	tested := world()
	tested.Partitions[0].Groups[0].Slots[0].Count = 4
	tested.Partitions[0].Groups[0].Slots[0].Opening = &capacity.Opening{
		Nodes:  "gpu-[1-4]",
		Count:  4,
		Until:  now(8 * time.Minute),
		Test:   "/etc/test.sh",
		Tested: true,
	}
	unseen := world()
	unseen.Reservations = nil

	onDemand := func() *capacity.Snapshot {
		snap := world()
		snap.Reservations, snap.Partitions[0].OnEnd = nil, capacity.RequeueAtEnd
		snap.Partitions[0].ResumeTimeout = capacity.Duration{}
		g := &snap.Partitions[0].Groups[0]
		g.PurchaseOption, g.Slots[0].ReservationIDs = capacity.OnDemand, nil

		return snap
	}
	holds := func(h *capacity.Holding) *capacity.Snapshot { // capacity, for jobs on PCS
		snap := onDemand()
		snap.Partitions[0].Provider = capacity.ProviderPCS
		snap.Partitions[0].Groups[0].Reserve = capacity.ReservePerJob
		snap.Partitions[0].Groups[0].Slots[0].Holding = h

		return snap
	}
	held7 := &capacity.Holding{AZID: "use2-az1", Count: 2, Free: 1, Jobs: []string{"7"}}
	paused7 := &capacity.Holding{Paused: map[string]time.Time{"7": now(4 * time.Minute)}}
	unread := holds(nil)
	unread.Problems.Add(capacity.Problemf(capacity.HoldGroupUnread, capacity.Subject{Slot: "gpu"},
		"", "reading Capacity Reservation group pcs-capacity-ml-gpu: NotFoundException"))

	requeued := func(why string) func(j *capacity.Job) {
		return func(j *capacity.Job) {
			j.Restarts, j.Reason, j.AdminComment = 1, "BeginTime", "pcs-capacity: requeued at 2026-11-20 17:18 UTC: "+
				why
		}
	}
	begins := func(d time.Duration) func(j *capacity.Job) {
		return func(j *capacity.Job) { j.Eligible = now(d) }
	}
	fits := func(j *capacity.Job) { j.TimeMin = capacity.Minutes(31) }
	ends := func(d time.Duration) func(j *capacity.Job) {
		return func(j *capacity.Job) { j.TimeLimit, j.End = capacity.Minutes(380), now(d) }
	}

	const (
		atFence = "jobs on cr-0e2000000000000a1 must end by 2026-11-20 17:20 UTC; it goes on in " +
			"cr-0e2000000000000a2, which opens at 2026-11-20 22:00 UTC"
		interrupted = "EC2 takes gpu-1 of reservation cr-0e2000000000000a1 back within 2 minutes"
	)

	node := func(state, reason string) capacity.Node {
		return capacity.Node{Name: "gpu-1", State: state, Reason: reason}
	}

	const off = "IDLE+CLOUD+POWERED_DOWN"

	ofJob := func(j capacity.Job, snap *capacity.Snapshot, d time.Duration, records ...state.Record) explain.Explanation {
		return explain.OfJob(j, snap, records, now(d))
	}
	settings := capacity.Settings{
		Partitions: []capacity.PartitionSettings{
			{Name: "gpu", Provider: capacity.ProviderEC2, Groups: []capacity.GroupSettings{{Name: "gpu"}}},
		},
	}
	ofNode := func(n capacity.Node, snap *capacity.Snapshot, d time.Duration, records ...state.Record) explain.Explanation {
		return explain.OfNode(n, settings, false, snap, records, now(d))
	}
	guarded := func(n capacity.Node, kind capacity.GuardKind) explain.Explanation {
		return explain.OfNode(n, settings, kind == capacity.GuardSurplus, world(), nil, now(0))
	}

	screens := []struct {
		name string
		e    explain.Explanation
		code capacity.Code
	}{
		{
			"a job waits for the block to open",
			ofJob(job(maint), at(-25*time.Hour), -25*time.Hour),
			capacity.WaitsToOpen,
		},
		{"it waits for free nodes", ofJob(job(), world(), 0), capacity.WaitsInQueue},
		{"its nodes are drained", ofJob(job(), drained, 0), capacity.NodesOutOfService},
		{"the nodes of its block boot", ofJob(job(maint), opening, 0), capacity.WaitsToOpen},
		{"they are tested", ofJob(job(maint), tested, 0), capacity.WaitsToOpen},
		{
			"it waits for another job",
			ofJob(job(func(j *capacity.Job) { j.Reason = "Dependency" }), world(), 0),
			capacity.WaitsByRule,
		},
		{"the open block is too small, the next one is not", ofJob(job(), small, 0), capacity.WaitsToOpen},
		{
			"its constraint keeps it from the open block",
			ofJob(job(maint, func(j *capacity.Job) { j.Constraint = "gpu" }), inTwo, blockEnd-10*time.Minute),
			capacity.Constrained,
		},
		{
			"it has nothing to do with slots",
			ofJob(job(func(j *capacity.Job) { j.Constraint = "gpu&fast" }), world(), 0),
			capacity.WaitsInQueue,
		},
		{"behind the fence, the next block takes it", ofJob(job(maint, limit(400)), world(), 0), capacity.BehindFence},
		{"it never fits", ofJob(job(maint, limit(9000)), world(), 0), capacity.TooLong},
		{
			"its owner holds it, and it may start with less",
			ofJob(job(maint, requeues, held, told(capacity.AdminNote{
				Kind:   capacity.NoteStated,
				Stated: capacity.Minutes(9000),
			}.String())), world(), 0),
			capacity.Held,
		},
		{
			"it never fits, and goes on from a checkpoint",
			ofJob(job(maint, limit(9000), requeues), world(), 0),
			capacity.WaitsInQueue,
		},
		{
			"it has no limit, and nobody set one",
			ofJob(job(maint, func(j *capacity.Job) { j.TimeLimit = capacity.NoLimit }), world(), 0),
			capacity.TooLong,
		},
		{
			"its account is not allowed",
			ofJob(job(func(j *capacity.Job) { j.Account = "vision" }), world(), 0),
			capacity.AccountNotAllowed,
		},
		{"Slurm knows no account of it", ofJob(job(func(j *capacity.Job) {
			j.Reason = "Job's account not known, so it can't use this partition (gpu allows nlp)"
		}), world(), 0), capacity.WaitsByRule},
		{
			"it names a reservation that is not the partition's",
			ofJob(
				job(func(j *capacity.Job) { j.Comment = "capacity_reservation_id=cr-0e2000000000000ff" }),
				world(),
				0,
			),
			capacity.UnknownReservation,
		},
		{
			"it asks for more nodes than there are",
			ofJob(job(func(j *capacity.Job) { j.NumNodes = 8 }), world(), 0),
			capacity.TooManyNodes,
		},
		{"refused at launch and held", ofJob(job(held, told("pcs-capacity: "+refused)), world(), 0), capacity.Held},
		{"held by somebody else", ofJob(job(held), world(), 0), capacity.Held},
		{
			"held by an administrator",
			ofJob(job(held, func(j *capacity.Job) { j.Reason = "JobHeldAdmin" }), world(), 0),
			capacity.Held,
		},
		{
			"Slurm held it after a failed launch",
			ofJob(job(slurmHeld("launch_failed_requeued_held"), told(notLaunched)), world(), 0),
			capacity.Held,
		},
		{"Slurm held it after many", ofJob(job(slurmHeld("JobHoldMaxRequeue")), world(), 0), capacity.Held},
		{
			"Slurm held it with its reservation",
			ofJob(job(slurmHeld("Reservation_maint_was_deleted")), world(), 0),
			capacity.Held,
		},
		{"Slurm held it for a reason of its own", ofJob(job(slurmHeld("something new")), world(), 0), capacity.Held},
		{
			"in a reservation that heeds no fence",
			ofJob(job(runs, func(j *capacity.Job) { j.Reservation = "course" }), heedless, 0),
			capacity.Runs,
		},
		{
			"it depends on a job that failed",
			ofJob(job(func(j *capacity.Job) { j.Reason = "DependencyNeverSatisfied" }), world(), 0),
			capacity.NeverByRule,
		},
		{
			"another cluster of the federation runs it",
			ofJob(job(func(j *capacity.Job) { j.State = capacity.Revoked }), world(), 0),
			capacity.Ended,
		},
		{
			"held at the end of a block",
			ofJob(
				job(
					held,
					told(
						"pcs-capacity: requeued at 2026-11-20 17:18 UTC: jobs on cr-0e2000000000000a1 must end by "+
							"2026-11-20 17:20 UTC; release it to go on",
					),
				),
				at(blockEnd),
				blockEnd,
			),
			capacity.Held,
		},
		{
			"its launch failed",
			ofJob(
				job(
					told(notLaunched),
					func(j *capacity.Job) { j.Reason, j.Eligible = "BeginTime", now(40*time.Second) },
				),
				world(),
				0,
				failed,
			),
			capacity.LaunchFailed,
		},
		{
			"its launch failed, and the records are not for everyone",
			ofJob(job(told(notLaunched)), world(), 0),
			capacity.LaunchFailed,
		},
		{
			"--begin",
			ofJob(job(func(j *capacity.Job) { j.Reason, j.Eligible = "BeginTime", now(2*time.Hour) }), world(), 0),
			capacity.WaitsToBegin,
		},
		{
			"Slurm pauses after a requeue",
			ofJob(
				job(begins(2*time.Minute), func(j *capacity.Job) { j.Restarts, j.Reason = 1, "BeginTime" }),
				world(),
				0,
			),
			capacity.WaitsToBegin,
		},
		{
			"requeued in front of the fence",
			ofJob(
				job(limit(400), requeued(atFence), begins(blockEnd-40*time.Minute)),
				at(blockEnd-41*time.Minute),
				blockEnd-41*time.Minute,
			),
			capacity.NextBlock,
		},
		{
			"requeued, and the pause after that goes on",
			ofJob(job(requeued(interrupted), begins(time.Minute)), world(), 0),
			capacity.WaitsToBegin,
		},
		{
			"the block has ended, the next one comes",
			ofJob(
				job(
					maint,
					told(
						"pcs-capacity: requeued at 2026-11-20 17:18 UTC: jobs on cr-0e2000000000000a1 must end by "+
							"2026-11-20 17:20 UTC; it goes on in cr-0e2000000000000a2, which opens at 2026-11-20 "+
							"22:00 UTC",
					),
				),
				at(blockEnd),
				blockEnd,
			),
			capacity.WaitsToOpen,
		},
		{
			"the fence has passed, the next one comes",
			ofJob(job(maint), at(blockEnd-10*time.Minute), blockEnd-10*time.Minute),
			capacity.WaitsToOpen,
		},
		{"the last block has ended", ofJob(job(maint), only(at(blockEnd)), blockEnd), capacity.NoReservation},
		{
			"its comment has a value that cannot be",
			ofJob(job(func(j *capacity.Job) { j.Comment = "on_end=never" }), world(), 0),
			capacity.BadComment,
		},
		{
			"nothing matches its comment",
			ofJob(job(func(j *capacity.Job) { j.Comment = "instance_type=p4d.24xlarge" }), world(), 0),
			capacity.NoMatchingCapacity,
		},
		{
			"it names a reservation of another partition",
			ofJob(
				job(func(j *capacity.Job) { j.Comment = "capacity_reservation_id=cr-0e2000000000000d4" }),
				twoPartitions,
				0,
			),
			capacity.WrongPartition,
		},
		{
			"it asks to hold capacity where that is not done",
			ofJob(job(func(j *capacity.Job) { j.Comment = "capacity=reserve" }), world(), 0),
			capacity.NoMatchingCapacity,
		},
		{"the reservation is in another zone", ofJob(job(), apart, 0), capacity.Mismatched},
		{"the open block is for another platform than the image", ofJob(job(maint), images, 0), capacity.WaitsToOpen},
		{
			"it names that block",
			ofJob(job(func(j *capacity.Job) { j.Comment = "capacity_reservation_id=cr-0e2000000000000a1" }), images, 0),
			capacity.Mismatched,
		},
		{"EC2 did not describe the reservation", ofJob(job(), unseen, 0), capacity.ReservationNotKnown},
		{"hosts have failed", ofJob(job(), dead, 0), capacity.WaitsForHosts},
		{
			"a partition that is not ours",
			ofJob(job(func(j *capacity.Job) { j.Partition = "cpu" }), world(), 0),
			capacity.NotManaged,
		},
		{"its nodes boot", ofJob(job(runs, boots), world(), 0), capacity.Boots},
		{"its nodes boot, and nobody knows for how long", ofJob(job(runs, boots), onDemand(), 0), capacity.Boots},
		{"it runs", ofJob(job(runs), world(), 0), capacity.Runs},
		{
			"it runs, and is requeued at the end",
			ofJob(job(runs, requeues, ends(blockEnd-40*time.Minute)), world(), 0),
			capacity.Runs,
		},
		{"it runs, and its owner's limit ends it before that", ofJob(job(runs, requeues), world(), 0), capacity.Runs},
		{
			"it is suspended",
			ofJob(job(runs, requeues, func(j *capacity.Job) { j.State = "SUSPENDED" }), world(), 0),
			capacity.Runs,
		},
		{"it runs on demand, where no fence is", ofJob(job(runs), onDemand(), 0), capacity.Runs},
		{
			"it runs, fitted to the fence",
			ofJob(job(runs, fits, ends(blockEnd-40*time.Minute-30*time.Second)), world(), 0),
			capacity.Runs,
		},
		{"it runs, and may be raised", ofJob(job(runs, fits), world(), 0), capacity.Runs},
		{
			"it runs, and its limit was lowered",
			ofJob(job(runs, ends(blockEnd-40*time.Minute)), world(), 0),
			capacity.Runs,
		},
		{
			"a component of a heterogeneous job waits",
			ofJob(job(func(j *capacity.Job) { j.Shown, j.HetJobID = "7+1", 7 }), world(), 0),
			capacity.WaitsInQueue,
		},
		{"it waits with a limit that is fitted", ofJob(job(fits), world(), 0), capacity.WaitsInQueue},
		{
			"capacity is held for it",
			ofJob(job(), holds(held7), 0),
			capacity.WaitsInQueue,
		},
		{
			"capacity is held for another job",
			ofJob(job(func(j *capacity.Job) { j.Shown = "8" }), holds(held7), 0),
			capacity.WaitsForHold,
		},
		{
			"Slurm did not use what was held for it",
			ofJob(job(maint), holds(paused7), 0),
			capacity.WaitsForHold,
		},
		{
			"no zone has room for it",
			ofJob(job(maint, told(capacity.AdminNote{
				Kind: capacity.NoteNoRoom,
				Text: "InsufficientInstanceCapacity: There is no capacity available; sync tries again in each pass",
			}.String())), holds(nil), 0),
			capacity.WaitsForHold,
		},
		{"nothing can be held", ofJob(job(maint), unread, 0), capacity.WaitsForHold},
		{
			"nothing is held for a job in a reservation",
			ofJob(job(func(j *capacity.Job) { j.Reservation = "course" }), holds(nil), 0),
			capacity.WaitsForHold,
		},
		{"nothing is held without sync", ofJob(job(maint), holds(held7), 2*time.Hour), capacity.WaitsForHold},
		{"it is over", ofJob(job(func(j *capacity.Job) { j.State = "TIMEOUT" }), world(), 0), capacity.Ended},
		{"sync does not run", ofJob(job(), world(), 2*time.Hour), capacity.WaitsInQueue},

		{"a node is powered down", ofNode(node(off, ""), world(), 0), capacity.PoweredDown},
		{
			"it waits for the block to open",
			ofNode(node(off, ""), at(-25*time.Hour), -25*time.Hour),
			capacity.WaitsToOpen,
		},
		{
			"it is behind the fence",
			ofNode(node("IDLE", ""), at(blockEnd-10*time.Minute), blockEnd-10*time.Minute),
			capacity.Fenced,
		},
		{"its last block has ended", ofNode(node(off, ""), only(at(blockEnd)), blockEnd), capacity.NoReservation},
		{
			"its launch has failed",
			ofNode(
				node("IDLE+CLOUD+POWERING_DOWN", "InsufficientInstanceCapacity: There is no capacity"),
				world(),
				0,
				failed,
			),
			capacity.LaunchFailed,
		},
		{
			"its slurmd has died",
			ofNode(node("DOWN+CLOUD+NOT_RESPONDING", "Not responding"), world(), 0),
			capacity.NotUsable,
		},
		{"it is launched on demand", ofNode(node(off, ""), onDemand(), 0), capacity.PoweredDown},
		{"it is up on demand", ofNode(node("IDLE", ""), onDemand(), 0), capacity.Runs},
		{"it boots", ofNode(node("IDLE+CLOUD+POWERING_UP", ""), world(), 0), capacity.Boots},
		{"it is up, and waits for the others", ofNode(node("IDLE+CLOUD", ""), opening, 0), capacity.WaitsToOpen},
		{
			"it is drained",
			ofNode(node("IDLE+DRAIN", "its instance is not what the reservation is"), world(), 0),
			capacity.NotUsable,
		},
		{"it is up", ofNode(node("MIXED", ""), world(), 0), capacity.Runs},
		{"there is no instance for it", guarded(node(off, ""), capacity.GuardSurplus), capacity.SurplusNode},
		{
			"no capacity is held for it",
			explain.OfNode(node(off, ""), settings, true, holds(nil), nil, now(0)),
			capacity.WaitsForHold,
		},
		{
			"a node that is not ours",
			ofNode(capacity.Node{Name: "cpu-1", State: "IDLE"}, world(), 0),
			capacity.NotManaged,
		},

		{
			"a partition is open",
			explain.OfPartition(world().Partitions[0], 3, nil, world(), now(0)),
			capacity.TakesJobs,
		},
		{
			"capacity is held for a job there",
			explain.OfPartition(holds(held7).Partitions[0], 1, nil, holds(held7), now(0)),
			capacity.TakesJobs,
		},
		{
			"nothing is held there without sync",
			explain.OfPartition(holds(nil).Partitions[0], 1, nil, holds(nil), now(time.Hour)),
			capacity.WaitsForHold,
		},
		{
			"it has trouble",
			explain.OfPartition(
				world().Partitions[0],
				3,
				[]capacity.Problem{
					{
						Severity: capacity.Admin,
						Sentence: "partition gpu: 3 of 4 hosts of cr-0e2000000000000a1 have failed, 1 are usable; " +
							"open a case with AWS Support",
					},
				},
				dead,
				now(0),
			),
			capacity.TakesJobs,
		},
		{
			"all of its nodes are drained",
			explain.OfPartition(drained.Partitions[0], 3, nil, drained, now(0)),
			capacity.NodesOutOfService,
		},
		{
			"one of its nodes is down",
			explain.OfPartition(oneDrained.Partitions[0], 3, nil, oneDrained, now(0)),
			capacity.TakesJobs,
		},
		{
			"its nodes boot",
			explain.OfPartition(opening.Partitions[0], 3, nil, opening, now(0)),
			capacity.WaitsToOpen,
		},
		{
			"it waits for its block",
			explain.OfPartition(world().Partitions[0], 3, nil, at(-25*time.Hour), now(-25*time.Hour)),
			capacity.WaitsToOpen,
		},
		{
			"between two blocks",
			explain.OfPartition(
				world().Partitions[0],
				3,
				nil,
				at(blockEnd-10*time.Minute),
				now(blockEnd-10*time.Minute),
			),
			capacity.Fenced,
		},
		{
			"after the last one",
			explain.OfPartition(only(at(blockEnd)).Partitions[0], 3, nil, only(at(blockEnd)), now(blockEnd)),
			capacity.NoReservation,
		},
	}

	var out strings.Builder

	shown := map[capacity.Code]bool{
		capacity.OK:             true, // WaitsInQueue
		capacity.NotOpen:        true, // WaitsToOpen, NextBlock
		capacity.NoPlace:        true, // WaitsToOpen: it waits for the larger reservation
		capacity.StartsNow:      true, // of `when`
		capacity.StartsOnDemand: true, // of `when`
		// The filter alone knows the groups of a user.
	}
	for _, s := range screens {
		shown[s.code] = true
		if s.e.Code != s.code {
			t.Errorf("%s: code %s, want %s", s.name, s.e.Code, s.code)
		}

		fmt.Fprintf(&out, "-- %s --\n", s.name)

		if err := showExplanation(&terminal.Terminal{Out: &out, Format: terminal.Table, Width: 100}, s.e); err != nil {
			t.Error(err)
		}
	}

	for _, m := range capacity.Codes {
		if (m.At[0] == capacity.AtSubmission || m.At[0] == capacity.AtExplain) && !shown[m.Code] {
			t.Errorf("no screen shows %s", m.Code)
		}
	}

	const path = "testdata/explain.golden"
	if os.Getenv("UPDATE_TRANSCRIPTS") != "" {
		if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	want, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}

	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(out.String(), "\n")); diff != "" {
		t.Error(diff)
	}

	for line := range strings.Lines(out.String()) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > 100 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}
