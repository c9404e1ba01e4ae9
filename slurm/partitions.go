package slurm

import (
	"context"
	"fmt"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Partition is a Slurm partition; PCS calls it a queue.
type Partition struct {
	Name          string
	Default       bool           // jobs without -p go there
	State         string         // UP, DOWN, DRAIN, INACTIVE
	Nodes         string         // hostlist; empty: none
	MaxTime       capacity.Limit // not set only when Slurm does not print it
	DefaultTime   capacity.Limit // not set: MaxTime applies
	AllowAccounts []string       // empty: every account
	AllowGroups   []string       // empty: every Unix group
	QOS           string         // whose limits hold for all its jobs; empty: none
	ResumeTimeout time.Duration  // 0: that of slurm.conf
	SuspendTime   time.Duration  // 0: that of slurm.conf; Never: idle nodes stay up
}

// Partitions returns all partitions, hidden ones too.
func (c *Client) Partitions(ctx context.Context) ([]Partition, error) {
	out, err := c.run(ctx, "scontrol", "--all", "--oneliner", "show", "partition")
	if err != nil {
		return nil, fmt.Errorf("listing partitions: %w", err)
	}
	return parsePartitions(out)
}

func parsePartitions(output []byte) ([]Partition, error) {
	var partitions []Partition
	for _, line := range records(output, "PartitionName") {
		pairs := fields(line)
		partition := Partition{
			Name:    pairs["PartitionName"],
			Default: pairs["Default"] == "YES",
			State:   pairs["State"],
			Nodes:   pairs["Nodes"],
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
		if partition.MaxTime, err = ParseLimit(pairs["MaxTime"]); err != nil {
			return nil, fmt.Errorf("partition %s: MaxTime: %w", partition.Name, err)
		}
		if partition.DefaultTime, err = ParseLimit(pairs["DefaultTime"]); err != nil {
			return nil, fmt.Errorf("partition %s: DefaultTime: %w", partition.Name, err)
		}
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
