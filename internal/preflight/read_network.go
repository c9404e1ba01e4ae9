package preflight

import (
	"context"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// ReadNetwork completes subnets known by id only, and security groups of the template and of
// ClusterGroups.
func ReadNetwork(ctx context.Context, aws *ec2.Client, s Seen) (Seen, error) {
	n := &s.Network
	n.Region = aws.Region()
	reads, readCtx := errgroup.WithContext(ctx)
	reads.Go(func() error {
		found, err := aws.DetailedSubnets(readCtx, union(ids(n.Subnets), ids(n.ClusterSubnets)))
		known := func(of []ec2.Subnet) []ec2.Subnet {
			return slices.DeleteFunc(slices.Clone(found), func(one ec2.Subnet) bool { return !slices.Contains(ids(of), one.ID) })
		}
		n.Subnets, n.ClusterSubnets = known(n.Subnets), known(n.ClusterSubnets)
		return err
	})
	reads.Go(func() (err error) {
		n.Groups, err = aws.SecurityGroups(readCtx, union(s.Template.SecurityGroupIDs, n.ClusterGroups))
		return err
	})
	if err := reads.Wait(); err != nil || len(n.Subnets) == 0 || !s.CallsAWS() {
		return s, err
	}
	var err error
	if n.Tables, err = aws.RouteTables(ctx, n.Subnets[0].VPC); err != nil {
		return s, err
	}
	return ReadEndpoints(ctx, aws, s)
}

// ReadEndpoints reads the VPC's endpoints and their security groups if nodes depend on them.
func ReadEndpoints(ctx context.Context, aws *ec2.Client, s Seen) (Seen, error) {
	if !s.UsesEndpoints() {
		return s, nil
	}
	n := &s.Network
	endpoints, err := aws.Endpoints(ctx, n.Subnets[0].VPC)
	if err != nil {
		return s, err
	}
	n.Endpoints = append([]ec2.Endpoint{}, endpoints...) // not nil: they were read
	groups, err := aws.SecurityGroups(ctx, n.endpoint("pcs").SecurityGroups)
	if err == nil {
		maps.Copy(groups, n.Groups)
		n.Groups = groups
	}
	return s, err
}

// ReadRole asks IAM for the role of an instance profile.
func ReadRole(ctx context.Context, aws *pcs.Client, profile string) (Profile, error) {
	role, err := aws.RoleOf(ctx, profile)
	if pcs.Code(err) == "NoSuchEntity" {
		return Profile{Missing: true}, nil
	}
	return Profile{Role: role, NoRole: err == nil && role == pcs.Role{}}, err
}

// ReadRights asks IAM whether nodes with the role of a profile can join a cluster.
func ReadRights(ctx context.Context, aws *pcs.Client, p Profile, clusterARN string) (Profile, error) {
	if !p.Role.Taken() || p.Role.ARN == "" || clusterARN == "" {
		return p, nil
	}
	allowed, err := aws.Registers(ctx, p.Role, clusterARN)
	p.CannotRegister = err == nil && !allowed
	return p, err
}

func ids(subnets []ec2.Subnet) (all []string) {
	for _, one := range subnets {
		all = append(all, one.ID)
	}
	return all
}

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}
