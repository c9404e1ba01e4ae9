package ec2

import (
	"context"
	"reflect"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
)

// call is one operation of EC2's API.
type call[In, Out any] func(context.Context, *In, ...func(*ec2.Options)) (*Out, error)

// api holds the operations of EC2 that we call. The linker keeps each method of a type that is
// reached through an interface: of *ec2.Client, some 800, which are 35 MB.
// So *ec2.Client stays in newAPI, and [newPager] takes the place of the paginators.
type api struct {
	CancelCapacityReservation               call[ec2.CancelCapacityReservationInput, ec2.CancelCapacityReservationOutput]
	CreateCapacityReservation               call[ec2.CreateCapacityReservationInput, ec2.CreateCapacityReservationOutput]
	CreateLaunchTemplate                    call[ec2.CreateLaunchTemplateInput, ec2.CreateLaunchTemplateOutput]
	CreateLaunchTemplateVersion             call[ec2.CreateLaunchTemplateVersionInput, ec2.CreateLaunchTemplateVersionOutput]
	CreateTags                              call[ec2.CreateTagsInput, ec2.CreateTagsOutput]
	DeleteLaunchTemplate                    call[ec2.DeleteLaunchTemplateInput, ec2.DeleteLaunchTemplateOutput]
	DescribeAvailabilityZones               call[ec2.DescribeAvailabilityZonesInput, ec2.DescribeAvailabilityZonesOutput]
	DescribeCapacityReservationTopology     call[ec2.DescribeCapacityReservationTopologyInput, ec2.DescribeCapacityReservationTopologyOutput]
	DescribeInstanceTopology                call[ec2.DescribeInstanceTopologyInput, ec2.DescribeInstanceTopologyOutput]
	DescribeImages                          call[ec2.DescribeImagesInput, ec2.DescribeImagesOutput]
	DescribeLaunchTemplateVersions          call[ec2.DescribeLaunchTemplateVersionsInput, ec2.DescribeLaunchTemplateVersionsOutput]
	DescribeRegions                         call[ec2.DescribeRegionsInput, ec2.DescribeRegionsOutput]
	ModifyCapacityReservation               call[ec2.ModifyCapacityReservationInput, ec2.ModifyCapacityReservationOutput]
	GetConsoleOutput                        call[ec2.GetConsoleOutputInput, ec2.GetConsoleOutputOutput]
	PurchaseCapacityBlock                   call[ec2.PurchaseCapacityBlockInput, ec2.PurchaseCapacityBlockOutput]
	PurchaseCapacityBlockExtension          call[ec2.PurchaseCapacityBlockExtensionInput, ec2.PurchaseCapacityBlockExtensionOutput]
	RunInstances                            call[ec2.RunInstancesInput, ec2.RunInstancesOutput]
	TerminateInstances                      call[ec2.TerminateInstancesInput, ec2.TerminateInstancesOutput]
	DescribeCapacityBlockExtensionHistory   call[ec2.DescribeCapacityBlockExtensionHistoryInput, ec2.DescribeCapacityBlockExtensionHistoryOutput]
	DescribeCapacityBlockExtensionOfferings call[ec2.DescribeCapacityBlockExtensionOfferingsInput, ec2.DescribeCapacityBlockExtensionOfferingsOutput]
	DescribeCapacityBlockOfferings          call[ec2.DescribeCapacityBlockOfferingsInput, ec2.DescribeCapacityBlockOfferingsOutput]
	DescribeCapacityBlockStatus             call[ec2.DescribeCapacityBlockStatusInput, ec2.DescribeCapacityBlockStatusOutput]
	DescribeCapacityBlocks                  call[ec2.DescribeCapacityBlocksInput, ec2.DescribeCapacityBlocksOutput]
	DescribeCapacityReservations            call[ec2.DescribeCapacityReservationsInput, ec2.DescribeCapacityReservationsOutput]
	DescribeInstanceStatus                  call[ec2.DescribeInstanceStatusInput, ec2.DescribeInstanceStatusOutput]
	DescribeInstanceTypes                   call[ec2.DescribeInstanceTypesInput, ec2.DescribeInstanceTypesOutput]
	DescribeInstances                       call[ec2.DescribeInstancesInput, ec2.DescribeInstancesOutput]
	DescribeLaunchTemplates                 call[ec2.DescribeLaunchTemplatesInput, ec2.DescribeLaunchTemplatesOutput]
	DescribeRouteTables                     call[ec2.DescribeRouteTablesInput, ec2.DescribeRouteTablesOutput]
	DescribeVpcEndpoints                    call[ec2.DescribeVpcEndpointsInput, ec2.DescribeVpcEndpointsOutput]
	DescribeSecurityGroups                  call[ec2.DescribeSecurityGroupsInput, ec2.DescribeSecurityGroupsOutput]
	DescribeSubnets                         call[ec2.DescribeSubnetsInput, ec2.DescribeSubnetsOutput]
}

func newAPI(c *ec2.Client) *api {
	return &api{
		CancelCapacityReservation:               c.CancelCapacityReservation,
		CreateCapacityReservation:               c.CreateCapacityReservation,
		CreateLaunchTemplate:                    c.CreateLaunchTemplate,
		CreateLaunchTemplateVersion:             c.CreateLaunchTemplateVersion,
		CreateTags:                              c.CreateTags,
		DeleteLaunchTemplate:                    c.DeleteLaunchTemplate,
		DescribeAvailabilityZones:               c.DescribeAvailabilityZones,
		DescribeCapacityReservationTopology:     c.DescribeCapacityReservationTopology,
		DescribeInstanceTopology:                c.DescribeInstanceTopology,
		DescribeImages:                          c.DescribeImages,
		DescribeLaunchTemplateVersions:          c.DescribeLaunchTemplateVersions,
		DescribeRegions:                         c.DescribeRegions,
		ModifyCapacityReservation:               c.ModifyCapacityReservation,
		GetConsoleOutput:                        c.GetConsoleOutput,
		PurchaseCapacityBlock:                   c.PurchaseCapacityBlock,
		PurchaseCapacityBlockExtension:          c.PurchaseCapacityBlockExtension,
		RunInstances:                            c.RunInstances,
		TerminateInstances:                      c.TerminateInstances,
		DescribeCapacityBlockExtensionHistory:   c.DescribeCapacityBlockExtensionHistory,
		DescribeCapacityBlockExtensionOfferings: c.DescribeCapacityBlockExtensionOfferings,
		DescribeCapacityBlockOfferings:          c.DescribeCapacityBlockOfferings,
		DescribeCapacityBlockStatus:             c.DescribeCapacityBlockStatus,
		DescribeCapacityBlocks:                  c.DescribeCapacityBlocks,
		DescribeCapacityReservations:            c.DescribeCapacityReservations,
		DescribeInstanceStatus:                  c.DescribeInstanceStatus,
		DescribeInstanceTypes:                   c.DescribeInstanceTypes,
		DescribeInstances:                       c.DescribeInstances,
		DescribeLaunchTemplates:                 c.DescribeLaunchTemplates,
		DescribeRouteTables:                     c.DescribeRouteTables,
		DescribeVpcEndpoints:                    c.DescribeVpcEndpoints,
		DescribeSecurityGroups:                  c.DescribeSecurityGroups,
		DescribeSubnets:                         c.DescribeSubnets,
	}
}

// listAll reads what is on all pages of an operation; doing begins the words of an error.
func listAll[In, Out, A any](
	ctx context.Context, c *Client, doing string, call call[In, Out], in *In, on func(*Out) []A,
) ([]A, error) {
	return awsconfig.All(ctx, doing+" in "+c.region, newPager(call, in), on)
}

// pager is a paginator of an operation whose input and output have a NextToken.
type pager[In, Out any] struct {
	call  call[In, Out]
	in    *In
	begun bool
}

// newPager goes through the pages of an operation; see awsconfig.All.
func newPager[In, Out any](call call[In, Out], in *In) *pager[In, Out] {
	return &pager[In, Out]{call: call, in: in}
}

// HasMorePages reports whether there may be another page.
func (p *pager[In, Out]) HasMorePages() bool { return !p.begun || aws.ToString(*nextToken(p.in)) != "" }

// NextPage reads a page. After an error it reads the same one again.
func (p *pager[In, Out]) NextPage(ctx context.Context, options ...func(*ec2.Options)) (*Out, error) {
	page, err := p.call(ctx, p.in, options...)
	if err == nil {
		p.begun, *nextToken(p.in) = true, *nextToken(page)
	}

	return page, err
}

func nextToken(of any) **string {
	return reflect.ValueOf(of).Elem().FieldByName("NextToken").Addr().Interface().(**string)
}
