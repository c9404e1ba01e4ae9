package ec2

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

func instance(a types.Instance) capacity.Instance {
	i := capacity.Instance{
		ID:            aws.ToString(a.InstanceId),
		PrivateIP:     aws.ToString(a.PrivateIpAddress),
		Type:          string(a.InstanceType),
		SubnetID:      aws.ToString(a.SubnetId),
		ReservationID: aws.ToString(a.CapacityReservationId),
		BlockID:       aws.ToString(a.CapacityBlockId),
		LaunchIndex:   int(aws.ToInt32(a.AmiLaunchIndex)),
		Launched:      aws.ToTime(a.LaunchTime),
		Tags:          tagMap(a.Tags),
	}
	if a.State != nil {
		i.State = string(a.State.Name)
	}

	return i
}

// networkInterface translates an interface; EC2 leaves out the type "interface".
func networkInterface(card, device *int32, kind *string) capacity.Interface {
	return capacity.Interface{
		Card:   int(aws.ToInt32(card)),
		Device: int(aws.ToInt32(device)),
		Type:   cmp.Or(aws.ToString(kind), plainInterface),
	}
}

// maxFilterValues bounds the values of one filter.
const maxFilterValues = 200

// FindInstances describes the selected instances.
func (c *Client) FindInstances(ctx context.Context, q capacity.InstanceQuery) (found []capacity.Instance, err error) {
	var filters []types.Filter
	for key, values := range q.Tags {
		if len(values) == 0 {
			return nil, nil
		}

		filters = append(filters, tagFilter(key, values...))
	}

	if q.ClusterName != "" { // older versions marked with the name alone
		name := filterEscapes.Replace(q.ClusterName)
		filters = append(filters, filter("tag:"+capacity.TagCluster, name, capacity.ClusterMark(name, "*")))
	}

	if q.Reservation != "" {
		filters = append(filters, filter("capacity-reservation-id", q.Reservation))
	}

	ids := unique(q.IDs)
	switch {
	case len(ids) == 0 && len(filters) == 0:
		return nil, errors.New("describing instances: nothing selects any, which would select all")
	case len(ids) == 0:
		return c.instances(ctx, filters...)
	}

	for some := range slices.Chunk(ids, maxFilterValues) {
		more, err := c.instances(ctx, append(slices.Clone(filters), filter("instance-id", some...))...)
		if err != nil {
			return nil, err
		}

		found = append(found, more...)
	}

	return found, nil
}

func (c *Client) instances(ctx context.Context, filters ...types.Filter) ([]capacity.Instance, error) {
	alive := filter("instance-state-name", "pending", "running", "shutting-down", "stopping", "stopped")
	in := &ec2.DescribeInstancesInput{MaxResults: aws.Int32(pageSize), Filters: append(filters, alive)}

	return listAll(ctx, c, "describing instances", c.api.DescribeInstances, in,
		func(page *ec2.DescribeInstancesOutput) (all []capacity.Instance) {
			for _, launch := range page.Reservations {
				for _, a := range launch.Instances {
					all = append(all, instance(a))
				}
			}

			return all
		})
}

// Terminate terminates instances. An instance that is gone is no error. EC2 may also deny that a
// new instance exists: Terminate does not believe that at once, and never within youngTime of a
// launch.
func (c *Client) Terminate(ctx context.Context, instances []capacity.Instance) error {
	launched := map[string]time.Time{}
	for _, i := range instances {
		launched[i.ID] = i.Launched
	}

	young := func(id string) bool { return c.Now().Sub(launched[id]) < youngTime }
	// EC2 takes 1000 instances in one call.
	for some := range slices.Chunk(slices.Sorted(maps.Keys(launched)), pageSize) {
		left := some
		err := c.retryWhile(ctx, isInstanceMissing, func() error {
			bad, err := skipBadIDs(left, goneInstanceID, func(ids []string) error {
				_, err := c.api.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids})
				return err
			})
			if err != nil || len(bad) == 0 {
				return err
			}

			left = slices.Sorted(maps.Keys(bad))

			return bad[left[0]]
		})
		if isInstanceMissing(err) && !slices.ContainsFunc(left, young) {
			continue
		}

		if err != nil {
			return fmt.Errorf("terminating instances in %s: %w", c.region, err)
		}
	}

	return nil
}

// youngTime bounds how late EC2 shows a new instance.
const youngTime = 5 * time.Minute

// Impaired returns the running instances of this region whose host is impaired, or that EC2 is about to stop, restart
// or retire: what EC2 says, by instance. Without permission it is nothing: see Withheld.
func (c *Client) Impaired(ctx context.Context) (map[string]string, error) {
	// EC2 shows what matches all filters of a call, so each has a call of its own.
	filters := []types.Filter{
		filter("system-status.status", "impaired"),
		filter("event.code", "instance-retirement", "instance-stop", "instance-reboot", "system-reboot",
			"system-maintenance"),
	}
	found := make([][]types.InstanceStatus, len(filters))

	reads, ctx := errgroup.WithContext(ctx)
	for i, which := range filters {
		reads.Go(func() (err error) {
			found[i], err = listAll(ctx, c, "describing the status of instances", c.api.DescribeInstanceStatus,
				&ec2.DescribeInstanceStatusInput{Filters: []types.Filter{which}},
				func(page *ec2.DescribeInstanceStatusOutput) []types.InstanceStatus { return page.InstanceStatuses })
			return err
		})
	}

	err := reads.Wait()
	switch {
	case isDenied(err):
		c.addWithheld(err, "EC2 does not say which hosts in "+c.region+" are impaired or about to be retired")
		return nil, nil
	case err != nil:
		return nil, err
	}

	said := map[string]string{}
	for _, s := range slices.Concat(found...) {
		id := aws.ToString(s.InstanceId)
		if s.SystemStatus != nil && s.SystemStatus.Status == types.SummaryStatusImpaired {
			said[id] = "its host is impaired"
		}

		for _, e := range s.Events {
			said[id] = fmt.Sprintf("%s, not before %s: %s", e.Code,
				aws.ToTime(e.NotBefore).UTC().Format(time.RFC3339), aws.ToString(e.Description))
		}
	}

	return said, nil
}

// EC2 bounds the ids of one call.
const (
	maxReservationTopologies = 10
	maxInstanceTopologies    = 100
)

// ReservationTopology locates reservations in the network: the ids of network nodes, from the top down. EC2 leaves out
// reservations that are neither active nor pending, and types without topology. A bad id never hides the others (R8).
func (c *Client) ReservationTopology(ctx context.Context, ids []string) (map[string][]string, error) {
	found := map[string][]string{}
	err := c.locate(ids, maxReservationTopologies, badReservationID, func(ids []string) error {
		in := &ec2.DescribeCapacityReservationTopologyInput{CapacityReservationIds: ids}

		out, err := c.api.DescribeCapacityReservationTopology(ctx, in)
		if err != nil {
			return err
		}

		for _, r := range out.CapacityReservations {
			found[aws.ToString(r.CapacityReservationId)] = r.NetworkNodes
		}

		return nil
	})

	return found, err
}

// InstanceTopology locates running instances, each down to the network node that it is at, which EC2 does not say of
// every reservation.
func (c *Client) InstanceTopology(ctx context.Context, ids []string) (map[string][]string, error) {
	found := map[string][]string{}
	pace := rate.NewLimiter(rate.Every(time.Second), 1) // EC2 allows one call a second: Request throttling

	err := c.locate(ids, maxInstanceTopologies, goneInstanceID, func(ids []string) error {
		if err := pace.Wait(ctx); err != nil {
			return err
		}

		out, err := c.api.DescribeInstanceTopology(ctx, &ec2.DescribeInstanceTopologyInput{InstanceIds: ids})
		if err != nil {
			return err
		}

		for _, i := range out.Instances {
			found[aws.ToString(i.InstanceId)] = i.NetworkNodes
		}

		return nil
	})

	return found, err
}

// locate calls describe with ids, at most so many at a time, and without bad ones.
func (c *Client) locate(ids []string, most int, badID string, describe func(ids []string) error) error {
	for some := range slices.Chunk(unique(ids), most) {
		if _, err := skipBadIDs(some, badID, describe); err != nil {
			return fmt.Errorf("reading the topology of the network of %s: %w", c.region, err)
		}
	}

	return nil
}

// accountTime bounds the question of whose account this is: some networks, as a subnet without a way out, cannot reach
// the endpoint of AWS STS.
const accountTime = 5 * time.Second

// Account returns the id, twelve digits, of the account that the credentials belong to. Many credentials carry it; for
// others it takes one call of AWS STS, which needs no permission, only a way to its endpoint.
func (c *Client) Account(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, accountTime)
	defer cancel()

	account, _, err := c.Shared().Account(ctx)
	if err != nil {
		return "", fmt.Errorf("reading the AWS credentials: %w", err)
	}

	if account != "" {
		return account, nil
	}

	out, err := sts.NewFromConfig(c.shared.Config).GetCallerIdentity(ctx, nil)
	if err != nil {
		return "", fmt.Errorf("asking AWS STS whose the credentials are: %w", err)
	}

	return aws.ToString(out.Account), nil
}

// bootFailureLine is a line of an instance's console that says why it is no node: of our user data, or of slurmd.
var bootFailureLine = regexp.MustCompile(`(pcs-capacity: |slurmd: (fatal|error): )[[:print:]]{1,200}`)

// BootFailure returns the last line on an instance's console that says why it is no node; "" if there is none.
func (c *Client) BootFailure(ctx context.Context, id string) (string, error) {
	out, err := c.api.GetConsoleOutput(ctx, &ec2.GetConsoleOutputInput{InstanceId: &id, Latest: aws.Bool(true)})
	if err != nil {
		return "", fmt.Errorf("reading the console of %s: %w", id, err)
	}

	text, err := base64.StdEncoding.DecodeString(aws.ToString(out.Output))
	if err != nil {
		return "", fmt.Errorf("reading the console of %s: %w", id, err)
	}

	last := ""
	for _, line := range bootFailureLine.FindAll(text, -1) {
		last = string(line)
	}

	return last, nil
}
