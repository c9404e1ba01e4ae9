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
// A pass sees, decides and does: pass.go has all of it in its order. It reads (observe.go, keep.go, see*.go) one value,
// [Seen]. Each decision is a function of that value and returns actions. What an action does is written where it is
// decided, in the calls of a [World]: Slurm, EC2 and our own files, or their model in the tests.
//
// A pass keeps nothing in memory. It can be killed at any point and run again: it compares the actual with the wanted
// state and sends only the difference (R5). A failed read never counts as "nothing there" (R8).
//
// Windows are in AWS's time; everything that Slurm reads or writes is in the controller's. [Sources] says where the
// times are converted.
package lifecycle
