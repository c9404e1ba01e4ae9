package lifecycle

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/metrics"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// Report says what a pass did, and what it found wrong.
type Report struct {
	At     time.Time `json:"at"`               // AWS's time of the pass
	DryRun bool      `json:"dry_run,omitzero"` // the pass changed nothing
	// Done are the changes in order, made or (DryRun) planned; empty if there were none.
	Done []Done `json:"done"`
	// Problems are what the pass could not read or do, and what people should know.
	capacity.Problems `json:"problems"`

	NoAWS  bool `json:"-"` // some call to AWS was not answered
	Failed bool `json:"-"` // the pass did not do all that it had to
	// Cluster is Slurm as it was before the pass changed it; nil if it did not answer.
	Cluster *Cluster `json:"-"`
	// Jobs are those in our partitions or on our nodes; nil if they were not read.
	Jobs []capacity.Job `json:"-"`
	// SharedPartitions are Sources.SharedPartitions for the next pass.
	SharedPartitions []string `json:"-"`
	// Rolling are the node groups of partitions that roll over by themselves, as the pass left them.
	Rolling []Rolling `json:"-"`
}

// Done is one change, or an attempted one.
type Done struct {
	// Do is stable, for scripts: create-fence, update-fence, replace-fence, delete-fence, the same with wait and
	// surplus, raise-limit, lower-limit, set-limit, requeue-job, hold-job, tell-job, tell-owner, end-hold, retry-job,
	// power-up, power-down, test-nodes, cancel-test, replace-node, drain-node, end-instance, release, return-nodes,
	// set-up-slot, remove-slot.
	Do      string `json:"do"`
	Slot    string `json:"slot,omitempty"`
	Job     string `json:"job,omitempty"`
	Message string `json:"message"`         // a sentence for a person
	Error   string `json:"error,omitempty"` // why it failed; "" if it did not
}

// String returns the sentence, with the error if there was one.
func (d Done) String() string {
	if d.Error != "" {
		return d.Message + ": " + d.Error
	}
	return d.Message
}

// recently bounds the age of the failed launches that are reported.
const recently = time.Hour

// PartitionProblems returns what people should know about their partitions: what the snapshot has of them, failed
// launches, and waiting jobs that can never start, which only their owners can change. A partition and its spare one
// share them. records are the hooks' records, oldest first.
func PartitionProblems(
	snap *capacity.Snapshot, jobs []capacity.Job, records []state.Record, now time.Time,
) (all []capacity.Problem) {
	for _, p := range snap.Partitions {
		names := append(p.SlurmNames(), cmp.Or(p.Lender, p.Name))
		for _, said := range snap.Problems {
			if slices.Contains(names, said.About.Partition) {
				all = append(all, said)
			}
		}

		all = append(all, failedLaunches(p, records, now)...)
		all = append(all, neverStart(p, jobs, snap, now)...)
	}

	return all
}

// checkReservations reports a partition's reservations with failed hosts or networks, those that were not paid for or
// that EC2 could not provide, and those that have ended.
func checkReservations(s View) (all []capacity.Problem) {
	for _, p := range s.Snap.Partitions {
		var over, failed []string
		for _, r := range s.Snap.Reservations {
			about := capacity.Subject{
				Partition:   p.Name,
				Reservation: r.ID,
			}
			named := fmt.Sprintf("%s (%s)", r.ID, r.State)
			switch {
			case !p.HasReservation(r.ID):
			case r.IsLiveAt(s.Now):
				if r.Unhealthy > 0 {
					all = append(all, capacity.Problemf(capacity.HostFailed, about,
						"open a case with AWS Support",
						"partition %s: %d of %d hosts of %s have failed, %d are usable", p.Name, r.Unhealthy, r.Size(),
						r.ID, r.UsableSize()))
				}

				if r.Interconnect {
					all = append(all, capacity.Problemf(capacity.HostImpaired, about,
						"open a case with AWS Support",
						"partition %s: EC2 reports that the network between the instances of %s is impaired", p.Name,
						r.ID))
				}
			case r.State.IsLive() || r.State == capacity.StateExpired || r.State == capacity.StateCancelled:
				over = append(over, named)
			default:
				failed = append(failed, named)
			}
		}

		if len(failed) > 0 {
			all = append(all, capacity.Problemf(capacity.NeverOpens, capacity.Subject{Partition: p.Name}, "",
				"partition %s: these reservations will never open; remove them from the settings: %s", p.Name,
				strings.Join(failed, ", ")))
		}

		if len(over) > 0 {
			all = append(all, capacity.Problemf(capacity.ReservationEnded, capacity.Subject{Partition: p.Name}, "",
				"partition %s: these reservations have ended and can be removed from the settings: %s", p.Name,
				strings.Join(over, ", ")))
		}
	}

	return all
}

// failedLaunches reports the nodes whose last launch failed, those of one launch together.
func failedLaunches(p capacity.Partition, records []state.Record, now time.Time) []capacity.Problem {
	// The last launch of a node counts: after one that went well, it is not reported.
	last := map[string]int{} // the record by node
	for i, r := range records {
		names, err := hostlist.Expand(r.Nodes)
		if r.Hook != "resume" || err != nil {
			continue
		}

		for _, name := range names {
			last[name] = i
		}
	}

	failures := map[int][]string{} // nodes by record
	for name, i := range last {
		r := records[i]
		if r.Code != string(capacity.OK) && r.Partition == cmp.Or(p.Lender, p.Name) && now.Sub(r.At) <= recently {
			failures[i] = append(failures[i], name)
		}
	}

	var all []capacity.Problem
	for _, i := range slices.Sorted(maps.Keys(failures)) {
		r := records[i]
		nodes := hostlist.Compress(failures[i])

		failed := capacity.Problemf(capacity.LaunchFailed, capacity.Subject{Partition: p.Name, Node: nodes}, "",
			"partition %s: nodes %s failed to launch at %s: %s: %s", p.Name, nodes, capacity.FormatUTC(r.At), r.Code,
			r.Message)
		if capacity.Code(r.Code).Severity() == capacity.User {
			failed.Severity = capacity.User
		}

		all = append(all, failed)
	}

	return all
}

// neverStart finds the partition's waiting jobs that would be refused today and therefore never start, unless they
// also list a partition that is not ours.
func neverStart(p capacity.Partition, jobs []capacity.Job, snap *capacity.Snapshot, now time.Time) []capacity.Problem {
	var all []capacity.Problem

	w := waiter{snap, now, nil, map[jobKey]stuckReason{}}
	for i := range jobs { // by index: copying each job costs more than the check
		j := &jobs[i]
		if !j.CanStart() || !slices.ContainsFunc(p.SlurmNames(), j.InPartition) {
			continue
		}

		if v := w.judge(j).refused; v.Refused {
			all = append(all,
				capacity.Problemf(capacity.NeverStarts, capacity.Subject{Partition: p.Name, Job: j.Shown}, "",
					"job %s %s: %s", j.Shown, v.Outlook(), v.Sentence))
		}
	}

	return all
}

// nodeStates are the values of the label state, so every cluster has the same ones.
var nodeStates = []string{"busy", "idle", "booting", "off", "unusable"}

func nodeClass(n capacity.Node) string {
	switch {
	case n.PoweredDown() || n.PoweringDown():
		return "off"
	case n.PoweringUp():
		return "booting"
	case !n.IsUp():
		return "unusable"
	case n.BaseState() == "IDLE":
		return "idle"
	}

	return "busy"
}

// Metrics returns the gauges of a pass. Labels have one value for each partition, slot and reservation that has a slot.
// Times are in seconds of Unix, by AWS's clock.
func Metrics(snap *capacity.Snapshot, report Report) metrics.Gauges {
	g := gauges{}
	g.add("problems", "Problems that need an administrator, as the last pass of sync found them.",
		len(report.Texts(capacity.Admin)))

	type kind struct {
		code     capacity.Code
		severity capacity.Severity
	}
	for k, same := range groupBy(report.All(), func(p capacity.Problem) kind { return kind{p.Code, p.Severity} }) {
		g.add("problems_by_code",
			"Problems and notes of the last pass of sync, by code and who has to act: admin, user, note.",
			len(same), "code", string(k.code), "severity", string(k.severity))
	}

	g.addTime("last_pass_timestamp_seconds", "When sync made its last pass.", report.At)
	g.addTime("last_pass_aws_timestamp_seconds", "When AWS last answered all questions of a pass.", snap.TakenAt)
	g.addBool("last_pass_slurm_answered", "1 if Slurm answered in the last pass.", report.Cluster != nil)
	metrics.Gauges(g).Add("pcs_capacity_clock_offset_seconds", "AWS's clock minus this machine's.",
		snap.ClockOffset.Seconds())

	for _, s := range snap.SlotStates(report.At) {
		slot := []string{"partition", s.Partition.Name, "slot", s.Slot.Name}
		if id := s.Reservation.ID; id != "" {
			g.addReservation(s, slices.Concat(slot, []string{"reservation", id}))
		}

		if report.Cluster != nil {
			g.addNodes(report.Cluster, s.Slot.Name, slot)
		}
	}

	if report.Jobs != nil {
		for _, p := range snap.Partitions {
			for _, name := range p.SlurmNames() {
				g.addJobs(report.Jobs, name)
			}
		}
	}

	return metrics.Gauges(g)
}

// gauges adds this program's prefix to names.
type gauges metrics.Gauges

func (g gauges) add(name, help string, value int, labels ...string) {
	metrics.Gauges(g).Add("pcs_capacity_"+name, help, float64(value), labels...)
}

func (g gauges) addTime(name, help string, t time.Time, labels ...string) {
	g.add(name, help, int(t.Unix()), labels...)
}

func (g gauges) addBool(name, help string, is bool, labels ...string) {
	g.add(name, help, map[bool]int{true: 1}[is], labels...)
}

func (g gauges) addReservation(s capacity.SlotState, labels []string) {
	r := s.Reservation
	g.addTime("reservation_start_timestamp_seconds",
		"When the reservation that has the slot opens or opened.", s.Window.Start, labels...)

	if !s.Window.Unbounded() {
		g.addTime("reservation_fence_timestamp_seconds",
			"When the reservation that has the slot must be free of jobs.", s.Window.Fence, labels...)
		g.addTime("reservation_end_timestamp_seconds",
			"When the reservation that has the slot ends.", s.Window.End, labels...)
	}

	g.add("reservation_instances", "Instances of the reservation that has the slot.", r.Size(), labels...)
	g.add("reservation_usable_instances", "Those whose hosts have not failed.", r.UsableSize(), labels...)
	g.addBool("reservation_open", "1 if the reservation that has the slot is active.",
		r.State == capacity.StateActive, labels...)
}

func (g gauges) addNodes(cluster *Cluster, slot string, labels []string) {
	names := cluster.SlotNodes(slot)

	visible := cluster.visibleNodes(names)
	count := map[string]int{"off": len(names) - len(visible)} // Slurm 22.05 hides nodes that are off
	for _, n := range visible {
		count[nodeClass(n)]++
	}

	for _, class := range nodeStates {
		g.add("nodes", "Nodes of the slot by what they do: busy, idle, booting, off, unusable.", count[class],
			slices.Concat(labels, []string{"state", class})...)
	}
}

func (g gauges) addJobs(jobs []capacity.Job, partition string) {
	waiting := 0
	running := 0
	for i := range jobs { // by index: copying each job costs more than the check
		switch j := &jobs[i]; {
		case !j.InPartition(partition):
		case j.CanStart():
			waiting++
		case j.State == "RUNNING":
			running++
		}
	}

	g.add("jobs_waiting", "Jobs of the partition that wait.", waiting, "partition", partition)
	g.add("jobs_running", "Jobs of the partition that run.", running, "partition", partition)
}
