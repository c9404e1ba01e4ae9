// Command floor powers nodes up with the calls that nobody can do without, and checks
// nothing: it reads SLURM_RESUME_FILE, asks Slurm for the jobs and EC2 for the reservation and
// the launch template, launches what can be found again by its tags, and tells Slurm the
// addresses. It is what pcs-capacity-resume is measured against.
//
// The template is read because its interfaces and its version decide the call: EC2 takes no
// subnet beside interfaces, and a repetition is the same launch only with the same version.
//
// FLOOR_RESERVATION, FLOOR_SUBNET and FLOOR_TEMPLATE name what it launches from; without the
// first it is on demand. Jobs of one node share a launch, as in aws-plugin-for-slurm.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"golang.org/x/sync/errgroup"
)

func main() {
	if err := powerUp(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func powerUp(ctx context.Context) error {
	var file struct {
		Jobs []struct {
			Nodes string `json:"nodes"`
		} `json:"jobs"`
	}
	data, err := os.ReadFile(os.Getenv("SLURM_RESUME_FILE"))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return err
	}
	var launches [][]string
	var alone []string
	for _, job := range file.Jobs {
		if nodes := expand(job.Nodes); len(nodes) > 1 {
			launches = append(launches, nodes)
		} else {
			alone = append(alone, nodes...)
		}
	}
	if len(alone) > 0 {
		launches = append(launches, alone)
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
		out, err := client.DescribeLaunchTemplateVersions(ctx, &ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: template.LaunchTemplateId, Versions: []string{"$Default"}})
		if err == nil {
			template.Version = aws.String(strconv.FormatInt(aws.ToInt64(out.LaunchTemplateVersions[0].VersionNumber), 10))
		}
		return err
	})
	reads.Go(func() error {
		if reservation == "" {
			return nil
		}
		_, err := client.DescribeCapacityReservations(ctx, &ec2.DescribeCapacityReservationsInput{CapacityReservationIds: []string{reservation}})
		return err
	})
	reads.Go(func() error { return exec.Command("squeue", "--noheader", "--format=%i %a").Run() })
	if err := reads.Wait(); err != nil {
		return err
	}
	var all errgroup.Group
	for i, nodes := range launches {
		all.Go(func() error {
			n := aws.Int32(int32(len(nodes)))
			in := &ec2.RunInstancesInput{MinCount: n, MaxCount: n, ClientToken: aws.String(fmt.Sprintf("floor-%d-%d", os.Getpid(), i)),
				LaunchTemplate: template, SubnetId: aws.String(os.Getenv("FLOOR_SUBNET"))}
			for _, made := range []types.ResourceType{types.ResourceTypeInstance, types.ResourceTypeVolume} {
				in.TagSpecifications = append(in.TagSpecifications, types.TagSpecification{ResourceType: made, Tags: tags(nodes)})
			}
			if reservation != "" {
				in.InstanceMarketOptions = &types.InstanceMarketOptionsRequest{MarketType: types.MarketTypeCapacityBlock}
				in.CapacityReservationSpecification = &types.CapacityReservationSpecification{CapacityReservationTarget: &types.CapacityReservationTarget{CapacityReservationId: aws.String(reservation)}}
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
			return exec.Command("scontrol", "update", "nodename="+names, "nodeaddr="+strings.Join(addresses, ","), "nodehostname="+names).Run()
		})
	}
	return all.Wait()
}

// tags are what a launch is found again by: a node learns its name from them, and what is left
// of a launch that nobody saw the end of is known by them. Ours has as many.
func tags(nodes []string) []types.Tag {
	var all []types.Tag
	for _, key := range []string{"Name", "cluster", "partition", "job", "nodes"} {
		all = append(all, types.Tag{Key: aws.String(key), Value: aws.String(nodes[0] + " to " + nodes[len(nodes)-1])})
	}
	return all
}

var ranged = regexp.MustCompile(`^(.*)\[(\d+)-(\d+)\]$`)

// expand knows the hostlists of the measurement: one name, or one range.
func expand(list string) []string {
	parts := ranged.FindStringSubmatch(list)
	if parts == nil {
		return []string{list}
	}
	var names []string
	from, _ := strconv.Atoi(parts[2]) // the pattern has digits only
	to, _ := strconv.Atoi(parts[3])
	for i := from; i <= to; i++ {
		names = append(names, parts[1]+strconv.Itoa(i))
	}
	return names
}
