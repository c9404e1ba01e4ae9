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
	return parsePartitions(out), nil
}

func parsePartitions(output []byte) []capacity.SlurmPartition {
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
		u := unread{pairs: pairs}
		partition.Nodes = readKey(&u, "Nodes", Expand)
		partition.MaxTime = readKey(&u, "MaxTime", capacity.ParseLimit)
		partition.DefaultTime = readKey(&u, "DefaultTime", capacity.ParseLimit)
		partition.DefaultTime = cmp.Or(partition.DefaultTime, partition.MaxTime) // as Slurm does
		partition.OverTime = readKey(&u, "OverTimeLimit", overTime)
		partition.ResumeTimeout = readKey(&u, "ResumeTimeout", partitionSeconds)
		partition.SuspendTime = readKey(&u, "SuspendTime", partitionSeconds)
		partition.Unread = u.text
		partitions = append(partitions, partition)
	}
	return partitions
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
