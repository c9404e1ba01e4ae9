package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// checkSlurm is the model with one job that runs the health command.
type checkSlurm struct {
	*model
	live, ended           []capacity.Job
	status, signal        int
	jobsErr, exit, drains error
	cancelled, drained    []string
}

func (s *checkSlurm) Jobs(context.Context, []string, func(capacity.Job) bool) (live, ended []capacity.Job, err error) {
	return s.live, s.ended, s.jobsErr
}
func (s *checkSlurm) ExitStatus(context.Context, string) (status, signal int, err error) {
	return s.status, s.signal, s.exit
}
func (s *checkSlurm) Cancel(_ context.Context, jobs ...string) error {
	s.cancelled = append(s.cancelled, jobs...)
	return nil
}
func (s *checkSlurm) Drain(_ context.Context, _ []string, reason string) error {
	s.drained = append(s.drained, reason)
	return s.drains
}

// TestR6_OnlyTheCommandCondemnsANode: whatever else goes wrong, the node gets its jobs.
func TestR6_OnlyTheCommandCondemnsANode(t *testing.T) {
	now := time.Date(2027, 1, 1, 8, 0, 0, 0, time.UTC)
	broken := errors.New("slurmctld does not answer")
	job := func(what string) []capacity.Job {
		return []capacity.Job{{Shown: "7", State: what, Reservation: "pcs-capacity-health-gpu.gpu-1", Start: now.Add(-time.Minute), End: now}}
	}
	for name, c := range map[string]struct {
		slurm checkSlurm
		job   string
		age   time.Duration
		tries int
		want  string
		left  string // its job afterwards
	}{
		"healthy":                   {checkSlurm{ended: job("COMPLETED")}, "7", time.Minute, 3, state.HealthGood, "7"},
		"failed":                    {checkSlurm{ended: job("FAILED"), status: 3}, "7", time.Minute, 3, state.HealthFailed, ""},
		"failed for the last time":  {checkSlurm{ended: job("FAILED"), status: 1}, "7", time.Minute, 1, state.HealthBad, ""},
		"ended by a signal":         {checkSlurm{ended: job("FAILED"), status: 139}, "7", time.Minute, 3, state.HealthFailed, ""},
		"hangs":                     {checkSlurm{ended: job("FAILED"), status: 124}, "7", time.Minute, 3, state.HealthFailed, ""},
		"no timeout(1)":             {checkSlurm{ended: job("FAILED"), status: 125}, "7", time.Minute, 3, state.HealthUnknown, "7"},
		"not executable":            {checkSlurm{ended: job("FAILED"), status: 126}, "7", time.Minute, 3, state.HealthUnknown, "7"},
		"not there":                 {checkSlurm{ended: job("FAILED"), status: 127}, "7", time.Minute, 3, state.HealthUnknown, "7"},
		"slurmd could not start it": {checkSlurm{ended: job("FAILED"), signal: 53}, "7", time.Minute, 3, state.HealthUnknown, "7"},
		"ended by slurmd":           {checkSlurm{ended: job("FAILED"), status: 1, signal: 9}, "7", time.Minute, 3, state.HealthUnknown, "7"},
		"the file server hangs":     {checkSlurm{ended: job("TIMEOUT")}, "7", time.Minute, 3, state.HealthUnknown, "7"},
		"cancelled":                 {checkSlurm{ended: job("CANCELLED")}, "7", time.Minute, 3, state.HealthUnknown, "7"},
		"the node went":             {checkSlurm{ended: job("NODE_FAIL")}, "7", time.Minute, 3, state.HealthUnknown, "7"},
		"no exit status":            {checkSlurm{ended: job("FAILED"), exit: broken}, "7", time.Minute, 3, state.HealthOpen, "7"},
		"never an exit status":      {checkSlurm{ended: job("FAILED"), exit: broken}, "7", time.Hour, 3, state.HealthUnknown, "7"},
		"cannot be drained yet":     {checkSlurm{ended: job("FAILED"), status: 3, drains: broken}, "7", time.Minute, 3, state.HealthOpen, "7"},
		"forgotten":                 {checkSlurm{}, "7", time.Minute, 3, state.HealthOpen, ""},
		"runs":                      {checkSlurm{live: job("RUNNING")}, "7", time.Minute, 3, state.HealthOpen, "7"},
		"still cleans up":           {checkSlurm{live: job("COMPLETING"), ended: job("COMPLETING")}, "7", time.Minute, 3, state.HealthOpen, "7"},
		"never ends":                {checkSlurm{live: job("PENDING")}, "7", time.Hour, 3, state.HealthUnknown, "7"},
		"of a pass that was killed": {checkSlurm{live: job("RUNNING")}, "", time.Minute, 3, state.HealthOpen, "7"},
		"never up":                  {checkSlurm{}, "", time.Hour, 3, state.HealthUnknown, ""},
		"squeue does not answer":    {checkSlurm{jobsErr: broken}, "7", time.Minute, 3, state.HealthOpen, "7"},
	} {
		t.Run(name, func(t *testing.T) {
			c.slurm.model = newModel(now, map[string]int{"gpu": 1})
			p := passOf(Sources{State: state.Dir(t.TempDir()), Poll: time.Minute, Health: HealthCommand{Path: "/opt/site/health", Timeout: 5 * time.Minute, JobTime: 5 * time.Minute, Tries: c.tries}}.at(&c.slurm, nil), Seen{Snap: &capacity.Snapshot{Region: "us-east-2"}, Now: now, Cluster: &Cluster{Nodes: []capacity.Node{{Name: "gpu-1", State: "IDLE", Address: "127.0.0.2"}}}})
			on := func(id, address string) capacity.Instance {
				return capacity.Instance{ID: id, PrivateIP: address, Tags: map[string]string{capacity.TagNode: "gpu-1"}}
			}
			p.seen.Instances = []capacity.Instance{on("i-now", "127.0.0.2"), on("i-before", "127.0.0.1")}
			if err := errors.Join(p.State.ForgetHealthSaid("gpu-1"), os.WriteFile(p.State.HealthOutputPath("gpu-1"), []byte("looking\nGPU 3 \xff is gone\n\n"), 0o644)); err != nil {
				t.Fatal(err)
			}
			open := capacity.Reservation{ID: "cr-1", Kind: capacity.CapacityBlock, State: capacity.StateActive, AZID: "use2-az1", Start: now.Add(-2 * time.Hour), End: now.Add(30 * time.Hour)}
			p.seen.Snap = oneSlot("ec2", []string{"cr-1"}, open)
			p.seen.Cluster.slots = map[string][]string{"gpu": {"gpu-1"}}
			file := &state.Health{Slot: "gpu", ReservationID: "cr-1", Nodes: map[string]*state.NodeHealth{"gpu-1": {State: state.HealthOpen, Since: now.Add(-c.age), Job: c.job}}}
			if err := p.State.KeepHealth(file); err != nil {
				t.Fatal(err)
			}
			p.seeHealth(t.Context())
			p.judgeHealth(t.Context())
			n := p.seen.Health["gpu"].Nodes["gpu-1"]
			if n.State != c.want || n.Job != c.left {
				t.Errorf("it is %s with job %q, want %s with %q: %s", n.State, n.Job, c.want, c.left, n.Why)
			}
			failed := c.want == state.HealthFailed || c.want == state.HealthBad
			if failed != (len(n.Failures) == 1) || failed && len(c.slurm.drained) != 1 || (name == "never ends") != (len(c.slurm.cancelled) == 1) {
				t.Errorf("failures %+v, drained %q, cancelled %q", n.Failures, c.slurm.drained, c.slurm.cancelled)
			}
			if unanswered := slices.Contains(p.seen.Snap.Problems, broken.Error()); unanswered != (name == "no exit status") {
				t.Errorf("problems: %q", p.seen.Snap.Problems)
			}
			text, err := os.ReadFile(p.State.HealthCasePath("gpu-1", "cr-1"))
			if !failed {
				if err == nil || c.want == state.HealthUnknown && n.Why == "" {
					t.Errorf("there is a case, %s, or no reason, %q", text, n.Why)
				}
				return
			}
			var h state.HealthCase
			if err := json.Unmarshal(text, &h); err != nil || len(h.Failures) != 1 || h.Failures[0].InstanceID != "i-now" || !strings.Contains(h.Failures[0].Output, "looking") {
				t.Errorf("%v: the case is %s", err, text)
			}
			if !strings.HasSuffix(c.slurm.drained[0], ": GPU 3 \uFFFD is gone") {
				t.Errorf("it is drained for %q", c.slurm.drained[0])
			}
		})
	}
}

// TestWhatIsClosed: nodes are closed for a block that opens, and only for so long.
func TestWhatIsClosed(t *testing.T) {
	now := time.Date(2027, 1, 1, 8, 0, 0, 0, time.UTC)
	at := func(start time.Duration) *capacity.Snapshot {
		r := capacity.Reservation{ID: "cr-1", Kind: capacity.CapacityBlock, State: capacity.StateScheduled, Start: now.Add(start), End: now.Add(30 * time.Hour)}
		if start <= 0 {
			r.State = capacity.StateActive
		}
		return oneSlot("ec2", []string{"cr-1"}, r)
	}
	change := func(snap *capacity.Snapshot, f func(*capacity.Snapshot)) *capacity.Snapshot { f(snap); return snap }
	for name, c := range map[string]struct {
		snap  *capacity.Snapshot
		file  string
		until time.Time // zero: it is not closed
	}{
		"before the start":     {at(time.Hour), "", now.Add(time.Hour + 17*time.Minute)},
		"open":                 {at(-time.Minute), "", now.Add(17 * time.Minute)},
		"not delivered yet":    {change(at(-time.Minute), func(s *capacity.Snapshot) { s.Reservations[0].State = capacity.StateScheduled }), "", now.Add(16 * time.Minute)},
		"open for long":        {at(-time.Hour), "", time.Time{}},
		"a broken file":        {at(-time.Minute), "{", now.Add(17 * time.Minute)},
		"a broken file, later": {at(-time.Hour), "{", time.Time{}},
		"null":                 {at(-time.Minute), `{"reservation_id":"cr-1","nodes":{"gpu-1":null}}`, time.Time{}},
		"bad, without facts":   {at(-time.Minute), `{"reservation_id":"cr-1","nodes":{"gpu-1":{"state":"bad"}}}`, time.Time{}},
		"healthy":              {at(-time.Minute), `{"reservation_id":"cr-1","nodes":{"gpu-1":{"state":"good"}}}`, time.Time{}},
		"of the block before":  {at(-time.Minute), `{"reservation_id":"cr-0","nodes":{"gpu-1":{"state":"good"}}}`, now.Add(17 * time.Minute)},
		"dynamic":              {change(at(-time.Minute), func(s *capacity.Snapshot) { s.Partitions[0].Groups[0].Dynamic = true }), "", time.Time{}},
		"PCS":                  {change(at(-time.Minute), func(s *capacity.Snapshot) { s.Partitions[0].Provider = capacity.ProviderPCS }), "", time.Time{}},
		"an ODCR":              {change(at(-time.Minute), func(s *capacity.Snapshot) { s.Reservations[0].Kind = capacity.ODCR }), "", time.Time{}},
		"under the fence":      {change(at(-time.Minute), func(s *capacity.Snapshot) { s.Reservations[0].End = now.Add(40 * time.Minute) }), "", time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			p := passOf(Sources{State: state.Dir(t.TempDir()), Poll: time.Minute, Health: HealthCommand{Path: "/opt/site/health", Timeout: 5 * time.Minute, JobTime: 5 * time.Minute, Tries: 3}}.at(
				&checkSlurm{model: newModel(now, map[string]int{"gpu": 1})}, nil), Seen{Snap: c.snap, Now: now, Cluster: &Cluster{slots: map[string][]string{"gpu": {"gpu-1"}}}})
			p.Settings.Timing.BootAllowance.Duration = 10 * time.Minute
			if c.file != "" {
				path := strings.TrimSuffix(p.State.HealthOutputPath("gpu"), ".out") + ".json"
				if err := errors.Join(p.State.ForgetHealthSaid("gpu"), os.WriteFile(path, []byte(c.file), 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			p.seeHealth(t.Context())
			p.judgeHealth(t.Context())
			got := p.seen.closed(p.seen.slots()[0], []string{"gpu-1"})
			if closed := len(got) == 1; closed != !c.until.IsZero() || closed && !got[0].until.Equal(c.until) {
				t.Errorf("closed: %v, want until %v", got, c.until)
			}
			p.checkNodes(t.Context())
		})
	}
}
