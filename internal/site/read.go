package site

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// Unread is why parts of a launch are not known; nil for a part that was read.
type Unread struct {
	// Image is of the image and the instance type, Defaults of the account's, Profile of IAM's answers; NotSimulated:
	// the role is known.
	Image, Defaults, Profile error
	NotSimulated             bool
	// Names is of the key pair and the security groups, Network of subnets, routes and endpoints.
	Names, Network error
}

// Read completes a launch from EC2 and IAM, side by side. What cannot be read stays as it is.
func (l Launch) Read(ctx context.Context, aws *ec2.Client, iam *pcs.Client) (Launch, Unread) {
	var not Unread
	var key error
	var all sync.WaitGroup
	all.Go(func() { not.Image = l.readImage(ctx, aws) })
	all.Go(func() { not.Names, not.Network = l.readNetwork(ctx, aws) })
	if name := l.Template.KeyName; name != "" {
		all.Go(func() {
			has, err := aws.HasKeyPair(ctx, name)
			l.NoKeyPair, key = err == nil && !has, err
		})
	}
	if !l.Brief {
		all.Go(func() { l.MetadataTags, not.Defaults = aws.MetadataTagsByDefault(ctx) })
	}
	if l.Template.InstanceProfile != "" && !l.Brief {
		all.Go(func() { not.NotSimulated, not.Profile = l.readProfile(ctx, iam) })
	}
	all.Wait()
	not.Names = errors.Join(not.Names, key)
	return l, not
}

// mostSources bounds the images that are read behind one.
const mostSources = 3

// readImage reads the type and the image. If it claims no drivers for the type, the words of its readable source
// images are added.
func (l *Launch) readImage(ctx context.Context, aws *ec2.Client) (err error) {
	if l.Type.Name == "" {
		types, failed := aws.InstanceTypes(ctx, []string{l.Template.InstanceType})
		l.Type, err = types[l.Template.InstanceType], failed
	}
	id := l.Template.ImageID
	if !strings.HasPrefix(id, "ami-") { // Systems Manager names it
		return err
	}
	image, failed := aws.Image(ctx, id)
	source := image.Source
	for n := 0; failed == nil && !l.Brief && source != "" && n < mostSources && l.Type.GPUs > 0 && !saysDrivers(image, l.Type); n++ {
		from, err := aws.Image(ctx, source)
		if err != nil { // gone, or of an account that does not share it
			break
		}
		image.Says, source = image.Says+" "+from.Says, from.Source
	}
	l.Image = image
	return errors.Join(err, failed)
}

// readProfile asks IAM for the role of the instance profile, and on PCS whether nodes with it can join the cluster.
func (l *Launch) readProfile(ctx context.Context, iam *pcs.Client) (notSimulated bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callerTime)
	defer cancel()
	p := &l.Profile
	p.Role, err = iam.RoleOf(ctx, l.Template.InstanceProfile)
	if pcs.Code(err) == "NoSuchEntity" {
		p.Missing = true
		return false, nil
	}
	p.NoRole = err == nil && p.Role == pcs.Role{}
	if err != nil || !p.Role.Taken() || p.Role.ARN == "" || l.ClusterARN == "" {
		return false, err
	}
	allowed, err := iam.Registers(ctx, p.Role, l.ClusterARN)
	p.CannotRegister = err == nil && !allowed
	return true, err
}

// readNetwork reads the security groups and, of subnets known by their ids only, the rest; the route tables if nodes
// call AWS, and the endpoints if they depend on them.
func (l *Launch) readNetwork(ctx context.Context, aws *ec2.Client) (groups, err error) {
	n := &l.Network
	n.Region = aws.Region()
	var reads sync.WaitGroup
	reads.Go(func() {
		n.Groups, groups = aws.SecurityGroups(ctx, union(l.Template.SecurityGroupIDs, n.ClusterGroups))
	})
	reads.Go(func() {
		if len(n.Subnets) > 0 && n.Subnets[0].VPC == "" {
			var found []ec2.Subnet
			found, _, err = aws.DetailedSubnets(ctx, union(ids(n.Subnets), ids(n.ClusterSubnets)))
			known := func(of []ec2.Subnet) []ec2.Subnet {
				return slices.DeleteFunc(slices.Clone(found), func(one ec2.Subnet) bool { return !slices.Contains(ids(of), one.ID) })
			}
			n.Subnets, n.ClusterSubnets = known(n.Subnets), known(n.ClusterSubnets)
		}
		if err == nil && len(n.Subnets) > 0 && !l.Brief && l.CallsAWS() {
			n.Tables, err = aws.RouteTables(ctx, n.Subnets[0].VPC)
		}
	})
	reads.Wait()
	if err != nil || l.Brief || !l.UsesEndpoints() {
		return groups, err
	}
	endpoints, err := aws.Endpoints(ctx, n.Subnets[0].VPC)
	if err != nil {
		return groups, err
	}
	n.Endpoints = append([]ec2.Endpoint{}, endpoints...) // not nil: they were read
	ofEndpoint, err := aws.SecurityGroups(ctx, n.endpoint("pcs").SecurityGroups)
	if err == nil && groups == nil {
		maps.Copy(ofEndpoint, n.Groups)
		n.Groups = ofEndpoint
	}
	return groups, err
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
