package lifecycle

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// This file runs the site's health command on each node of a block that opens, before jobs get the node. One Slurm
// reservation for each node keeps jobs away. It exists before the block opens and has an end, so a dead sync costs
// minutes of the block, not all of it. The command is a Slurm job in that reservation: no pass waits for it, and the
// next pass finds whatever a killed one left.

// Checks is what a pass saw of the health command.
type Checks struct {
	HealthCommand
	// Time is how long a node may take to boot and pass the check, plus the time until a pass sees both.
	Time time.Duration
	// Files are the records of the last pass, by slot.
	Files map[string]*state.Health
	// Live and Ended are the jobs that run the command, by Shown; nil if not read. Exits are the exits of failed jobs,
	// Said the output that they left on their nodes.
	Live, Ended map[string]capacity.Job
	Exits       map[string]Exit
	Said        map[string]string
}

// Exit is how a job ended: its script's exit status, and the signal that ended it or prevented its start.
type Exit struct {
	Status, Signal int
	Err            error
}

// The exit statuses of timeout(1): of a command that did not end, and of commands that did not start.
const (
	noAnswer   = 124
	notStarted = 125
	mostStatus = 127
)

// closedNode is a node that gets no job until a time in AWS's clock; zero for no end.
type closedNode struct {
	node  string
	until time.Time
}

// closes reports whether a Slurm reservation, by its name, is the one that closes a node.
func closes(name, slot, node string) bool {
	g, _ := capacity.ParseGuard(name)
	return g.Slot == slot && g.Node == node // which no guard of another kind has
}

// isCheck reports whether a job runs the health command.
func isCheck(j capacity.Job) bool {
	g, _ := capacity.ParseGuard(j.Reservation)
	return g.Kind == "health"
}

// withoutChecks leaves out the jobs that run the health command: they are no user's.
func withoutChecks(jobs []capacity.Job) []capacity.Job {
	return without(jobs, isCheck)
}

// without copies the jobs only if one is left out: 10,000 take 4 MB.
func without(jobs []capacity.Job, leaveOut func(capacity.Job) bool) []capacity.Job {
	if !slices.ContainsFunc(jobs, leaveOut) {
		return jobs
	}
	return slices.DeleteFunc(slices.Clone(jobs), leaveOut)
}

// checked returns the slots whose nodes must pass the health command.
func (s Seen) checked() []slotView {
	return slices.DeleteFunc(s.slots(), func(v slotView) bool { return !s.checks(v) })
}

func (s Seen) checks(v slotView) bool {
	return s.Checks.Path != "" && !v.former && v.partition.Provider.Launches() && !v.group.Dynamic &&
		v.current.Kind.Bought() && v.window.Fence.After(s.Now) && len(s.Cluster.SlotNodes(v.slot.Name)) > 0
}

// launched returns the slot's nodes that have instances.
func (s Seen) launched(v slotView) []string {
	nodes := s.Cluster.SlotNodes(v.slot.Name)
	return nodes[:v.launchable(nodes)]
}

// known is what earlier passes recorded about a slot's nodes. For a block that has just opened, every node is
// unchecked. Nil for a block that has yet to open, or was open before there was a command.
func (s Seen) known(v slotView) *state.Health {
	h := s.Checks.Files[v.slot.Name]
	if h != nil && h.ReservationID == v.current.ID {
		return cloneHealth(h)
	}
	if late := v.window.Start.Add(s.Checks.Time); !late.After(s.Now) || v.window.Start.After(s.Now) ||
		v.current.State != capacity.StateActive {
		return nil
	}
	h = &state.Health{Slot: v.slot.Name, ReservationID: v.current.ID, Nodes: map[string]*state.NodeHealth{}}
	for _, name := range s.launched(v) {
		h.Nodes[name] = &state.NodeHealth{State: state.HealthOpen, Since: s.second()}
	}
	return h
}

func cloneHealth(h *state.Health) *state.Health {
	h = &state.Health{Slot: h.Slot, ReservationID: h.ReservationID, Nodes: maps.Clone(h.Nodes)}
	for name, n := range h.Nodes {
		one := *n
		h.Nodes[name] = &one
	}
	return h
}

// health judges the result of the command on each unchecked node. verdicts are the records afterwards, except for the
// answers of the effects: see learnHealth.
func health(s Seen) (verdicts map[string]*state.Health, effects []capacity.Effect, problems []capacity.Problem) {
	verdicts = map[string]*state.Health{}
	for _, v := range s.checked() {
		h := s.known(v)
		if h == nil {
			continue
		}
		verdicts[v.slot.Name] = h
		for _, name := range s.launched(v) {
			if n := h.Nodes[name]; n != nil && n.State == state.HealthOpen { // otherwise the node joined later
				todo, err := s.judge(v, name, n)
				effects = append(effects, todo...)
				if err != nil {
					problems = append(problems,
						capacity.Problemf(capacity.HealthUnanswered, capacity.Subject{Slot: v.slot.Name, Node: name}, "", "%v", err))
				}
			}
		}
	}
	return verdicts, effects, problems
}

// judge evaluates the command's result on a node.
func (s Seen) judge(v slotView, name string, n *state.NodeHealth) (effects []capacity.Effect, err error) {
	if s.Checks.Live == nil {
		return nil, nil
	}
	unknown := func(format string, args ...any) {
		n.State, n.Since, n.Why = state.HealthUnknown, s.second(), fmt.Sprintf(format, args...)
	}
	if n.Job == "" { // a pass was killed after it had submitted the job
		for _, j := range s.Checks.Live {
			if closes(j.Reservation, v.slot.Name, name) {
				n.Job = j.Shown
			}
		}
	}
	late := s.Now.Sub(n.Since) > s.Checks.Time
	job, over := s.Checks.Ended[n.Job]
	over = over && job.State != "COMPLETING"
	_, there := s.Checks.Live[n.Job]
	switch {
	case n.Job == "" && late:
		unknown("it was not up within %s", capacity.FormatDuration(s.Checks.Time))
	case n.Job == "" || !over && there && !late:
	case !over && there:
		effects = append(effects, CancelCheck{n.Job})
		unknown("job %s, which runs the health command, has not ended", n.Job)
	case !over: // Slurm has forgotten it
		n.Job = ""
	case job.State == "COMPLETED":
		n.State, n.Since = state.HealthGood, s.second()
	case job.State != "FAILED":
		unknown("job %s, which ran the health command, ended as %s", n.Job, job.State)
	default:
		switch exit := s.Checks.Exits[n.Job]; {
		case exit.Err != nil && !late:
			err = exit.Err
		case exit.Err != nil:
			unknown("%s", exit.Err)
		case exit.Signal != 0 || exit.Status == 0:
			unknown("job %s, which runs the health command, could not run (exit code %d:%d)", n.Job, exit.Status, exit.Signal)
		case exit.Status >= notStarted && exit.Status <= mostStatus:
			unknown("%s did not start (exit status %d): %s", s.Checks.Path, exit.Status, strings.TrimSpace(s.Checks.Said[name]))
		default:
			effects = append(effects, s.drainFailed(v, name, n, job, exit.Status))
		}
	}
	return effects, err
}

// drainFailed drains a node whose command has failed, and records the facts.
func (s Seen) drainFailed(v slotView, name string, n *state.NodeHealth, job capacity.Job, status int) DrainFailed {
	r := v.current
	f := state.HealthFailure{Zone: r.AZID, InstanceType: r.InstanceType, Command: s.Checks.Path, ExitStatus: status,
		Output: s.Checks.Said[name], Began: s.atAWS(job.Start), Ended: s.atAWS(job.End)}
	for _, i := range s.Instances {
		if i.Node(hostlist.Expand) == name && i.PrivateIP == s.Cluster.node(name).Address {
			f.InstanceID, f.PrivateIP, f.Launched = i.ID, i.PrivateIP, i.Launched
		}
	}
	return DrainFailed{state.HealthCase{Node: name, Slot: v.slot.Name, Partition: v.partition.Name, Region: s.Snap.Region,
		ReservationID: r.ID, Failures: append(slices.Clone(n.Failures), f)}}
}

// failure describes a failure in a few words: those of the command's last line.
func failure(f state.HealthFailure) string {
	text := fmt.Sprintf("exit status %d", f.ExitStatus)
	if f.ExitStatus == noAnswer {
		text = "no answer within its timeout"
	}
	lines := strings.Split(strings.TrimSpace(f.Output), "\n")
	if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
		text += ": " + strings.ToValidUTF8(last[:min(len(last), 200)], "")
	}
	return text
}

// closed returns the unchecked nodes of a slot. nodes are those with instances. A node older than the block's opening
// is never closed.
func (s Seen) closed(v slotView, nodes []string) (closed []closedNode) {
	h := s.Health[v.slot.Name]
	late := v.window.Start.Add(s.Checks.Time)
	switch {
	case !s.checks(v) || h == nil && !late.After(s.Now):
		return nil
	case h == nil: // it has yet to open
		for _, name := range nodes {
			closed = append(closed, closedNode{name, late})
		}
		return closed
	}
	for _, name := range nodes {
		switch n := h.Nodes[name]; {
		case n == nil:
		case n.State == state.HealthOpen:
			closed = append(closed, closedNode{name, n.Since.Add(s.Checks.Time)})
		case n.State == state.HealthFailed || n.State == state.HealthPowering:
			closed = append(closed, closedNode{node: name}) // it is drained as well
		}
	}
	return closed
}

// healthProblems reports nodes that failed or cannot be checked.
func healthProblems(s Seen) (effects []capacity.Effect, problems []capacity.Problem) {
	for _, v := range s.checked() {
		h := s.Health[v.slot.Name]
		for _, name := range s.launched(v) {
			switch n := nodeHealth(h, name); {
			case n.State == state.HealthUnknown && s.Now.Sub(n.Since) < recently:
				problems = append(problems, capacity.Problemf(capacity.HealthUnknown, capacity.Subject{Node: name}, "",
					"node %s gets jobs without having shown that it is healthy: %s", name, n.Why))
			case n.State == state.HealthBad && !s.Cluster.node(name).Up():
				problems = append(problems,
					capacity.Problemf(capacity.HealthFailed, capacity.Subject{Node: name}, "", "%s",
						badNode(s.dir, h, name)+"; it is drained: open a case with AWS Support"))
			}
		}
	}
	return nil, problems
}

// unproven is the state, for the report, of nodes that get no job yet.
func (s Seen) unproven() map[string]string {
	unproven := map[string]string{}
	for _, v := range s.checked() {
		for _, name := range s.launched(v) {
			n, up := nodeHealth(s.Health[v.slot.Name], name), s.Cluster.node(name).Up()
			switch {
			case n.State == "" || n.State == state.HealthGood || n.State == state.HealthUnknown || n.State == state.HealthBad && up:
			case len(n.Failures) > 0:
				unproven[name] = state.NodeDown
			case up:
				unproven[name] = state.NodeBoots
			}
		}
	}
	return unproven
}

// nodeHealth is the record of a node; zero if there is none.
func nodeHealth(h *state.Health, name string) state.NodeHealth {
	if h == nil || h.Nodes[name] == nil {
		return state.NodeHealth{}
	}
	return *h.Nodes[name]
}

// badNode says what is wrong with a node.
func badNode(dir state.Dir, h *state.Health, name string) string {
	all := h.Nodes[name].Failures
	if len(all) == 0 { // the file was changed
		return fmt.Sprintf("node %s of %s has failed the health command", name, h.ReservationID)
	}
	return fmt.Sprintf("node %s of %s has failed the health command %d times, the last time with %s; the facts are in %s",
		name, h.ReservationID, len(all), failure(all[len(all)-1]), dir.HealthCasePath(name, h.ReservationID))
}

// healthChecks runs the command on the nodes that are up and closed, and relaunches one failed node of each slot.
// verdicts are as in health.
func healthChecks(s Seen) (verdicts map[string]*state.Health, effects []capacity.Effect) {
	verdicts = map[string]*state.Health{}
	for _, v := range s.checked() {
		if s.Health[v.slot.Name] == nil {
			continue
		}
		h := cloneHealth(s.Health[v.slot.Name])
		verdicts[v.slot.Name] = h
		busy := false
		for _, n := range h.Nodes {
			busy = busy || n.State == state.HealthPowering || n.State == state.HealthOpen && len(n.Failures) > 0
		}
		for _, name := range s.launched(v) {
			switch n := h.Nodes[name]; {
			case n == nil:
			case n.State == state.HealthOpen && n.Job == "":
				effects = append(effects, s.check(v, name, n)...)
			case n.State == state.HealthFailed && !busy:
				busy = true
				effects = append(effects, s.recycle(v, name, n)...)
			case n.State == state.HealthPowering:
				effects = append(effects, s.relaunch(v, name, n)...)
			}
		}
	}
	return verdicts, effects
}

// check submits the job that runs the command on a node.
func (s Seen) check(v slotView, name string, n *state.NodeHealth) []capacity.Effect {
	closed := slices.IndexFunc(s.Cluster.Reservations, func(r capacity.SlurmReservation) bool {
		return closes(r.Name, v.slot.Name, name) && r.Ours() && r.Active
	})
	if !s.Cluster.node(name).Up() || closed < 0 || s.Checks.Live == nil {
		return nil
	}
	if slices.ContainsFunc(s.Jobs, func(j capacity.Job) bool { return slices.Contains(j.Nodes, name) }) {
		n.State, n.Since, n.Why = state.HealthUnknown, s.second(), "a job runs there already"
		return nil
	}
	account := ""
	if all := v.partition.AllowAccounts; len(all) > 0 {
		account = all[0]
	}
	return []capacity.Effect{
		CheckNode{
			v.slot.Name,
			NodeCheck{Node: name, Reservation: s.Cluster.Reservations[closed].Name, Partition: v.partition.Name,
				Account: account, Constraint: v.slot.Feature, Program: s.Checks.Path, Timeout: s.Checks.Timeout, OutputBytes: state.HealthOutput},
		},
	}
}

// recycle powers a failed node down.
func (s Seen) recycle(v slotView, name string, n *state.NodeHealth) []capacity.Effect {
	if node := s.Cluster.node(name); node.PoweredDown() || strings.HasSuffix(node.Word(), "-down") {
		n.State, n.Since = state.HealthPowering, s.second()
		return nil
	}
	why := "pcs-capacity: health command"
	if len(n.Failures) > 0 {
		why += ": " + failure(n.Failures[len(n.Failures)-1])
	}
	return []capacity.Effect{PowerDown{v.slot.Name, []string{name}, why, "to launch it anew"}}
}

// relaunch powers up a node that recycle has powered down.
func (s Seen) relaunch(v slotView, name string, n *state.NodeHealth) []capacity.Effect {
	switch node := s.Cluster.node(name); {
	case node.Up() || strings.HasSuffix(node.Word(), "-up"): // of a pass that was killed
		n.State, n.Since, n.Job = state.HealthOpen, s.second(), ""
	case node.PoweredDown():
		return []capacity.Effect{Relaunch{v.slot.Name, name}}
	case s.Now.Sub(n.Since) > s.Checks.Time:
		n.State = state.HealthBad
	}
	return nil
}

// learnHealth adds the answers of the effects to the records that were decided with them.
func (s Seen) learnHealth(verdicts map[string]*state.Health, results []Result) {
	for _, r := range results {
		switch e := r.Effect.(type) {
		case DrainFailed:
			if n := verdicts[e.Slot].Nodes[e.Node]; r.Err == nil { // else the next pass tries again
				n.Failures = e.Failures
				n.State, n.Since, n.Job = state.HealthFailed, s.second(), ""
				if len(n.Failures) >= s.Checks.Tries {
					n.State = state.HealthBad
				}
			}
		case CheckNode:
			n := verdicts[e.Slot].Nodes[e.Node]
			if n.Job = r.Job; r.Err != nil {
				n.State, n.Since, n.Why = state.HealthUnknown, s.second(), r.Err.Error()
			}
		case PowerDown:
			if n := verdicts[e.Slot].Nodes[e.Nodes[0]]; r.Err == nil {
				n.State, n.Since = state.HealthPowering, s.second()
			}
		case Relaunch:
			if n := verdicts[e.Slot].Nodes[e.Node]; r.Err == nil {
				n.State, n.Since, n.Job = state.HealthOpen, s.second(), ""
			}
		}
	}
}

// checking reports whether nodes wait for their health command, so that another pass soon is worth it.
func checking(verdicts map[string]*state.Health) bool {
	for _, h := range verdicts {
		for _, n := range h.Nodes {
			if n.State == state.HealthOpen || n.State == state.HealthFailed || n.State == state.HealthPowering {
				return true
			}
		}
	}
	return false
}
