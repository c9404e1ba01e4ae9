package power

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hook"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// failing is the machine for groups that failed for one reason. It records the reason, tells the jobs' owners, and
// sends the nodes down, which requeues the jobs and terminates the launched instances. The jobs wait longer after
// each failure.
type failing struct {
	settings capacity.Settings
	outcome

	at       step
	failures map[string]int // of each job
	sent     *Failure       // why the nodes were not sent down
}

const (
	stepRecords step = "ask for records"
	stepDown    step = "send down"
	stepJobs    step = "ask for jobs"
)

func (s failing) next(a Answer) (failing, []capacity.Effect) {
	switch s.at {
	case "":
		s.at = stepRecords
		return s, []capacity.Effect{AskRecords{}}
	case stepRecords:
		return s.tell(a)
	case stepDown:
		s.sent = a.Failure
		if s.sent == nil &&
			slices.ContainsFunc(s.jobs, func(j capacity.Job) bool { return j.Batch }) {
			s.at = stepJobs
			return s, []capacity.Effect{AskJobs{}}
		}
		return s.comment(a, nil)
	case stepJobs:
		if a.Failure != nil {
			a.Jobs = nil
		}
		return s.comment(a, a.Jobs)
	}
	return s, nil
}

// tell comes first: jobs lose their terminals with their nodes.
func (s failing) tell(a Answer) (failing, []capacity.Effect) {
	list := hostlist.Compress(s.nodes)
	record := state.Record{At: a.now(), Hook: "resume", Nodes: list, Jobs: s.shown(), Restarts: s.restarts(),
		Code: s.failure.Code, EC2Code: s.failure.EC2Code, Message: hook.OneLine(s.failure.message())}
	if at, ok := placeOf(s.settings, s.nodes[0]); ok {
		record.Partition = at.partition.Name
	}
	for _, n := range s.nodes {
		if l, ok := s.launched[n]; ok {
			record.Reservation = l.reservation
			record.Instances = append(record.Instances, l.instance.ID)
		}
	}
	s.failures = failuresOf(append(slices.Clip(a.Records), record), s.jobs, record.At)
	s.at = stepDown
	return s, []capacity.Effect{
		Tell{Records: []state.Record{record}, Notify: withTerminal(s.jobs), Text: s.failure.word(list)},
		SendDown{s.nodes, s.failure.reason()},
	}
}

// withTerminal returns the shown names of the jobs that sbatch did not submit.
func withTerminal(jobs []capacity.Job) (shown []string) {
	for _, j := range jobs {
		if !j.Batch {
			shown = append(shown, j.Shown)
		}
	}
	return shown
}

// comment tells each job when it is tried again.
func (s failing) comment(a Answer, jobs []capacity.Job) (failing, []capacity.Effect) {
	s.at = stepOver
	begin, again := map[string]time.Time{}, map[string]string{}
	for _, j := range s.jobs {
		if !j.Batch || s.sent != nil {
			continue
		}
		at := until(s.failures[j.Shown], a.At, s.failure.NotBefore.Add(-a.Offset))
		begin[j.Shown], again[j.Shown] = at, tried(s.failures[j.Shown], at, a.At)
	}
	effects := delay(jobs, begin, s.behind)
	for _, j := range s.jobs {
		effects = append(effects, comment(j.Shown, s.failure.word(hostlist.Compress(s.nodes))+again[j.Shown]))
	}
	return s, effects
}

// comment writes and reads back the AdminComment of a job.
func comment(job, text string) Comment {
	return Comment{Jobs: []string{job}, Text: hook.Clip(hook.OneLine(text), capacity.MaxComment)}
}

// byReason groups what failed for one reason, to be handled together.
func byReason(outcomes []outcome) (failed []outcome) {
	for _, o := range outcomes {
		i := slices.IndexFunc(failed, func(f outcome) bool { return f.failure == o.failure })
		if i < 0 {
			failed = append(failed, o)
			continue
		}
		f := &failed[i]
		f.nodes, f.jobs = append(slices.Clone(f.nodes), o.nodes...), append(slices.Clone(f.jobs), o.jobs...)
		f.launched, f.behind = both(f.launched, o.launched), both(f.behind, o.behind)
	}
	return failed
}

// both is a new map of what a and b have.
func both[V any](a, b map[string]V) map[string]V {
	all := map[string]V{}
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}

// notBooting is the machine for nodes that Slurm has given up. It powers them down, after which Slurm uses them again
// (idle_on_node_suspend) and calls SuspendProgram for them, which finds them powering down and not given up. It also
// delays the jobs that waited for the nodes and that Slurm has requeued: a broken image is still broken the next
// time.
type notBooting struct {
	nodes   []string
	called  time.Time // the machine's
	at      step
	records []state.Record
	shown   []string
}

const stepGivenUp step = "ask which nodes are given up"

func (s notBooting) next(a Answer) (notBooting, []capacity.Effect) {
	switch s.at {
	case "":
		s.at = stepGivenUp
		return s, []capacity.Effect{AskGivenUp{s.nodes}}
	case stepGivenUp:
		if a.Failure != nil || len(a.Nodes) == 0 {
			break
		}
		s.nodes, s.at = a.Nodes, stepDown
		return s, []capacity.Effect{SendDown{s.nodes, "ResumeTimeout reached: the instance did not register in time"}}
	case stepDown:
		if a.Failure != nil {
			break
		}
		s.at = stepRecords
		return s, []capacity.Effect{AskRecords{}}
	case stepRecords:
		s.records = a.Records
		if s.shown = launchedFor(s.nodes, s.records); len(s.shown) == 0 {
			break
		}
		s.at = stepJobs
		return s, []capacity.Effect{AskJobs{}}
	case stepJobs:
		if a.Failure == nil {
			return s.pace(a)
		}
	}
	s.at = stepOver
	return s, nil
}

func (s notBooting) pace(a Answer) (notBooting, []capacity.Effect) {
	s.at = stepOver
	jobs := slices.DeleteFunc(slices.Clone(a.Jobs),
		func(j capacity.Job) bool { return !j.Pending() || !slices.Contains(s.shown, j.Shown) })
	now := s.called.Add(a.Offset)
	record := state.Record{
		At:      now,
		Hook:    "resume",
		Nodes:   hostlist.Compress(s.nodes),
		Jobs:    group{jobs: jobs}.shown(),
		Code:    string(capacity.NotBooted),
		Message: "the instance did not register with Slurm within ResumeTimeout; its image, its slurm.conf or its network may be broken",
	}
	if id := launchedInstance(s.nodes[0], s.records); id != "" {
		record.Message = fmt.Sprintf("the instance did not register with Slurm within ResumeTimeout; its console says why: `aws ec2 get-console-output --latest --output text --instance-id %s`", id)
	}
	for _, j := range jobs { // requeued by now
		record.Restarts = append(record.Restarts, j.Restarts-1)
	}
	effects := []capacity.Effect{Tell{Records: []state.Record{record}}}
	failures, begin := failuresOf(append(slices.Clip(s.records), record), jobs, now), map[string]time.Time{}
	for _, j := range jobs {
		begin[j.Shown] = until(failures[j.Shown], s.called, time.Time{})
	}
	effects = append(effects, delay(a.Jobs, begin, nil)...)
	for _, j := range jobs {
		again := tried(failures[j.Shown], begin[j.Shown], s.called)
		effects = append(effects,
			comment(j.Shown, fmt.Sprintf("pcs-capacity: nodes %s did not boot: %s%s", record.Nodes, record.Message, again)))
	}
	return s, effects
}
