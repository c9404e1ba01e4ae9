// Package awssim is EC2, AWS PCS and AWS Resource Groups on the wire, in memory, for tests and for the lab.
//
// One HTTP server on loopback speaks the real protocols: EC2 Query (form in, XML out, version 2016-11-15), awsJson1.0
// for PCS and restJson1 for Resource Groups, of which it has Capacity Reservation groups only. The unmodified AWS SDK
// and AWS CLI talk to it when AWS_ENDPOINT_URL names it. Service and region of a request come from its SigV4 credential
// scope; signatures are not checked.
//
// The world comes from a [Scenario]; its time from a [Clock], which can be set, moved and sped up, and which the Date
// header of every answer shows. What time changes (a block opens, EC2 reclaims it) happens by the clock, with or
// without requests. Instances are not real: to run something for them, listen with [Sim.OnInstance].
//
// Under /_sim/ the same server takes control requests: capacity, clock, faults, lag, ledger, instances.
//
// A request that the simulator does not understand is an error that names the operation or the
// parameter. A launch template keeps what it does not understand.
package awssim
