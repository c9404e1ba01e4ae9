// Package lifecycle is the control loop behind `pcs-capacity sync`: it brings what
// Slurm does into line with the reservations that EC2 has.
//
// One [Pass] reads AWS and Slurm, writes the snapshot for the submission path, and
// then changes Slurm where it has to:
//
//   - the fence: a Slurm reservation over a slot's nodes from the moment when jobs
//     must be gone, so that Slurm's own scheduler lets no job cross it;
//   - the wait: the same from now until a block opens, where PCS does not do it;
//   - time limits of running jobs, which boot time pushes over the fence and which
//     Slurm before 25.05.3 cuts down to their --time-min.
//
// A pass observes, decides and carries out. What it reads (observe.go, keep.go, see*.go) is one
// value, [Seen]. Each decision is a function of that value, in the file of its name, and returns
// effects (effects*.go, jobeffects.go); pass.go calls the decisions in their order, and carry.go
// alone changes anything.
//
// A pass keeps nothing in memory. It can be killed at any point and run again: it
// compares what is there with what should be, and sends only the difference (R5).
// What could not be read is never taken for "nothing there" (R8).
//
// Two clocks meet here. Windows are in AWS's time; everything that Slurm reads or
// writes is in the controller's. See [Sources] for where they are converted.
package lifecycle
