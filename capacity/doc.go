// Package capacity decides about reserved EC2 capacity in a Slurm cluster: when a reservation can be used, which node
// group it fits, and whether a job may run in it.
//
// A [Reservation] is open during its [Window]. A partition's node groups have slots, each a set of nodes that one
// reservation at a time backs; a [Turn] says when. Jobs must have ended at the fence, some minutes before EC2 begins to
// reclaim the instances. A [Snapshot] has all of this as the last pass of sync saw it.
//
// Nothing here reads a clock, calls AWS or starts a program. The time is a parameter, and it is AWS's time: callers
// correct the machine's clock by Snapshot.ClockOffset.
//
// Each decision is in one place:
//   - Build: the Snapshot for given settings and facts of AWS, on which all decisions are made;
//   - Timing.Window: when a reservation can be used, and when jobs must be gone;
//   - Match: why a reservation does not fit a node group;
//   - Admit: whether a job may be submitted, and how it is edited;
//   - AdmitLaunch: whether nodes may be launched for a job, and into which reservation;
//   - FitLimit: the time limit that ends a running job at the fence.
package capacity
