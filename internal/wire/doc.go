// Package wire is the adapters of all programs: it shows Slurm, EC2 and PCS to hooks
// and to the control loop as those want to see them. The submit filter does without
// it, since it must not link the AWS SDK (R1).
package wire
