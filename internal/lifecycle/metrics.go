package lifecycle

import (
	"maps"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/metrics"
)

// nodeStates are the values of the label state, so that there are as many for every cluster.
var nodeStates = []string{"busy", "idle", "booting", "off", "unusable"}

func nodeClass(n capacity.Node) string {
	switch {
	case n.PoweredDown() || n.PoweringDown():
		return "off"
	case n.PoweringUp():
		return "booting"
	case !n.Up():
		return "unusable"
	case n.Base() == "IDLE":
		return "idle"
	}
	return "busy"
}

// Metrics are what a pass saw, for monitoring. Labels have one value for each partition, slot
// and reservation that has a slot; times are Unix's, in seconds of AWS's clock.
func Metrics(snap *capacity.Snapshot, report Report) []metrics.Gauge {
	gauge := func(name, help string) metrics.Gauge { return metrics.Gauge{Name: "pcs_capacity_" + name, Help: help} }
	unix := func(t time.Time) float64 { return float64(t.Unix()) }
	var (
		start     = gauge("reservation_start_timestamp_seconds", "When the reservation that has the slot opens or opened.")
		fence     = gauge("reservation_fence_timestamp_seconds", "When the reservation that has the slot must be free of jobs.")
		end       = gauge("reservation_end_timestamp_seconds", "When the reservation that has the slot ends.")
		instances = gauge("reservation_instances", "Instances of the reservation that has the slot.")
		usable    = gauge("reservation_usable_instances", "Those whose hosts have not failed.")
		open      = gauge("reservation_open", "1 if the reservation that has the slot is active.")
		nodes     = gauge("nodes", "Nodes of the slot by what they do: busy, idle, booting, off, unusable.")
		waiting   = gauge("jobs_waiting", "Jobs of the partition that wait.")
		running   = gauge("jobs_running", "Jobs of the partition that run.")
		problems  = gauge("problems", "Problems that need an administrator, as the last pass of sync found them.")
		byCode    = gauge("problems_by_code", "Problems and notes of the last pass of sync, by code and who has to act: admin, user, note.")
		passed    = gauge("last_pass_timestamp_seconds", "When sync made its last pass.")
		aws       = gauge("last_pass_aws_timestamp_seconds", "When AWS answered all questions of a pass for the last time.")
		slurm     = gauge("last_pass_slurm_answered", "1 if Slurm answered in the last pass.")
		failed    = gauge("roll_over_failed", "1 if sync could not go on with a roll over of the partition; only with roll_over.")
		offset    = gauge("clock_offset_seconds", "AWS's clock minus this machine's.")
	)
	problems.Add(float64(len(report.Problems)))
	type kind struct {
		code     capacity.Code
		severity capacity.Severity
	}
	counts := map[kind]float64{}
	var kinds []kind // in the order of the report
	for _, p := range report.All() {
		k := kind{p.Code, p.Severity}
		if counts[k]++; counts[k] == 1 {
			kinds = append(kinds, k)
		}
	}
	for _, k := range kinds {
		byCode.Add(counts[k], "code", string(k.code), "severity", string(k.severity))
	}
	passed.Add(unix(report.At))
	aws.Add(unix(snap.TakenAt))
	slurm.Add(0)
	if report.Cluster != nil {
		slurm.Samples[0].Value = 1
	}
	offset.Add(snap.ClockOffset.Seconds())
	setbacks := map[string]float64{}
	for _, r := range report.Rolling {
		setbacks[r.Partition] += 0
		if r.Setback.Problem != "" {
			setbacks[r.Partition] = 1
		}
	}
	for _, name := range slices.Sorted(maps.Keys(setbacks)) {
		failed.Add(setbacks[name], "partition", name)
	}
	for _, s := range Slots(snap, report.At) {
		slot := []string{"partition", s.Partition.Name, "slot", s.Slot.Name}
		if r := s.Reservation; r.ID != "" {
			labels := append(slices.Clone(slot), "reservation", r.ID)
			start.Add(unix(s.Window.Start), labels...)
			if !s.Window.Unbounded() {
				fence.Add(unix(s.Window.Fence), labels...)
				end.Add(unix(s.Window.End), labels...)
			}
			instances.Add(float64(r.Size()), labels...)
			usable.Add(float64(r.UsableSize()), labels...)
			open.Add(0, labels...)
			if r.State == capacity.StateActive {
				open.Samples[len(open.Samples)-1].Value = 1
			}
		}
		if report.Cluster == nil {
			continue
		}
		count := map[string]int{}
		names := report.Cluster.SlotNodes(s.Slot.Name)
		seen := 0
		for _, n := range report.Cluster.Nodes {
			if slices.Contains(names, n.Name) {
				count[nodeClass(n)]++
				seen++
			}
		}
		count["off"] += len(names) - seen // Slurm 22.05 hides them
		for _, class := range nodeStates {
			nodes.Add(float64(count[class]), append(slices.Clone(slot), "state", class)...)
		}
	}
	if report.Jobs != nil {
		for _, p := range snap.Partitions {
			count := map[string]int{}
			for i := range report.Jobs {
				if j := &report.Jobs[i]; j.In(p.Name) {
					count[j.State]++
				}
			}
			waiting.Add(float64(count["PENDING"]), "partition", p.Name)
			running.Add(float64(count["RUNNING"]), "partition", p.Name)
		}
	}
	return []metrics.Gauge{start, fence, end, instances, usable, open, nodes, waiting, running, problems, byCode,
		passed, aws, slurm, failed, offset}
}
