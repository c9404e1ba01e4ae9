//go:build !race

package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

var (
	probing = []string{"reserve", "--probe", "-t", "p5.48xlarge", "-n", "2", "--subnet-ids", "subnet-0e200000000000a01"}
	holding = []string{"reserve", "-t", "p5.48xlarge", "-n", "2", "--subnet-ids", "subnet-0e200000000000a01", "--for", "2h"}
)

// The program is run again if it has failed; then `clean` is, when what nobody knows of is old
// enough. What is held then is what a run without trouble holds.
var faultedHolds = []faulted{
	{name: "reserve --probe", workers: 2, sample: []string{"ec2 CreateCapacityReservation 1/killed after", "ec2 CancelCapacityReservation 1/500 before"}, start: holderOf(probing)},
	{name: "reserve --for", workers: 2, sample: []string{"ec2 CreateCapacityReservation 1/cut after", "ec2 CreateCapacityReservation 1/killed before"}, start: holderOf(holding)},
	{name: "release", workers: 2, sample: []string{"ec2 CancelCapacityReservation 1/killed after", "ec2 DescribeCapacityReservations 1/garbage"}, start: holderOf([]string{"release", "HELD"}, holding)},
	{name: "clean", workers: 2, sample: []string{"ec2 CancelCapacityReservation 2/killed after", "slurm squeue 1/garbage"}, start: holderOf([]string{"clean"}, holding)},
}

// holder is a world in which a command holds capacity, or gives it back. Beside what earlier
// commands hold there is what hooks have left over, and what is not ours.
type holder struct {
	commands
	failed bool // the first run
}

func holderOf(args []string, before ...[]string) func(*testing.T) faultedWorld {
	return func(t *testing.T) faultedWorld {
		h := &holder{commands: commands{args: args, before: before, settings: "[reserve]\nenabled = true\n" + partitionsOf(rehearsalConfig)}}
		h.world = func() (*awssim.Scenario, error) {
			s, err := awssim.ParseScenario("rehearsal", []byte(rehearsalWorld))
			if err == nil {
				home := &s.Regions[0]
				home.Capacity = append(home.Capacity, awssim.CapacityScenario{Zone: home.Zones[0].Name, Type: "p5.48xlarge", Count: 20})
			}
			return s, err
		}
		h.start(t, "gpu-", 4)
		return h
	}
}

func (h *holder) reset(t *testing.T) {
	t.Helper()
	h.commands.reset(t)
	mark := ""
	for _, r := range h.live() {
		if r.Tags[capacity.TagHold] == capacity.HoldByHand {
			mark = r.Tags[capacity.TagCluster]
			h.args = slices.Clone(h.args)
			if h.args[0] == "release" {
				h.args[1] = r.ID
			}
		}
	}
	if h.args[0] != "clean" {
		return
	}
	make := func(tags map[string]string) {
		words := []string{"InstanceType=p5.48xlarge", "InstancePlatform=Linux/UNIX", "InstanceCount=2", "AvailabilityZoneId=use2-az1", "InstanceMatchCriteria=targeted",
			"EndDateType=limited", "EndDate=" + h.g.sim.Clock().Now().Add(2*time.Hour).Format(time.RFC3339), "TagSpecifications.1.ResourceType=capacity-reservation"}
		for i, key := range slices.Sorted(maps.Keys(tags)) {
			words = append(words, fmt.Sprintf("TagSpecifications.1.Tag.%d.Key=%s", i+1, key), fmt.Sprintf("TagSpecifications.1.Tag.%d.Value=%s", i+1, tags[key]))
		}
		askEC2(t, h.g.sim, "CreateCapacityReservation", words...)
	}
	make(map[string]string{capacity.TagCluster: mark, capacity.TagHold: "jobs 99/0"})
	make(map[string]string{capacity.TagCluster: mark, capacity.TagHold: capacity.HoldProbe})
	make(map[string]string{capacity.TagCluster: "other", capacity.TagHold: capacity.HoldProbe})
	make(map[string]string{capacity.TagCluster: mark})
	h.g.sim.Clock().Advance(10 * time.Minute)
}

// live are the ODCRs that are paid now.
func (h *holder) live() []awssim.ReservationUse {
	return slices.DeleteFunc(h.g.sim.Reservations("us-east-2"), func(r awssim.ReservationUse) bool {
		return r.Kind != "odcr" || r.State != "active" && r.State != "pending"
	})
}

func (h *holder) run(t *testing.T) string {
	t.Helper()
	o := h.command(t, h.args)
	h.failed = o.status != 0
	return fmt.Sprintf("exit status %d\n%s%s", o.status, o.stdout, o.stderr)
}

func (h *holder) settle(t *testing.T) (said string) {
	t.Helper()
	do := func(args []string) outcome {
		o := h.command(t, args)
		said += fmt.Sprintf("%v: exit status %d\n%s%s", args, o.status, o.stdout, o.stderr)
		return o
	}
	if h.failed {
		if o := do(h.args); o.status != 0 && !strings.Contains(o.stderr, "is nothing that pcs-capacity holds") {
			t.Errorf("it fails when all is well: %s", o.stderr)
		}
	}
	h.g.sim.Clock().Advance(10 * time.Minute)
	if o := do([]string{"clean"}); o.status != 0 {
		t.Errorf("clean fails when all is well: %s", o.stderr)
	}
	return said
}

// seen is what is held, in EC2 and in the ledger, and the instances.
func (h *holder) seen(t *testing.T) (all []string) {
	t.Helper()
	for _, r := range h.live() {
		cluster, _, _ := strings.Cut(r.Tags[capacity.TagCluster], "/") // the id is another one each time
		all = append(all, fmt.Sprintf("%d × %s in %s, %s, held %q for %q", r.Count, r.Type, r.ZoneID, r.Match, r.Tags[capacity.TagHold], cluster))
	}
	slices.Sort(all)
	ledger, err := state.Dir(filepath.Join(h.here(), "state")).Held(h.g.sim.Clock().Now())
	if err != nil {
		t.Error(err)
	}
	for _, entry := range ledger {
		all = append(all, fmt.Sprintf("the ledger has %d × %s", entry.Count, entry.InstanceType))
	}
	return append(all, fmt.Sprint(len(h.g.sim.Instances("us-east-2")), " instances ever"))
}
