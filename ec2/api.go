package ec2

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

// call is one operation of EC2's API.
type call[In, Out any] func(context.Context, *In, ...func(*ec2.Options)) (*Out, error)

// api holds the operations of EC2 that we call. The linker keeps each method of a type that is
// reached through an interface: of *ec2.Client, some 800, which are 35 MB.
// So *ec2.Client stays in newAPI, and paginators get an *api.
type api struct {
	CancelCapacityReservation           call[ec2.CancelCapacityReservationInput, ec2.CancelCapacityReservationOutput]
	CreateCapacityReservation           call[ec2.CreateCapacityReservationInput, ec2.CreateCapacityReservationOutput]
	CreateLaunchTemplate                call[ec2.CreateLaunchTemplateInput, ec2.CreateLaunchTemplateOutput]
	CreateLaunchTemplateVersion         call[ec2.CreateLaunchTemplateVersionInput, ec2.CreateLaunchTemplateVersionOutput]
	CreateTags                          call[ec2.CreateTagsInput, ec2.CreateTagsOutput]
	DeleteLaunchTemplate                call[ec2.DeleteLaunchTemplateInput, ec2.DeleteLaunchTemplateOutput]
	DescribeAvailabilityZones           call[ec2.DescribeAvailabilityZonesInput, ec2.DescribeAvailabilityZonesOutput]
	DescribeCapacityReservationTopology call[ec2.DescribeCapacityReservationTopologyInput, ec2.DescribeCapacityReservationTopologyOutput]
	DescribeImages                      call[ec2.DescribeImagesInput, ec2.DescribeImagesOutput]
	DescribeInstanceTopology            call[ec2.DescribeInstanceTopologyInput, ec2.DescribeInstanceTopologyOutput]
	DescribeKeyPairs                    call[ec2.DescribeKeyPairsInput, ec2.DescribeKeyPairsOutput]
	DescribeLaunchTemplateVersions      call[ec2.DescribeLaunchTemplateVersionsInput, ec2.DescribeLaunchTemplateVersionsOutput]
	DescribePlacementGroups             call[ec2.DescribePlacementGroupsInput, ec2.DescribePlacementGroupsOutput]
	DescribeRegions                     call[ec2.DescribeRegionsInput, ec2.DescribeRegionsOutput]
	GetInstanceMetadataDefaults         call[ec2.GetInstanceMetadataDefaultsInput, ec2.GetInstanceMetadataDefaultsOutput]
	PurchaseCapacityBlock               call[ec2.PurchaseCapacityBlockInput, ec2.PurchaseCapacityBlockOutput]
	PurchaseCapacityBlockExtension      call[ec2.PurchaseCapacityBlockExtensionInput, ec2.PurchaseCapacityBlockExtensionOutput]
	RunInstances                        call[ec2.RunInstancesInput, ec2.RunInstancesOutput]
	TerminateInstances                  call[ec2.TerminateInstancesInput, ec2.TerminateInstancesOutput]

	// Paginators call these through methods.
	describeCapacityBlockExtensionHistory   call[ec2.DescribeCapacityBlockExtensionHistoryInput, ec2.DescribeCapacityBlockExtensionHistoryOutput]
	describeCapacityBlockExtensionOfferings call[ec2.DescribeCapacityBlockExtensionOfferingsInput, ec2.DescribeCapacityBlockExtensionOfferingsOutput]
	describeCapacityBlockOfferings          call[ec2.DescribeCapacityBlockOfferingsInput, ec2.DescribeCapacityBlockOfferingsOutput]
	describeCapacityBlockStatus             call[ec2.DescribeCapacityBlockStatusInput, ec2.DescribeCapacityBlockStatusOutput]
	describeCapacityBlocks                  call[ec2.DescribeCapacityBlocksInput, ec2.DescribeCapacityBlocksOutput]
	describeCapacityReservations            call[ec2.DescribeCapacityReservationsInput, ec2.DescribeCapacityReservationsOutput]
	describeInstanceStatus                  call[ec2.DescribeInstanceStatusInput, ec2.DescribeInstanceStatusOutput]
	describeInstanceTypes                   call[ec2.DescribeInstanceTypesInput, ec2.DescribeInstanceTypesOutput]
	describeInstances                       call[ec2.DescribeInstancesInput, ec2.DescribeInstancesOutput]
	describeLaunchTemplates                 call[ec2.DescribeLaunchTemplatesInput, ec2.DescribeLaunchTemplatesOutput]
	describeRouteTables                     call[ec2.DescribeRouteTablesInput, ec2.DescribeRouteTablesOutput]
	describeVpcEndpoints                    call[ec2.DescribeVpcEndpointsInput, ec2.DescribeVpcEndpointsOutput]
	describeSecurityGroups                  call[ec2.DescribeSecurityGroupsInput, ec2.DescribeSecurityGroupsOutput]
	describeSubnets                         call[ec2.DescribeSubnetsInput, ec2.DescribeSubnetsOutput]
}

func newAPI(c *ec2.Client) *api {
	return &api{
		CancelCapacityReservation:           c.CancelCapacityReservation,
		CreateCapacityReservation:           c.CreateCapacityReservation,
		CreateLaunchTemplate:                c.CreateLaunchTemplate,
		CreateLaunchTemplateVersion:         c.CreateLaunchTemplateVersion,
		CreateTags:                          c.CreateTags,
		DeleteLaunchTemplate:                c.DeleteLaunchTemplate,
		DescribeAvailabilityZones:           c.DescribeAvailabilityZones,
		DescribeCapacityReservationTopology: c.DescribeCapacityReservationTopology,
		DescribeImages:                      c.DescribeImages,
		DescribeInstanceTopology:            c.DescribeInstanceTopology,
		DescribeKeyPairs:                    c.DescribeKeyPairs,
		DescribeLaunchTemplateVersions:      c.DescribeLaunchTemplateVersions,
		DescribePlacementGroups:             c.DescribePlacementGroups,
		DescribeRegions:                     c.DescribeRegions,
		GetInstanceMetadataDefaults:         c.GetInstanceMetadataDefaults,
		PurchaseCapacityBlock:               c.PurchaseCapacityBlock,
		PurchaseCapacityBlockExtension:      c.PurchaseCapacityBlockExtension,
		RunInstances:                        c.RunInstances,
		TerminateInstances:                  c.TerminateInstances,

		describeCapacityBlockExtensionHistory:   c.DescribeCapacityBlockExtensionHistory,
		describeCapacityBlockExtensionOfferings: c.DescribeCapacityBlockExtensionOfferings,
		describeCapacityBlockOfferings:          c.DescribeCapacityBlockOfferings,
		describeCapacityBlockStatus:             c.DescribeCapacityBlockStatus,
		describeCapacityBlocks:                  c.DescribeCapacityBlocks,
		describeCapacityReservations:            c.DescribeCapacityReservations,
		describeInstanceStatus:                  c.DescribeInstanceStatus,
		describeInstanceTypes:                   c.DescribeInstanceTypes,
		describeInstances:                       c.DescribeInstances,
		describeLaunchTemplates:                 c.DescribeLaunchTemplates,
		describeRouteTables:                     c.DescribeRouteTables,
		describeVpcEndpoints:                    c.DescribeVpcEndpoints,
		describeSecurityGroups:                  c.DescribeSecurityGroups,
		describeSubnets:                         c.DescribeSubnets,
	}
}

// DescribeCapacityBlockExtensionHistory calls the operation of that name.
func (a *api) DescribeCapacityBlockExtensionHistory(ctx context.Context, in *ec2.DescribeCapacityBlockExtensionHistoryInput, options ...func(*ec2.Options)) (*ec2.DescribeCapacityBlockExtensionHistoryOutput, error) {
	return a.describeCapacityBlockExtensionHistory(ctx, in, options...)
}

// DescribeCapacityBlockExtensionOfferings calls the operation of that name.
func (a *api) DescribeCapacityBlockExtensionOfferings(ctx context.Context, in *ec2.DescribeCapacityBlockExtensionOfferingsInput, options ...func(*ec2.Options)) (*ec2.DescribeCapacityBlockExtensionOfferingsOutput, error) {
	return a.describeCapacityBlockExtensionOfferings(ctx, in, options...)
}

// DescribeCapacityBlockOfferings calls the operation of that name.
func (a *api) DescribeCapacityBlockOfferings(ctx context.Context, in *ec2.DescribeCapacityBlockOfferingsInput, options ...func(*ec2.Options)) (*ec2.DescribeCapacityBlockOfferingsOutput, error) {
	return a.describeCapacityBlockOfferings(ctx, in, options...)
}

// DescribeCapacityBlockStatus calls the operation of that name.
func (a *api) DescribeCapacityBlockStatus(ctx context.Context, in *ec2.DescribeCapacityBlockStatusInput, options ...func(*ec2.Options)) (*ec2.DescribeCapacityBlockStatusOutput, error) {
	return a.describeCapacityBlockStatus(ctx, in, options...)
}

// DescribeCapacityBlocks calls the operation of that name.
func (a *api) DescribeCapacityBlocks(ctx context.Context, in *ec2.DescribeCapacityBlocksInput, options ...func(*ec2.Options)) (*ec2.DescribeCapacityBlocksOutput, error) {
	return a.describeCapacityBlocks(ctx, in, options...)
}

// DescribeCapacityReservations calls the operation of that name.
func (a *api) DescribeCapacityReservations(ctx context.Context, in *ec2.DescribeCapacityReservationsInput, options ...func(*ec2.Options)) (*ec2.DescribeCapacityReservationsOutput, error) {
	return a.describeCapacityReservations(ctx, in, options...)
}

// DescribeInstanceStatus calls the operation of that name.
func (a *api) DescribeInstanceStatus(ctx context.Context, in *ec2.DescribeInstanceStatusInput, options ...func(*ec2.Options)) (*ec2.DescribeInstanceStatusOutput, error) {
	return a.describeInstanceStatus(ctx, in, options...)
}

// DescribeInstanceTypes calls the operation of that name.
func (a *api) DescribeInstanceTypes(ctx context.Context, in *ec2.DescribeInstanceTypesInput, options ...func(*ec2.Options)) (*ec2.DescribeInstanceTypesOutput, error) {
	return a.describeInstanceTypes(ctx, in, options...)
}

// DescribeInstances calls the operation of that name.
func (a *api) DescribeInstances(ctx context.Context, in *ec2.DescribeInstancesInput, options ...func(*ec2.Options)) (*ec2.DescribeInstancesOutput, error) {
	return a.describeInstances(ctx, in, options...)
}

// DescribeLaunchTemplates calls the operation of that name.
func (a *api) DescribeLaunchTemplates(ctx context.Context, in *ec2.DescribeLaunchTemplatesInput, options ...func(*ec2.Options)) (*ec2.DescribeLaunchTemplatesOutput, error) {
	return a.describeLaunchTemplates(ctx, in, options...)
}

// DescribeRouteTables calls the operation of that name.
func (a *api) DescribeRouteTables(ctx context.Context, in *ec2.DescribeRouteTablesInput, options ...func(*ec2.Options)) (*ec2.DescribeRouteTablesOutput, error) {
	return a.describeRouteTables(ctx, in, options...)
}

// DescribeVpcEndpoints calls the operation of that name.
func (a *api) DescribeVpcEndpoints(ctx context.Context, in *ec2.DescribeVpcEndpointsInput, options ...func(*ec2.Options)) (*ec2.DescribeVpcEndpointsOutput, error) {
	return a.describeVpcEndpoints(ctx, in, options...)
}

// DescribeSecurityGroups calls the operation of that name.
func (a *api) DescribeSecurityGroups(ctx context.Context, in *ec2.DescribeSecurityGroupsInput, options ...func(*ec2.Options)) (*ec2.DescribeSecurityGroupsOutput, error) {
	return a.describeSecurityGroups(ctx, in, options...)
}

// DescribeSubnets calls the operation of that name.
func (a *api) DescribeSubnets(ctx context.Context, in *ec2.DescribeSubnetsInput, options ...func(*ec2.Options)) (*ec2.DescribeSubnetsOutput, error) {
	return a.describeSubnets(ctx, in, options...)
}
