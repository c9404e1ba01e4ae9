package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/canary"
)

// asked is a PCS cluster with a node group of two nodes for nextBlock, and a Slurm whose
// scontrol answers from files: what PCS does in Slurm, tests write there. The lab of the
// packages' tests asks a real one.
type asked struct {
	*restricted
	start, end time.Time
}

const askedConfig = "ClusterName = ml\nSLURM_VERSION = 25.11.0\nResumeTimeout = 1800 sec\n"

func newAsked(t *testing.T) *asked {
	t.Helper()
	a := &asked{restricted: newRestricted(t, awssim.NewClock(simStart, 0))}
	a.mustAdmin(setupArgs(nextBlock, "--max-nodes", "2")...)
	a.start, a.end = simStart.AddDate(0, 0, 5).Truncate(24*time.Hour).Add(11*time.Hour+30*time.Minute), simStart.AddDate(0, 0, 12).Truncate(24*time.Hour).Add(11*time.Hour+30*time.Minute)
	a.write("config", askedConfig)
	a.reservation("gpu-a-scheduled", "MAINT,SPEC_NODES")
	a.nodes("IDLE+CLOUD+MAINTENANCE+POWERED_DOWN", "")
	bin := filepath.Join(a.dir, "bin")
	script := `#!/bin/sh
cd ` + a.dir + `
case "$*" in
--version) echo slurm 25.11.0 ;;
*"show config") cat config ;;
*"show reservation") cat reservations ;;
*"show node"*) cat nodes ;;
"create reservation"*) echo "ReservationName=pcs-capacity-canary StartTime=1 EndTime=2 Nodes=gpu-a-[1-2] Flags=MAINT Users=root State=INACTIVE" >>reservations ;;
delete*) sed -i /pcs-capacity-canary/d reservations ;;
*state=DRAIN*) sed -i '1s/State=IDLE+CLOUD /State=IDLE+CLOUD+DRAIN /; 1s/$/ Reason=pcs-capacity canary [root@2026-11-20T12:00:00]/' nodes ;;
*state=RESUME*) sed -i '1s/+DRAIN//; 1s/ Reason.*//' nodes ;;
*) echo "unexpected: $*" >&2; exit 1 ;;
esac
`
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "scontrol"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	a.env = append(a.env, "PATH="+bin+":"+os.Getenv("PATH"))
	return a
}

// reservation is the only one in Slurm but for canary's; "" for none.
func (a *asked) reservation(name, flags string) {
	text := ""
	if was, err := os.ReadFile(filepath.Join(a.dir, "reservations")); err == nil && strings.Contains(string(was), "pcs-capacity-canary") {
		text = "ReservationName=pcs-capacity-canary StartTime=1 EndTime=2 Nodes=gpu-a-[1-2] Flags=MAINT Users=root State=INACTIVE\n"
	}
	if name != "" {
		text += fmt.Sprintf("ReservationName=%s StartTime=%d EndTime=%d Nodes=gpu-a-[1-2] Flags=%s Users=root State=ACTIVE\n", name, a.sim.Clock().Now().Unix(), a.sim.Clock().Now().Unix()+120, flags)
	}
	a.write("reservations", text)
}

func (a *asked) nodes(state, reason string) {
	var b strings.Builder
	for n := 1; n <= 2; n++ {
		fmt.Fprintf(&b, "NodeName=gpu-a-%d NodeAddr=127.0.0.1 NodeHostName=gpu-a-%d State=%s RealMemory=2000 Partitions=gpu%s\n", n, n, state, reason)
	}
	a.write("nodes", b.String())
}

// opens lets the block open, with instances launched after so long.
func (a *asked) opens(launched time.Duration) {
	a.Helper()
	a.sim.Clock().Set(a.start.Add(launched))
	for n := 1; n <= 2; n++ {
		if _, err := a.sim.LaunchForNodeGroup("ml", "gpu-a", fmt.Sprintf("gpu-a-%d", n)); err != nil {
			a.Fatal(err)
		}
	}
	a.sim.Clock().Set(a.start.Add(20 * time.Minute))
	a.reservation("", "")
	a.nodes("IDLE+CLOUD", "")
}

func (a *asked) ends() {
	a.sim.Clock().Set(a.end.Add(5 * time.Minute))
	a.reservation("", "")
	a.nodes("IDLE+CLOUD+POWERED_DOWN", "")
}

// canary runs the command.
func (a *asked) canary(args ...string) (status int, found map[string]canary.Answer) {
	a.Helper()
	a.said = ""
	status = a.admin(append([]string{"canary", "gpu-a"}, args...)...)
	text, err := os.ReadFile(filepath.Join(a.dir, "state", "private", "canary-gpu-a.json"))
	var report canary.Report
	if err == nil {
		err = json.Unmarshal(text, &report)
	}
	if err != nil || len(report.Answers) != len(canary.Items) {
		a.Fatalf("%v: %d answers\n%s", err, len(report.Answers), a.said)
	}
	found = map[string]canary.Answer{}
	for _, one := range report.Answers {
		found[one.ID] = one
	}
	return status, found
}

// TestCanary follows a block from before its start until after its end, on an AWS and a Slurm
// in which all statements hold: each that can be asked is confirmed, and nothing is left.
func TestCanary(t *testing.T) {
	t.Parallel()
	a := newAsked(t)
	if status, found := a.canary(); status != 0 || found["wrong-zone"].Outcome != canary.Unknown || found["scheduled-before"].Outcome != canary.Confirmed {
		t.Errorf("%d: %+v", status, found)
	}
	if n := a.sim.Calls()[awssim.CallKey{Service: "pcs", Operation: "CreateComputeNodeGroup", Region: "us-east-2"}]; n != 1 {
		t.Errorf("%d groups were created without --change", n)
	}
	a.canary("--change")
	a.opens(time.Minute)
	if _, found := a.canary("--change"); found["drained-node"].Began.IsZero() || !strings.Contains(a.file("nodes"), "DRAIN") {
		t.Errorf("no node is drained: %+v", found["drained-node"])
	}
	a.sim.Clock().Advance(11 * time.Minute)
	a.canary() // what was begun is ended without --change too
	if strings.Contains(a.file("nodes"), "DRAIN") || strings.Contains(a.file("reservations"), "canary") {
		t.Errorf("left in Slurm:\n%s%s", a.file("nodes"), a.file("reservations"))
	}
	a.ends()
	a.nodes("IDLE+CLOUD+POWERED_DOWN", " Reason=Failed to launch backing instance (Error Code: ReservationCapacityExceeded) [root@2026-12-02T11:35:00]")
	status, found := a.canary()
	if status != 0 {
		t.Errorf("status %d\n%s", status, a.said)
	}
	for _, item := range canary.Items {
		want := canary.Confirmed
		if item.When == "" || item.ID == "real-memory" { // by hand; no group of this account sets it
			want = canary.Unknown
		}
		if got := found[item.ID]; got.Outcome != want || got.Evidence == "" || got.At.IsZero() || !got.Began.IsZero() {
			t.Errorf("%+v, want %s", got, want)
		}
	}
	for _, c := range a.sim.PCSClusters() {
		for _, g := range c.NodeGroups {
			if strings.HasPrefix(g.Name, "canary") {
				t.Errorf("%s is left", g.Name)
			}
		}
	}
}

// TestCanaryFree asks EC2 without a block: what is shown before it is asked, the answers and their
// file.
func TestCanaryFree(t *testing.T) {
	t.Parallel()
	r := newRestricted(t, awssim.NewClock(simStart, 0))
	if status := r.run("pcs-capacity", "--config", r.settings, "canary", "--free"); status != 1 || len(r.sim.Instances("us-east-2")) > 0 {
		t.Errorf("without an answer: %d\n%s", status, r.said)
	}
	for _, want := range []string{"pcs-capacity:cluster=ml/canary", "one instance in the ODCR", "at most 0.03 USD, also where it is killed", "cannot be asked"} {
		if !strings.Contains(r.said, want) {
			t.Errorf("before it asks it does not say %q:\n%s", want, r.said)
		}
	}
	r.said = ""
	if status := r.admin("canary", "--free"); status != 0 || !strings.Contains(r.said, "Nothing is left.") {
		t.Errorf("status %d\n%s", status, r.said)
	}
	text := r.file("state/private/canary-free.json")
	var report canary.FreeReport
	if err := json.Unmarshal([]byte(text), &report); err != nil || len(report.Answers) != len(canary.Questions) || strings.Contains(text, "111122223333") || strings.Contains(text, "cr-0") {
		t.Fatal(err, text)
	}
	for _, one := range report.Answers {
		if one.Outcome != canary.Confirmed {
			t.Errorf("%+v", one)
		}
	}
	r.sim.SetOtherwise(awssim.Otherwise{OtherFullCode: true})
	r.said = ""
	if status := r.admin("canary", "--free", "--instance-type", "c7i.4xlarge"); status != 1 || !strings.Contains(r.said, "InsufficientInstanceCapacity") || !strings.Contains(r.said, "whose price is not in the settings") {
		t.Errorf("otherwise: %d\n%s", status, r.said)
	}
	for _, args := range [][]string{{"canary"}, {"canary", "--free", "gpu-a"}, {"canary", "--free", "--change"}} {
		if status := r.admin(args...); status != 2 {
			t.Errorf("%q: %d", args, status)
		}
	}
	r.nothingOfCanary("the end")
}

func (r *restricted) file(name string) string {
	r.Helper()
	text, err := os.ReadFile(filepath.Join(r.dir, name))
	if err != nil {
		r.Fatal(err)
	}
	return string(text)
}

// nothingOfCanary reports what a free run has left.
func (r *restricted) nothingOfCanary(when string) {
	r.Helper()
	for _, i := range r.sim.Instances("us-east-2") {
		if i.Tags["pcs-capacity:cluster"] == "ml/canary" && i.State != "terminated" && i.State != "shutting-down" {
			r.Errorf("%s: %s is %s", when, i.ID, i.State)
		}
	}
	for _, one := range r.sim.Reservations("us-east-2") {
		if one.Tags["pcs-capacity:cluster"] == "ml/canary" && one.State != "cancelled" {
			r.Errorf("%s: %s is %s", when, one.ID, one.State)
		}
	}
}
