package setup

import (
	"context"
	"os"
	"time"

	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// endTime is how long the end of a change may take, after an interrupt too.
const endTime = 10 * time.Second

// BeginChange locks out other hosts until end is called.
func BeginChange(ctx context.Context, aws *ec2.Client, change ec2.Change) (end func() error, err error) {
	endAWS, err := aws.BeginChange(ctx, change)
	if err != nil {
		return nil, err
	}
	return func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
		defer cancel()
		return endAWS(ctx)
	}, nil
}

// Change describes this process's change of a PCS cluster to other hosts.
func Change(stateDir, settings string, cluster pcs.Cluster) ec2.Change {
	host, _ := os.Hostname()
	return ec2.Change{
		Cluster: cluster.ID,
		Mark:    cluster.Name,
		Owner:   state.OwnerOf(state.Dir(stateDir), settings).ID,
		Host:    host,
		PID:     os.Getpid(),
	}
}
