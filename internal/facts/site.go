package facts

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// Site holds what was read of a cluster. What was not found is zero; what could not be read has its error.
type Site struct {
	Provider capacity.Provider // launches the nodes in question; "" stands for PCS
	Region   string
	Now      time.Time // AWS's time
	// Inventory is the PCS cluster with its node groups and queues. On self-managed Slurm it has the mark alone, as the
	// cluster's name.
	pcs.Inventory
	SlurmErr error // why Slurm does not answer
}

// OnEC2 reports whether the cluster is self-managed Slurm, where our ResumeProgram launches nodes.
func (s *Site) OnEC2() bool { return s.Provider.Launches() }

// Owns reports whether tags carry our mark for the cluster (R9).
func (s *Site) Owns(tags map[string]string) bool { return s.Cluster.Owns(tags) }

// PCS answers questions about clusters, as the adapter pcs and the model do.
type PCS interface {
	Inventory(ctx context.Context, cluster string) (pcs.Inventory, error)
	Clusters(ctx context.Context) ([]pcs.Cluster, error)
}

// ReadCluster reads the PCS cluster by name or id, by default the only one of the region, or says which there are.
func (s *Site) ReadCluster(
	ctx context.Context, aws PCS, cluster string,
) (missing *capacity.Problem, err error) {
	what := "no cluster is given"
	fix := "name it with --cluster: "
	if cluster != "" {
		s.Inventory, err = aws.Inventory(ctx, cluster)
		if err == nil || !pcs.IsNotFound(err) {
			return nil, err
		}

		what = fmt.Sprintf("there is no PCS cluster %q in %s (%s)", cluster, s.Region,
			pcs.Code(err))
		fix = "use one of "
	}

	clusters, err := aws.Clusters(ctx)
	if err != nil {
		return nil, err
	}

	var names []string
	for _, c := range clusters {
		names = append(names, c.Name)
	}

	fix += strings.Join(names, ", ")
	switch {
	case cluster == "" && len(names) == 1:
		return s.ReadCluster(ctx, aws, names[0])
	case len(names) == 0:
		fix = "check --region; there is no PCS cluster in " + s.Region + ". For self-managed Slurm add " +
			"--provider ec2"
	}

	no := capacity.Problemf(capacity.NoCluster, capacity.Subject{}, fix, "%s", what)

	return &no, nil
}
