// Package capacity is what pcs-capacity knows about reserved EC2 capacity under
// Slurm, without any input or output: reservations and their windows, which node
// group a reservation fits, and whether a job may go in.
//
// Nothing here reads a clock, calls AWS or starts a program. The time is a
// parameter, and it is AWS's time: callers correct the machine's clock by
// Snapshot.ClockOffset.
//
// The decisions, each in one place:
//   - Build: what settings and AWS amount to, the Snapshot that all decisions are made on;
//   - Timing.Window: when a reservation can be used, and when jobs must be gone;
//   - Match: what keeps a reservation and a node group apart;
//   - Admit: whether a job may be submitted, and how it is edited;
//   - AdmitLaunch: whether nodes may be launched for a job, and into which reservation;
//   - FitLimit: the time limit that ends a running job at the fence.
package capacity
