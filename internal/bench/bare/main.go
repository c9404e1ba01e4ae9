// Command bare pages through the capacity reservations of all regions with the AWS SDK,
// at the same time, and does nothing with them but count. It is what `pcs-capacity list
// --regions all` is measured against.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"golang.org/x/sync/errgroup"
)

func main() {
	total, err := count(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(total)
}

func count(ctx context.Context) (int, error) {
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return 0, err
	}
	regions, err := ec2.NewFromConfig(cfg).DescribeRegions(ctx, &ec2.DescribeRegionsInput{})
	if err != nil {
		return 0, err
	}
	counts := make([]int, len(regions.Regions))
	var group errgroup.Group
	for i, region := range regions.Regions {
		group.Go(func() error {
			client := ec2.NewFromConfig(cfg, func(o *ec2.Options) { o.Region = aws.ToString(region.RegionName) })
			pages := ec2.NewDescribeCapacityReservationsPaginator(client, &ec2.DescribeCapacityReservationsInput{MaxResults: aws.Int32(1000)})
			for pages.HasMorePages() {
				page, err := pages.NextPage(ctx)
				if err != nil {
					return err
				}
				counts[i] += len(page.CapacityReservations)
			}
			return nil
		})
	}
	err = group.Wait()
	total := 0
	for _, n := range counts {
		total += n
	}
	return total, err
}
