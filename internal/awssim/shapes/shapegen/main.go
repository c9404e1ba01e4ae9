// Command shapegen writes the record of wire shapes against which the simulator's answers are checked.
//
// It reads AWS's own service models in the format of botocore, which every copy of botocore and of the AWS CLI carries
// in its data folder (data/ec2/2016-11-15/service-2.json, data/pcs/2023-02-10/service-2.json, also compressed as .gz),
// and keeps from them only what a checker needs: operations, members, types, wire names, which members are required,
// and the values of enumerations. Run it by hand after the simulator has learned an operation:
//
//	go run ./internal/awssim/shapes/shapegen -ec2 MODEL -pcs MODEL -out internal/awssim/shapes/shapes.txt
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

// ec2Operations are the operations of EC2 that the simulator answers. Those of PCS are all taken: the API is small.
var ec2Operations = []string{
	"CancelCapacityReservation",
	"CreateCapacityReservation",
	"CreateFleet",
	"CreateInterruptibleCapacityReservationAllocation",
	"CreateLaunchTemplate",
	"CreateLaunchTemplateVersion",
	"CreateTags",
	"DeleteLaunchTemplate",
	"DeleteLaunchTemplateVersions",
	"DeleteTags",
	"DescribeAvailabilityZones",
	"DescribeCapacityBlockExtensionHistory",
	"DescribeCapacityBlockExtensionOfferings",
	"DescribeCapacityBlockOfferings",
	"DescribeCapacityBlockStatus",
	"DescribeCapacityBlocks",
	"DescribeCapacityReservationTopology",
	"DescribeCapacityReservations",
	"DescribeImages",
	"DescribeInstanceTopology",
	"DescribeInstanceTypeOfferings",
	"DescribeInstanceTypes",
	"DescribeInstances",
	"DescribeKeyPairs",
	"DescribeLaunchTemplateVersions",
	"DescribeLaunchTemplates",
	"DescribePlacementGroups",
	"DescribeRegions",
	"DescribeRouteTables",
	"DescribeSecurityGroups",
	"DescribeSubnets",
	"DescribeVpcEndpoints",
	"DescribeVpcs",
	"GetInstanceMetadataDefaults",
	"ModifyCapacityReservation",
	"ModifyLaunchTemplate",
	"PurchaseCapacityBlock",
	"PurchaseCapacityBlockExtension",
	"RunInstances",
	"TerminateInstances",
	"UpdateInterruptibleCapacityReservationAllocation",
}

const header = `# Wire shapes of the operations that the simulator answers, made by internal/awssim/shapes/shapegen. Do not edit.
# Fields are separated by tabs:
#   service    NAME       API version
#   operation  NAME       input shape or -    output shape or -    error shapes...
#   structure  NAME       then one indented line a member: name, type, wire=NAME if that differs, required if it is
#   list       NAME       type of an item     name of its XML element
#   map        NAME       type of a value
#   enum       NAME       values...
`

func main() {
	ec2 := flag.String("ec2", "", "service model of EC2 (service-2.json, or .json.gz)")
	pcs := flag.String("pcs", "", "service model of PCS")
	out := flag.String("out", "", "file to write")
	flag.Parse()
	if *ec2 == "" || *pcs == "" || *out == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := generate(*ec2, *pcs, *out); err != nil {
		fmt.Fprintln(os.Stderr, "shapegen:", err)
		os.Exit(1)
	}
}

func generate(ec2, pcs, out string) error {
	record := bytes.NewBufferString(header)
	ec2Model, err := readModel(ec2)
	if err != nil {
		return err
	}
	pcsModel, err := readModel(pcs)
	if err != nil {
		return err
	}
	if err := ec2Model.write(record, "ec2", ec2Operations, answersOnly); err != nil {
		return fmt.Errorf("%s: %w", ec2, err)
	}
	if err := pcsModel.write(record, "pcs", pcsModel.operationNames(), requestsAndAnswers); err != nil {
		return fmt.Errorf("%s: %w", pcs, err)
	}
	return os.WriteFile(out, record.Bytes(), 0o644)
}

func readModel(path string) (*model, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var text io.Reader = file
	if strings.HasSuffix(path, ".gz") {
		if text, err = gzip.NewReader(file); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	var m model
	if err := json.NewDecoder(text).Decode(&m); err != nil {
		return nil, fmt.Errorf("%s: not a service model of botocore: %w", path, err)
	}
	return &m, nil
}
