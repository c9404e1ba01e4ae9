// Package lifecycle is the control loop behind `pcs-capacity sync`: it keeps Slurm in line with EC2's reservations.
//
// One [Pass] reads AWS and Slurm, writes the snapshot for the submission path, and then changes Slurm where needed:
//
//   - the fence: a Slurm reservation over a slot's nodes from the moment when jobs
//     must be gone, so Slurm's own scheduler lets no job cross it;
//   - the wait: the same from now until a block opens, where PCS does not place one;
//   - time limits of running jobs, which boot time pushes over the fence and which
//     Slurm before 25.05.3 cuts down to their --time-min.
//
// `pcs-capacity sync` calls [Pass] once, or [Watch.Run] to make one after the other; status and check call [Look]. A
// pass sees, decides and does: begin with pass.run, which has all of it in its order. It reads (read_aws.go,
// read_slurm.go) one value, [View]. Each decision is a function of that value and returns actions. What an action does
// is written where it is decided, in the calls of a [World]: Slurm, EC2 and our own files, or their model in the tests.
//
// The time of a fence is computed by capacity.Timing.Window. View.slotStates (standing.go) decides whether the fence in
// Slurm may move there in this pass, and decideFences (guards.go) moves it.
//
// A pass keeps nothing in memory. It can be killed at any point and run again: it compares the actual with the wanted
// state and sends only the difference (R5). A failed read never counts as "nothing there" (R8).
//
// Windows are in AWS's time; everything that Slurm reads or writes is in the controller's. [Sources] says where the
// times are converted.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/facts"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// Pass makes one pass. The snapshot is what it saw, even if parts could not be read; the report says what it did. The
// error joins every failure: one failure does not stop the rest of the pass. Without the lock for a pass there is no
// snapshot.
func Pass(ctx context.Context, s Sources) (*capacity.Snapshot, Report, error) {
	p := newPass(s)
	if !s.DryRun { // a dry run does not wait for the lock and leaves no file
		unlock, err := p.State.Lock(ctx, state.PassLock, lockWait)
		if err != nil {
			code := capacity.StateFile
			if errors.As(err, new(*state.LockedError)) {
				code = capacity.AnotherRuns
			}

			failed := capacity.Problems{capacity.Problemf(code, capacity.Subject{}, "", "%v", err)}

			return nil, Report{
				At:       s.MachineTime(),
				Done:     []Done{},
				Problems: failed,
				Failed:   true,
			}, err
		}
		defer unlock()

		_, _ = p.State.Age() // which begins with the first pass; without it a purchase only waits
	}

	p.run(ctx)

	return p.view.Snap, p.report(), errors.Join(p.failed...)
}

// lockWait bounds the wait for another program's pass.
const lockWait = time.Minute

// run makes a pass: its reads, then the decisions in their order.
func (p *pass) run(ctx context.Context) {
	p.look(ctx)
	// Without an older snapshot and without AWS there is nothing to write or to act on.
	if p.view.NoAWS && p.view.Old == nil {
		return
	}

	if p.view.Cluster != nil {
		p.addProblems(checkUnusedNodes)

		// The fences first: whatever fails after this, no job crosses them.
		guards, problems := decideFences(p.view)
		p.view.Snap.Add(problems...)
		p.carryOut(ctx, guards)
		p.changeJobs(ctx)
		p.hold(ctx)
		p.carryOut(ctx, decideTests(p.view))
		p.carryOut(ctx, decideNodeReturns(p.view))
		p.carryOut(ctx, decidePowerDowns(p.view))
		p.carryOut(ctx, decidePowerUps(p.view))
		p.carryOut(ctx, decideOrphanEnds(p.view))
		p.releaseHolds(ctx)
		p.carryOut(ctx, decideMisplaced(p.view))
		p.view.LastSample = p.State.LastSample()
		p.carryOut(ctx, decideSample(p.view))
		p.rollOver(ctx)
	}

	p.addProblems(checkSetbacks, checkNodeGroups, checkOrphans, checkTails)
	p.carryOut(ctx, decideFiles(p.view, p.Local))
}

// changeJobs reads the jobs once and does all that a pass does with jobs: unfinished requeues, endings at the fence,
// time limits, and messages to owners.
func (p *pass) changeJobs(ctx context.Context) {
	var err error

	p.view.SavedRecords, err = p.State.JobRecords().Read()
	if err != nil {
		p.addFailure(capacity.StateFile, err)
	}

	if err := p.readJobs(ctx); err != nil {
		err = fmt.Errorf("reading Slurm's jobs: %w", err)
		p.addProblem(capacity.SlurmUnanswered, capacity.Subject{}, "", "%v; time limits and holds are unchanged", err)
		p.fail(err)
		return
	}

	// In this order: first what an earlier pass began, then the endings, and only then the limits of the
	// jobs that are left.
	p.view.JobRecords = trustedRecords(p.view)
	p.carryOut(ctx, decideUnfinished(p.view))
	p.carryOut(ctx, decideCutShort(p.view))
	p.view.Off = offNodes(p.carryOut(ctx, decideRequeues(p.view)))
	p.carryOut(ctx, saveJobRecords(p.view, nil))
	p.carryOut(ctx, decideLimits(p.view))
	p.carryOut(ctx, decideRetries(p.view))
	p.carryOut(ctx, decideHeldJobs(p.view))
	p.carryOut(ctx, decideWaiting(p.view))
}

// carryOut does actions in order, all of them even if one fails, notes each in the report, and folds their outcome into
// the view. It returns those that have not failed. In a dry run it does none, and none fails.
func (p *pass) carryOut(ctx context.Context, actions []Action) (done []Action) {
	world := p.World
	world.Outcome = newOutcome()
	for _, a := range actions {
		var err error
		if !p.DryRun {
			err = a.Do(ctx, world)
		}

		moot := errors.Is(err, errMoot)
		if err == nil || moot {
			done = append(done, a)
		} else if lines := strings.Split(err.Error(), "\n"); len(lines) > 1 { // several calls have failed
			err = errors.New(strings.Join(slices.Compact(lines), "; "))
		}

		switch {
		case moot:
		case a.Text != "":
			p.recordDone(a, a.Text, err)
		case err != nil && strings.HasPrefix(a.Code, "keep-"): // state_dir cannot be written: the pass has failed
			p.addFailure(capacity.StateFile, err)
			p.fail(err)
		case err != nil:
			p.addProblem(capacity.ChangeFailed, a.About, "", "%v", err)
		}
	}

	p.fold(world.Outcome)

	return done
}

// fold brings the view up to date with what actions did.
func (p *pass) fold(o Outcome) {
	p.foldHolds(o)

	p.view.JobRecords = mergeRecords(p.view.JobRecords, o.Records)
	for _, at := range capacity.AllSlots(p.view.Snap.Partitions) {
		if since, is := o.PoweredUp[at.Slot.Name]; is {
			at.Slot.PoweredUp = since
		}
	}

	p.view.Snap.Orphans = slices.DeleteFunc(p.view.Snap.Orphans,
		func(orphan capacity.Orphan) bool { return o.Terminated[orphan.Instance] })
}

func (p *pass) recordDone(a Action, text string, err error) {
	d := Done{
		Do:      a.Code,
		Slot:    a.About.Slot,
		Job:     a.About.Job,
		Message: text,
	}
	if p.DryRun {
		d.Message = "would " + text
	}

	if err != nil {
		d.Error = err.Error()
		p.fail(fmt.Errorf("%s: %w", d.Do, err))
	}

	p.done = append(p.done, d)
}

// Look reads what a pass reads and changes nothing. cluster is nil if Slurm did not answer; aws is nil if there was
// nothing to ask AWS, and else whether it answered all that counts. The error joins the failed reads, as with Pass.
func Look(ctx context.Context, s Sources) (snap *capacity.Snapshot, cluster *Cluster, aws *bool, err error) {
	p := newPass(s)
	p.look(ctx)

	for _, r := range p.view.Rolling {
		if !r.Ready && !r.Over {
			p.addProblem(capacity.RollOverDue, capacity.Subject{Partition: r.Partition, Reservation: r.Block.ID}, "",
				"reservation %s has no compute node group in partition %s yet; sync creates it", r.Block.ID,
				r.Partition)
		}
	}

	if p.view.Cluster != nil && !p.view.NoAWS {
		p.addProblems(checkDueFences)
	}

	p.addProblems(checkSetbacks, checkNodeGroups, checkOrphans, lastUnreadGroups)

	if all := !p.view.NoAWS; p.asked || !all {
		aws = &all
	}

	return p.view.Snap, p.view.Cluster, aws, errors.Join(p.failed...)
}

// look reads AWS and Slurm, side by side. Each half is read even if the other fails.
func (p *pass) look(ctx context.Context) {
	var err, slurmErr error

	if p.Broken != nil {
		p.addProblem(capacity.SettingsBroken, capacity.Subject{}, "", "%s; the previous settings stay in use",
			strings.ReplaceAll(p.Broken.Error(), "\n", "; "))
	}

	p.view.Old, err = p.State.ReadSnapshot()

	cluster := sync.OnceValues(func() (*Cluster, error) { return p.cluster(ctx) })
	go cluster()

	p.observe(ctx, cluster)
	p.view.Cluster, slurmErr = cluster()

	p.lookForTests()

	snap := p.view.Snap
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.addFailure(capacity.StateFile, err)
	}

	// Not before the answers: the clocks' offset comes with them.
	p.view.Now = p.MachineTime().Add(snap.ClockOffset.Duration)
	snap.Former = formerSlots(p.view)
	if slurmErr != nil {
		slurmErr = fmt.Errorf("asking Slurm: %w", slurmErr)
		p.addProblem(capacity.SlurmUnanswered, capacity.Subject{}, "",
			"%v; fences and time limits are unchanged", slurmErr)
		p.fail(slurmErr)
	} else {
		p.addSlurm()
		p.addProblems(checkAccounts, checkSpares)
	}

	p.addProblems(mismatches)

	if p.view.Cluster != nil {
		p.askGuarded(ctx)
		p.addProblems(checkKeptFences, otherOwners)
	}

	p.addProblems(checkReservations)

	if p.view.Cluster != nil {
		p.addProblems(checkNodesOut, checkOpenings, checkTests)
	}

	p.lookForMisplaced()
	p.lookForRollOver()
	p.lookForOrphans()
	p.lookForImpaired()

	for _, w := range p.view.Snap.WaitingTurns(p.view.Now) {
		p.view.Snap.Add(w.WaitProblem())
	}
}

type pass struct {
	Sources
	view   View
	done   []Done
	failed []error

	asked bool // there was something to ask AWS

	instances facts.Answer[[]capacity.Instance] // our cluster's, and those of others with its name
	impaired  facts.Answer[map[string]string]   // EC2's words on hosts, by instance
}

func newPass(s Sources) *pass {
	return &pass{
		Sources: s,
		view: View{
			Settings: s.Settings,
			Owner:    s.Owner,
			OwnerIs:  s.OwnerIs,
			Poll:     s.Poll,
			OursOnly: s.OursOnly,
			Snap:     &capacity.Snapshot{},
		},
	}
}

func (p *pass) report() Report {
	return Report{
		At:               p.view.nowInSeconds(),
		DryRun:           p.DryRun,
		Done:             append([]Done{}, p.done...),
		Problems:         p.view.Snap.All(),
		NoAWS:            p.view.NoAWS,
		Failed:           len(p.failed) > 0,
		Cluster:          p.view.Cluster,
		Jobs:             p.view.Jobs,
		SharedPartitions: p.sharedPartitions(),
		Rolling:          p.view.Rolling,
	}
}

func (p *pass) fail(err error) { p.failed = append(p.failed, err) }

func (p *pass) addProblems(problems ...func(View) []capacity.Problem) {
	for _, of := range problems {
		p.view.Snap.Add(of(p.view)...)
	}
}

// addFailure notes a failure that does not stop the pass and that an administrator should look at.
func (p *pass) addFailure(code capacity.Code, err error) {
	p.addProblem(code, capacity.Subject{}, "", "%v", err)
}

// addProblem notes what people should know; the code says who has to act.
func (p *pass) addProblem(code capacity.Code, about capacity.Subject, fix, format string, args ...any) {
	p.view.Snap.Add(capacity.Problemf(code, about, fix, format, args...))
}
