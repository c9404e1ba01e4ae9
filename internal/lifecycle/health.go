package lifecycle

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// This file has the site's health command run on each node of a block that opens, before jobs
// get it. A Slurm reservation for each node keeps them away. It is there before the block opens
// and has an end, so that a dead sync costs minutes of the block and not all of it. The command
// is a Slurm job in that reservation: no pass waits for it, and a pass that is killed leaves
// nothing that the next one does not find.

// closedNode is a node that no job gets, until a time of AWS's; zero for no end.
type closedNode struct {
	node  string
	until time.Time
}

// slotHealth is what is known of the nodes of a slot.
type slotHealth struct {
	*state.Health
	v     slotView
	nodes []string // that there are instances for
}

// closes reports whether a Slurm reservation, by its name, is the one that closes a node.
func closes(name, slot, node string) bool {
	g, _ := guardOf(name)
	return g.kind == "health" && g.slot == slot && g.node == node
}

// isCheck reports whether a job runs the health command.
func isCheck(j capacity.Job) bool {
	g, _ := guardOf(j.Reservation)
	return g.kind == "health"
}

// withoutChecks leaves out the jobs that run the health command: users have no part in them.
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

// checkTime is how long a node may take to boot and to show that it is healthy; the rest is
// until a pass sees the one and the other.
func (p *pass) checkTime() time.Duration {
	return p.Settings.Timing.BootAllowance.Duration + p.Slurm.CheckTime(p.Health.Timeout) + 2*p.Poll
}

// closed are the nodes of a slot that have yet to show that they are healthy, after what came of
// the commands that ran. nodes are those that there are instances for. What is not new since its
// block has opened is never closed.
func (p *pass) closed(ctx context.Context, v slotView, nodes []string) []closedNode {
	if p.Health.Path == "" || v.former || v.partition.Provider != capacity.ProviderEC2 || v.group.Dynamic ||
		v.current.Kind != capacity.CapacityBlock || !v.window.Fence.After(p.now) {
		return nil
	}
	h, err := p.State.Health(v.slot.Name)
	if err != nil {
		p.problem(capacity.StateFile, err)
	}
	if h == nil || h.ReservationID != v.current.ID {
		late := v.window.Start.Add(p.checkTime())
		switch {
		case !late.After(p.now):
			return nil
		case v.window.Start.After(p.now) || v.current.State != capacity.StateActive:
			var all []closedNode
			for _, name := range nodes {
				all = append(all, closedNode{name, late})
			}
			return all
		}
		h = &state.Health{Slot: v.slot.Name, ReservationID: v.current.ID, Nodes: map[string]*state.NodeHealth{}}
		for _, name := range nodes {
			h.Nodes[name] = &state.NodeHealth{State: state.HealthOpen, Since: p.second()}
		}
	}
	s := &slotHealth{h, v, nodes}
	p.health = append(p.health, s)
	var all []closedNode
	for _, name := range nodes {
		n := h.Nodes[name]
		if n == nil {
			continue // it came later
		}
		if n.State == state.HealthOpen {
			p.judge(ctx, s, name, n)
		}
		switch n.State {
		case state.HealthOpen:
			all = append(all, closedNode{name, n.Since.Add(p.checkTime())})
		case state.HealthFailed, state.HealthPowering:
			all = append(all, closedNode{node: name}) // it is drained besides
		}
		p.sayNode(s, name, n)
	}
	p.keepHealth(s)
	return all
}

func (p *pass) second() time.Time { return p.now.UTC().Truncate(time.Second) }

func (p *pass) keepHealth(s *slotHealth) {
	if err := p.State.KeepHealth(s.Health); err != nil {
		p.problem(capacity.StateFile, err)
		p.fail(err)
	}
}

// sayNode tells people, and the report, what a node is.
func (p *pass) sayNode(s *slotHealth, name string, n *state.NodeHealth) {
	if p.unproven == nil {
		p.unproven = map[string]string{}
	}
	up := p.node(name).Up
	switch {
	case n.State == state.HealthUnknown && p.now.Sub(n.Since) < recently:
		p.say(capacity.HealthUnknown, capacity.Subject{Node: name}, "", "node %s gets jobs without having shown that it is healthy: %s", name, n.Why)
	case n.State == state.HealthBad && !up:
		p.say(capacity.HealthFailed, capacity.Subject{Node: name}, "", "%s", badNode(p.State, s.Health, name)+"; it is drained: open a case with AWS Support")
	}
	switch {
	case n.State == state.HealthGood || n.State == state.HealthUnknown || n.State == state.HealthBad && up:
	case len(n.Failures) > 0:
		p.unproven[name] = state.NodeDown
	case up:
		p.unproven[name] = state.NodeBoots
	}
}

// badNode says what there is against a node.
func badNode(dir state.Dir, h *state.Health, name string) string {
	all := h.Nodes[name].Failures
	if len(all) == 0 { // the file was changed
		return fmt.Sprintf("node %s of %s has failed the health command", name, h.ReservationID)
	}
	return fmt.Sprintf("node %s of %s has failed the health command %d times, the last time with %s; the facts are in %s",
		name, h.ReservationID, len(all), failure(all[len(all)-1]), dir.HealthCasePath(name, h.ReservationID))
}

// failure is a failure in a few words, those of the last line of the command.
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

// noAnswer is the exit status of a command that did not end, notStarted the least of those of
// one that did not start, to 127: timeout(1).
const (
	noAnswer   = 124
	notStarted = 125
	mostStatus = 127
)

// node is a node as Slurm shows it. Slurm 22.05 does not show some that are powered down.
func (p *pass) node(name string) Node {
	for _, n := range p.cluster.Nodes {
		if n.Name == name {
			return n
		}
	}
	return Node{Name: name, PoweredDown: true}
}

// checkJobs are the jobs that run the command, those that have ended by what came of them.
func (p *pass) checkJobs(ctx context.Context) (live, ended map[string]capacity.Job, err error) {
	if p.liveChecks != nil {
		return p.liveChecks, p.endedChecks, nil
	}
	by := func(jobs []capacity.Job) map[string]capacity.Job {
		all := map[string]capacity.Job{}
		for _, j := range jobs {
			all[j.Shown] = j
		}
		return all
	}
	liveJobs, endedJobs, err := p.Slurm.Jobs(ctx, p.cluster.Ours(p.snap), isCheck)
	if err != nil {
		return nil, nil, err
	}
	p.liveChecks, p.endedChecks = by(liveJobs), by(endedJobs)
	return p.liveChecks, p.endedChecks, nil
}

// judge sees what came of the command on a node.
func (p *pass) judge(ctx context.Context, s *slotHealth, name string, n *state.NodeHealth) {
	live, ended, err := p.checkJobs(ctx)
	if err != nil {
		p.problem(capacity.HealthUnanswered, fmt.Errorf("asking what the health command found: %w", err))
		return
	}
	unknown := func(format string, args ...any) {
		n.State, n.Since, n.Why = state.HealthUnknown, p.second(), fmt.Sprintf(format, args...)
	}
	if n.Job == "" { // of a pass that was killed after it had submitted it
		for _, j := range live {
			if closes(j.Reservation, s.Slot, name) {
				n.Job = j.Shown
			}
		}
	}
	late := p.now.Sub(n.Since) > p.checkTime()
	job, over := ended[n.Job]
	over = over && job.State != "COMPLETING"
	_, there := live[n.Job]
	switch {
	case n.Job == "" && late:
		unknown("it was not up within %s", capacity.FormatDuration(p.checkTime()))
	case n.Job == "" || !over && there && !late:
	case !over && there:
		if err := p.Slurm.Cancel(ctx, n.Job); err != nil {
			p.problem(capacity.HealthUnanswered, err)
		}
		unknown("job %s, which runs the health command, has not ended", n.Job)
	case !over: // Slurm has forgotten it
		n.Job = ""
	case job.State == "COMPLETED":
		n.State, n.Since = state.HealthGood, p.second()
	case job.State != "FAILED":
		unknown("job %s, which ran the health command, ended as %s", n.Job, job.State)
	default:
		status, signal, err := p.Slurm.ExitStatus(ctx, n.Job)
		switch {
		case err != nil && !late:
			p.problem(capacity.HealthUnanswered, err)
		case err != nil:
			unknown("%s", err)
		case signal != 0 || status == 0:
			unknown("job %s, which runs the health command, could not run (exit code %d:%d)", n.Job, status, signal)
		case status >= notStarted && status <= mostStatus:
			unknown("%s did not start (exit status %d): %s", p.Health.Path, status, strings.TrimSpace(p.State.HealthSaid(name)))
		default:
			p.failedNode(ctx, s, name, n, job, status)
		}
	}
}

// failedNode drains a node whose command has failed, and writes the facts down.
func (p *pass) failedNode(ctx context.Context, s *slotHealth, name string, n *state.NodeHealth, job capacity.Job, status int) {
	r := s.v.current
	f := state.HealthFailure{Zone: r.AZID, InstanceType: r.InstanceType, Command: p.Health.Path, ExitStatus: status,
		Output: p.State.HealthSaid(name), Began: p.atAWS(job.Start), Ended: p.atAWS(job.End)}
	for _, i := range p.instances {
		if i.Node(p.Slurm.Expand) == name && i.PrivateIP == p.node(name).Address {
			f.InstanceID, f.PrivateIP, f.Launched = i.ID, i.PrivateIP, i.Launched
		}
	}
	err := p.Slurm.Drain(ctx, []string{name}, "pcs-capacity: health command: "+failure(f))
	p.did(Done{Do: "drain-node", Slot: s.Slot, Message: fmt.Sprintf("slot %s: drained %s, health command: %s", s.Slot, name, failure(f))}, err)
	if err != nil {
		return // the next pass tries again
	}
	n.Failures = append(n.Failures, f)
	n.State, n.Since, n.Job = state.HealthFailed, p.second(), ""
	if len(n.Failures) >= p.Health.Tries {
		n.State = state.HealthBad
	}
	if err := p.State.KeepHealthCase(state.HealthCase{Node: name, Slot: s.Slot, Partition: s.v.partition.Name, Region: p.snap.Region,
		ReservationID: r.ID, Failures: n.Failures}); err != nil {
		p.problem(capacity.StateFile, err)
		p.fail(err)
	}
}

// checkNodes has the command run on the nodes that are up and closed, and one node of each slot
// that has failed launched anew.
func (p *pass) checkNodes(ctx context.Context) {
	for _, s := range p.health {
		busy := false
		for _, n := range s.Nodes {
			busy = busy || n.State == state.HealthPowering || n.State == state.HealthOpen && len(n.Failures) > 0
		}
		for _, name := range s.nodes {
			n := s.Nodes[name]
			switch {
			case n == nil:
			case n.State == state.HealthOpen && n.Job == "":
				p.check(ctx, s, name, n)
			case n.State == state.HealthFailed && !busy:
				busy = p.recycle(ctx, s, name, n)
			case n.State == state.HealthPowering:
				p.relaunch(ctx, s, name, n)
			}
		}
		p.keepHealth(s)
	}
}

// check submits the job that runs the command on a node.
func (p *pass) check(ctx context.Context, s *slotHealth, name string, n *state.NodeHealth) {
	node := p.node(name)
	closed := slices.IndexFunc(p.cluster.Reservations, func(r Reservation) bool { return closes(r.Name, s.Slot, name) && ours(r) && r.Active })
	if !node.Up || closed < 0 || p.liveChecks == nil {
		return
	}
	unknown := func(why string) { n.State, n.Since, n.Why = state.HealthUnknown, p.second(), why }
	if len(p.busyJobs(name)) > 0 {
		unknown("a job runs there already")
		return
	}
	output := p.State.HealthOutputPath(name)
	if abs, err := filepath.Abs(output); err == nil {
		output = abs
	}
	if err := p.State.ForgetHealthSaid(name); err != nil {
		p.problem(capacity.StateFile, err)
	}
	account := ""
	if all := s.v.partition.AllowAccounts; len(all) > 0 {
		account = all[0]
	}
	job, err := p.Slurm.SubmitCheck(ctx, NodeCheck{Node: name, Reservation: p.cluster.Reservations[closed].Name, Partition: s.v.partition.Name,
		Account: account, Constraint: s.v.slot.Feature, Program: p.Health.Path, Timeout: p.Health.Timeout, Output: output, OutputBytes: state.HealthOutput})
	p.did(Done{Do: "check-node", Slot: s.Slot, Job: job, Message: fmt.Sprintf("slot %s: running %s on %s", s.Slot, p.Health.Path, name)}, err)
	if n.Job = job; err != nil {
		unknown(err.Error())
	}
}

// busyJobs are the jobs that have a node, as far as this pass has read them.
func (p *pass) busyJobs(node string) []capacity.Job {
	return slices.DeleteFunc(slices.Clone(p.jobs), func(j capacity.Job) bool { return !slices.Contains(j.Nodes, node) })
}

// recycle powers a node down that has failed. It reports whether it did.
func (p *pass) recycle(ctx context.Context, s *slotHealth, name string, n *state.NodeHealth) bool {
	if state := p.node(name).State; !p.node(name).PoweredDown && !strings.HasSuffix(state, "-down") {
		why := "pcs-capacity: health command"
		if len(n.Failures) > 0 {
			why += ": " + failure(n.Failures[len(n.Failures)-1])
		}
		err := p.Slurm.PowerDown(ctx, []string{name}, why)
		p.did(Done{Do: "power-down", Slot: s.Slot, Message: fmt.Sprintf("slot %s: powering %s down, to launch it anew", s.Slot, name)}, err)
		if err != nil {
			return false
		}
	}
	n.State, n.Since = state.HealthPowering, p.second()
	return true
}

// relaunch powers a node up that is powered down for it.
func (p *pass) relaunch(ctx context.Context, s *slotHealth, name string, n *state.NodeHealth) {
	node := p.node(name)
	switch {
	case node.Up || strings.HasSuffix(node.State, "-up"): // of a pass that was killed
	case !node.PoweredDown:
		if p.now.Sub(n.Since) > p.checkTime() {
			n.State = state.HealthBad
		}
		return
	default:
		err := p.Slurm.Resume(ctx, []string{name})
		if err == nil {
			err = p.Slurm.PowerUp(ctx, []string{name})
		}
		p.did(Done{Do: "power-up", Slot: s.Slot, Message: fmt.Sprintf("slot %s: powering %s up, to look at it again", s.Slot, name)}, err)
		if err != nil {
			return
		}
	}
	n.State, n.Since, n.Job = state.HealthOpen, p.second(), ""
}

// checking reports whether nodes wait for their health command, of which Slurm knows more soon.
func (p *pass) checking() bool {
	for _, s := range p.health {
		for _, n := range s.Nodes {
			if n.State == state.HealthOpen || n.State == state.HealthFailed || n.State == state.HealthPowering {
				return true
			}
		}
	}
	return false
}
