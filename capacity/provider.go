package capacity

// Provider says who launches a partition's nodes.
type Provider string

// The providers.
const (
	ProviderEC2  Provider = "ec2"  // our ResumeProgram
	ProviderPCS  Provider = "pcs"  // PCS, from node groups that setup and sync make
	ProviderNone Provider = "none" // somebody else: we are guests there
)

// Known reports whether there is such a provider.
func (p Provider) Known() bool { return p.Launches() || p.Configures() || p.Guest() }

// Launches reports whether our hooks launch the nodes. Only then do they and sync power nodes up and down, set their
// addresses, and end instances.
func (p Provider) Launches() bool { return p == ProviderEC2 }

// Configures reports whether setup and sync make the compute node groups that PCS launches from. PCS itself keeps jobs
// from their nodes until a block opens.
func (p Provider) Configures() bool { return p == ProviderPCS }

// Guest reports whether the nodes are somebody else's. They are fenced, and their jobs get limits. Nothing launches or
// ends an instance for them, powers them, or sets their state or address.
func (p Provider) Guest() bool { return p == ProviderNone }

// GuardFlags are those of our Slurm reservations. Both forms keep jobs out, lie over running jobs and beside other
// reservations (seen on 22.05 and 24.11). MAINT marks the nodes as in maintenance, which other launchers act
// on: ParallelCluster 3.8 to 3.15.1 ends a static node in maintenance while it boots. So a guest does without it.
func (p Provider) GuardFlags() []string {
	if p.Guest() {
		return []string{"OVERLAP", "IGNORE_JOBS"}
	}
	return []string{"MAINT", "IGNORE_JOBS"}
}
