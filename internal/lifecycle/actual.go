package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// actual is the world as it is.
type actual struct {
	*slurm.Client
	ec2      *ec2.Client
	rollOver *setup.RollOver
	// pcsCluster is the name or id of the PCS cluster; "" for self-managed Slurm.
	pcsCluster string
	// state is where hooks write down the cluster's mark.
	state state.Dir
	// keeper is who keeps the Slurm reservations, for their comments.
	keeper      string
	machineTime func() time.Time
}

// wallsTimeout is how long slurmdbd may take to answer: a pass does without.
const wallsTimeout = 5 * time.Second

// Look reads the state of the cluster.
func (x *actual) Look(ctx context.Context) (*Cluster, error) {
	// Side by side: each is a process, which takes longer to start than slurmctld to answer.
	c := &Cluster{}
	var cfg slurm.Config
	var errs [4]error
	var reads sync.WaitGroup
	reads.Go(func() { cfg, errs[0] = x.Config(ctx) })
	reads.Go(func() { c.Nodes, errs[1] = x.Nodes(ctx) })
	reads.Go(func() { c.Partitions, errs[2] = x.Partitions(ctx) })
	reads.Go(func() { c.Reservations, errs[3] = x.Reservations(ctx) })
	reads.Wait()
	if err := cmp.Or(errs[:]...); err != nil {
		return nil, err
	}
	c.Version, c.TimeMinCollapses = cfg.Version.String(), cfg.Version.TimeMinCollapses()
	c.KillWait, c.NoRequeue, c.OverTime = cfg.KillWait, cfg.NoRequeue, cfg.OverTime
	c.SlurmCluster, c.SlurmUID = cfg.ClusterName, cfg.SlurmUID
	c.Accounting, c.ShowsPoweredDown = cfg.Accounting(), cfg.ShowsPoweredDown()
	if c.Mark, c.MarkErr = x.pcsCluster, nil; x.pcsCluster == "" {
		c.Name = cfg.ClusterName
		c.Mark, c.MarkErr = markOf(x.state, cfg.StateSaveLocation, cfg.ClusterName)
	}
	if cfg.ChecksLimits() {
		ctx, cancel := context.WithTimeout(ctx, wallsTimeout)
		defer cancel()
		c.Walls, c.WallsErr = x.Walls(ctx, cfg.ClusterName)
	}
	return c, nil
}

// markOf is the mark of a cluster of self-managed Slurm, or why it is not known.
//
// sync ends what has this mark, so it takes only what a hook made on the controller: from
// there, or, where it runs elsewhere, from what that hook wrote down.
func markOf(dir state.Dir, stateSave, clusterName string) (string, error) {
	kept, keptErr := dir.KnownMark()
	if name, _ := capacity.CutClusterMark(kept); keptErr == nil && name != clusterName {
		kept, keptErr = "", fmt.Errorf("the cluster's mark %q in %s is not that of cluster %s", kept, dir, clusterName)
	}
	id, err := state.ClusterID(stateSave, clusterName)
	mark := capacity.ClusterMark(clusterName, id)
	switch {
	case err == nil && keptErr == nil && mark != kept:
		return "", fmt.Errorf("the cluster's mark is %s in %s and %s in %s; run sync on Slurm's controller, and delete %[4]s/mark if it does so already",
			mark, stateSave, kept, dir)
	case err == nil:
		return mark, nil
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("no power-up has made an id in %s yet", stateSave)
	case !errors.Is(err, state.ErrNotSlurms) && !errors.Is(err, fs.ErrPermission):
		return "", err
	case keptErr != nil:
		return "", fmt.Errorf("%w; %w; run sync on Slurm's controller as root", err, keptErr)
	}
	return kept, nil
}

// Jobs are those of [slurm.Client.JobsOf].
func (x *actual) Jobs(ctx context.Context, partitions []string, wanted func(capacity.Job) bool) (live, ended []capacity.Job, err error) {
	return x.JobsOf(ctx, partitions, wanted)
}

// Do carries out an effect. By the effect's type it chooses the order of calls that belong together.
func (x *actual) Do(ctx context.Context, e capacity.Effect) Answer {
	switch e := e.(type) {
	case ChangeGuard:
		return Answer{Err: x.changeGuard(ctx, e)}
	case PowerUp:
		return Answer{Err: x.PowerUp(ctx, e.Nodes)}
	case PowerDown:
		return Answer{Err: x.PowerDown(ctx, e.Nodes, e.Reason)}
	case ReturnNodes:
		return x.returnNodes(ctx, e)
	case EndInstance:
		return Answer{Err: x.ec2.Terminate(ctx, []string{e.Instance})}
	case Release:
		return e.answer(x.ec2.Release(ctx, e.ID))
	case SetUpSlot:
		did, err := x.rollOver.SetUp(ctx, e.Partition, e.group, e.Block, e.Setback.Problem != "")
		return x.rolled(e.Rolling, did, err)
	case RemoveSlot:
		did, err := x.rollOver.Remove(ctx, e.Partition, e.Slot)
		return x.rolled(e.Rolling, did, err)
	}
	return x.doJob(ctx, e)
}

func (x *actual) changeGuard(ctx context.Context, e ChangeGuard) error {
	r := e.R
	r.Comment = "pcs-capacity sync keeps this; it is made again when deleted; " + x.keeper
	if now := x.machineTime(); r.Start.Before(now) { // Slurm refuses a start in the past
		r.Start = now
	}
	switch e.Do {
	case "create":
		return x.CreateReservation(ctx, r)
	case "update":
		return x.UpdateReservation(ctx, r)
	case "delete":
		return x.DropReservation(ctx, r.Name)
	}
	// A stop between the two calls would leave neither guard until the next pass.
	ctx = context.WithoutCancel(ctx)
	if e.Occupied {
		if err := x.DropReservation(ctx, r.Name); err != nil {
			return err
		}
	}
	if err := x.CreateReservation(ctx, r); err != nil {
		return err
	}
	return x.DropReservation(ctx, e.Old)
}

func (x *actual) returnNodes(ctx context.Context, e ReturnNodes) Answer {
	var answer Answer
	if e.StillOff {
		now, err := x.NodeStates(ctx, e.Nodes...)
		if err != nil {
			return Answer{Err: err}
		}
		if e = e.off(now); len(e.Nodes) == 0 {
			return Answer{NotTried: true}
		}
		answer.Messages = []string{e.Sentence(capacity.Did)}
	}
	answer.Err = x.PowerDownForce(ctx, e.Nodes, e.Reason)
	return answer
}

// rolled is setup's answer.
func (x *actual) rolled(r Rolling, did []string, err error) Answer {
	if err == nil {
		return r.answer(did, "")
	}
	words, _ := x.ec2.Explain(err)
	return r.answer(did, words)
}
