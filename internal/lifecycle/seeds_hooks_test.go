package lifecycle

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/hooks/power"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/model"
)

// hook is one call of ResumeProgram or SuspendProgram by Slurm.
type hook struct {
	mu         sync.Mutex
	changes    int
	dies, dead bool
	disturbed  bool // it is killed, meets somebody, or a call fails
	holds      string
	// reservations is how many there were before it.
	reservations int
	violates     string
}

// hookKilled has one of the next hooks be killed, or meet somebody.
func (m *month) hookKilled(rt *rapid.T) {
	m.troubleAt, m.trouble = rapid.IntRange(1, 8).
		Draw(rt, "change"),
		rapid.SampledFrom([]string{"killed before", "killed after", "meets a pass", "meets a user"}).
			Draw(rt, "trouble")
}

// resume is ResumeProgram, with the file that slurmctld writes for it.
func (m *month) resume(nodes []string) {
	var jobs []string
	for _, j := range m.slurm.Jobs {
		if has := slices.DeleteFunc(slices.Clone(j.Nodes), func(n string) bool {
			return !slices.Contains(nodes, n)
		}); len(has) > 0 &&
			j.Outcome == "" {
			jobs = append(jobs, fmt.Sprintf(`{"job_id": %d, "nodes_resume": %q}`, j.ID, hostlist.Compress(has)))
		}
	}

	file := filepath.Join(m.slurm.StateSave, "resume.json")
	if err := os.WriteFile(file, []byte(`{"jobs": [`+strings.Join(jobs, ",")+"]}"), 0o600); err != nil {
		m.Fatal(err)
	}

	if err := os.Setenv("SLURM_RESUME_FILE", file); err != nil {
		m.Fatal(err)
	}

	m.runHook("resume", nodes, power.PowerUp)

	for _, j := range m.live() {
		if j.Restarts > 1 && j.Pending() {
			m.say("the owner of job %s gives up", j.Shown)
			m.slurm.End(j, "CANCELLED")
		}
	}
}

// suspend is SuspendProgram and ResumeFailProgram.
func (m *month) suspend(nodes []string) { m.runHook("suspend", nodes, power.PowerDown) }

// runHook runs the real program, in a clock of its own that begins with Slurm's: what a hook waits for does not happen.
func (m *month) runHook(name string, nodes []string, program func(context.Context, *power.Hook) error) {
	m.said["hook: "+name]++
	h := &hook{
		disturbed:    m.Now().Before(m.down) || len(m.sources.Settings.Partitions) == 0,
		reservations: len(m.aws.All),
	}
	synctest.Test(m.test, func(*testing.T) {
		time.Sleep(time.Until(m.slurm.Now))
		m.hook = h
		site := power.NewHook(
			model.Host{Slurm: m.slurm, EC2: m.aws, PCS: m.PCS, Dir: m.sources.State},
			m.sources.State,
			m.sources.Settings,
			"",
			hostlist.Compress(nodes),
			slog.New(slog.DiscardHandler),
		)

		var running sync.WaitGroup
		running.Go(func() {
			err := program(context.Background(), site)
			m.say("  %s of %s: %v", name, hostlist.Compress(nodes), err)
		})
		running.Wait()

		m.hook = nil
	})

	if m.clean = false; h.violates != "" {
		m.Fatalf("%s", h.violates)
	}

	m.hasRun(h, name, nodes)
}

// hasRun checks R4 and R5 after a hook: what may be paid as an ODCR is in the ledger; and unless something came in its
// way, each node has one instance, which Slurm knows, or is down and has none, and no ODCR is left.
func (m *month) hasRun(h *hook, program string, nodes []string) {
	held, err := m.sources.State.Holds(m.Now())
	if err != nil {
		m.bad("%v", err)
	}

	for i, r := range m.aws.All {
		listed := slices.ContainsFunc(held, func(h capacity.Hold) bool { return h.ReservationID == r.ID })
		ordered := listed || slices.ContainsFunc(held, func(h capacity.Hold) bool { return h.ReservationID == "" })
		if one, _ := m.aws.Real(r.ID); !one.State.IsLive() && i >= h.reservations && !h.disturbed && listed {
			m.bad("R4: %s is cancelled, and the ledger has it still", r.ID)
		} else if !one.State.IsLive() || r.Tags[capacity.TagHold] == "" || r.Tags[capacity.TagCluster] != model.Mark {
			continue
		}

		if !ordered && m.lost.Before(r.Created) {
			m.bad("R4: %s is paid, and the ledger does not have it", r.ID)
		}

		if !h.disturbed && i >= h.reservations {
			m.bad("R4: %s is left", r.ID)
		}
	}

	if h.disturbed || m.aws.Late {
		return
	}

	for _, j := range m.live() {
		if h.holds == "job "+j.Shown && j.Reason != "JobHeldUser" {
			m.bad("job %s is held, and its owner cannot release it", j.Shown)
		}
	}

	for _, name := range nodes {
		var of []string
		for _, i := range m.aws.Instances {
			if nodeOf(i) == name {
				of = append(of, i.ID)
			}
		}

		if m.slurm.Node(name).IsGivenUp() {
			m.bad("R5: node %s is given up, and %s leaves it so", name, program)
		}

		if n := m.slurm.Node(name); program == "resume" && n.PoweringUp() && len(of) != 1 ||
			len(of) > 0 && !slices.Equal(of, []string{n.InstanceID}) {
			m.bad("R5: node %s is %s, its instance is %q, and there are %q", name, n.State, n.InstanceID, of)
		}
	}
}

// before kills a hook, in each of its goroutines, fails its calls, and has it meet others. What is done side by side
// takes different times, so it is done in one order.
func (h *hook) before(m *month, c model.Call) error {
	if c.Change && c.EC2 {
		time.Sleep(time.Microsecond)
	} else if c.Change {
		time.Sleep(1377 * time.Nanosecond)
	}

	h.mu.Lock()
	defer h.mu.Unlock()

	if h.dead {
		runtime.Goexit()
	}

	if !c.Change {
		return nil
	}

	m.say("    %s %s", c.Verb, c.Text)

	if c.Verb == "requeue and hold" {
		h.holds = c.Text
	}

	if h.changes++; m.trouble == "" || h.changes < m.troubleAt {
		return nil
	}

	trouble := m.trouble
	m.trouble, h.disturbed = "", true
	m.say("    the hook: %s", trouble)

	switch trouble {
	case "killed before":
		h.dead = true

		runtime.Goexit()
	case "killed after":
		h.dies = true
	case "meets a pass":
		another := m.meetsAt
		m.hook, m.meetsAt = nil, 0 // this one meets nobody else
		_, _ = m.alive(m.sources)
		m.hook, m.meetsAt = h, another
	case "meets a user":
		for _, j := range m.live() {
			if len(j.Nodes) > 0 && strings.Contains(c.Text, j.Nodes[0]) {
				m.say("    the user cancels job %s", j.Shown)
				m.slurm.End(j, "CANCELLED")
			}
		}
	}

	return nil
}

func (h *hook) after(m *month, c model.Call) error {
	h.mu.Lock()
	defer h.mu.Unlock()

	if c.Change && h.dies {
		h.dead = true
	}

	if h.dead {
		runtime.Goexit()
	}

	return nil
}

// nodeOf is the node that an instance was launched for.
func nodeOf(i capacity.Instance) string {
	return capacity.WithNodes([]capacity.Instance{i})[0].Tags[capacity.TagNode]
}
