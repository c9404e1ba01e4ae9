package slurm

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Partitions returns all partitions, hidden ones too.
func (c *Client) Partitions(ctx context.Context) ([]capacity.SlurmPartition, error) {
	out, err := c.run(ctx, "scontrol", "--all", "--oneliner", "show", "partition")
	if err != nil {
		return nil, fmt.Errorf("listing partitions: %w", err)
	}
	return parsePartitions(out)
}

func parsePartitions(output []byte) ([]capacity.SlurmPartition, error) {
	var partitions []capacity.SlurmPartition
	for _, line := range records(output, "PartitionName") {
		pairs := fields(line)
		partition := capacity.SlurmPartition{
			Name:    pairs["PartitionName"],
			Default: pairs["Default"] == "YES",
			State:   pairs["State"],
		}
		if qos := pairs["QoS"]; qos != "N/A" {
			partition.QOS = qos
		}
		if accounts := pairs["AllowAccounts"]; accounts != "ALL" {
			partition.AllowAccounts = splitList(accounts)
		}
		if groups := pairs["AllowGroups"]; groups != "ALL" {
			partition.AllowGroups = splitList(groups)
		}
		var err error
		if partition.Nodes, err = Expand(pairs["Nodes"]); err != nil {
			return nil, fmt.Errorf("partition %s: %w", partition.Name, err)
		}
		if partition.MaxTime, err = capacity.ParseLimit(pairs["MaxTime"]); err != nil {
			return nil, fmt.Errorf("partition %s: MaxTime: %w", partition.Name, err)
		}
		if partition.DefaultTime, err = capacity.ParseLimit(pairs["DefaultTime"]); err != nil {
			return nil, fmt.Errorf("partition %s: DefaultTime: %w", partition.Name, err)
		}
		partition.DefaultTime = cmp.Or(partition.DefaultTime, partition.MaxTime) // as Slurm does
		for key, into := range map[string]*time.Duration{"ResumeTimeout": &partition.ResumeTimeout, "SuspendTime": &partition.SuspendTime} {
			if *into, err = partitionSeconds(pairs[key]); err != nil {
				return nil, fmt.Errorf("partition %s: %s: %w", partition.Name, key, err)
			}
		}
		partitions = append(partitions, partition)
	}
	return partitions, nil
}

// partitionSeconds reads "30". GLOBAL leaves it to slurm.conf.
func partitionSeconds(text string) (time.Duration, error) {
	switch text {
	case "", "GLOBAL":
		return 0, nil
	case "INFINITE":
		return Never, nil
	}
	return configSeconds(text)
}
