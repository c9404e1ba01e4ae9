// Command floor powers the nodes of one job up with the calls that nobody can do without, and checks nothing: it
// asks Slurm for the jobs and EC2 for the reservation and the launch template, launches what can be found again by
// its tags, and tells Slurm the addresses. The time of pcs-capacity-resume is compared with its.
//
// The template is read because its version decides the call: a repetition is the same launch only with the same
// version. FLOOR_RESERVATION, FLOOR_SUBNET and FLOOR_TEMPLATE name what it launches from.
package main

import (
	"context"
	"log"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"golang.org/x/sync/errgroup"

	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

func main() {
	if err := powerUp(context.Background(), os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func powerUp(ctx context.Context, list string) error {
	nodes, err := hostlist.Expand(list)
	if err != nil {
		return err
	}

	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return err
	}

	client := ec2.NewFromConfig(cfg)
	reservation := os.Getenv("FLOOR_RESERVATION")
	template := &types.LaunchTemplateSpecification{LaunchTemplateId: aws.String(os.Getenv("FLOOR_TEMPLATE"))}

	var reads errgroup.Group
	reads.Go(func() error {
		out, err := client.DescribeLaunchTemplateVersions(
			ctx,
			&ec2.DescribeLaunchTemplateVersionsInput{
				LaunchTemplateId: template.LaunchTemplateId,
				Versions:         []string{"$Default"},
			},
		)
		if err == nil {
			template.Version = aws.String(
				strconv.FormatInt(aws.ToInt64(out.LaunchTemplateVersions[0].VersionNumber), 10),
			)
		}

		return err
	})
	reads.Go(func() error {
		_, err := client.DescribeCapacityReservations(
			ctx,
			&ec2.DescribeCapacityReservationsInput{CapacityReservationIds: []string{reservation}},
		)

		return err
	})
	reads.Go(func() error { return exec.Command("squeue", "--noheader", "--format=%i %a").Run() })

	if err := reads.Wait(); err != nil {
		return err
	}

	n := aws.Int32(int32(len(nodes)))

	in := &ec2.RunInstancesInput{
		MinCount:       n,
		MaxCount:       n,
		ClientToken:    aws.String("floor-" + strconv.Itoa(os.Getpid())),
		LaunchTemplate: template,
		SubnetId: aws.String(
			os.Getenv("FLOOR_SUBNET"),
		),
		InstanceMarketOptions: &types.InstanceMarketOptionsRequest{MarketType: types.MarketTypeCapacityBlock},
		CapacityReservationSpecification: &types.CapacityReservationSpecification{
			CapacityReservationTarget: &types.CapacityReservationTarget{CapacityReservationId: &reservation},
		},
	}
	for _, made := range []types.ResourceType{types.ResourceTypeInstance, types.ResourceTypeVolume} {
		spec := types.TagSpecification{ResourceType: made}
		for _, key := range []string{"Name", "cluster", "partition", "job", "nodes"} {
			spec.Tags = append(spec.Tags, types.Tag{Key: aws.String(key), Value: aws.String(list)})
		}

		in.TagSpecifications = append(in.TagSpecifications, spec)
	}

	out, err := client.RunInstances(ctx, in)
	if err != nil {
		return err
	}

	addresses := make([]string, len(nodes))
	for _, i := range out.Instances {
		addresses[aws.ToInt32(i.AmiLaunchIndex)] = aws.ToString(i.PrivateIpAddress)
	}

	names := strings.Join(nodes, ",")

	return exec.Command("scontrol", "update", "nodename="+names, "nodeaddr="+
		strings.Join(addresses, ","), "nodehostname="+names).
		Run()
}
