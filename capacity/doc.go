// Package capacity is the domain of pcs-capacity, without any input or output: reservations and their windows, which
// node group a reservation fits, and whether a job may run in it.
//
// Nothing here reads a clock, calls AWS or starts a program. The time is a parameter, and it is AWS's time: callers
// correct the machine's clock by Snapshot.ClockOffset.
//
// The decisions, each in one place:
//   - Build: the Snapshot that settings and AWS amount to, on which all decisions are made;
//   - Timing.Window: when a reservation can be used, and when jobs must be gone;
//   - Match: why a reservation does not fit a node group;
//   - Admit: whether a job may be submitted, and how it is edited;
//   - AdmitLaunch: whether nodes may be launched for a job, and into which reservation;
//   - FitLimit: the time limit that ends a running job at the fence.
package capacity
