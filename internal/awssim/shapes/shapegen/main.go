// Command shapegen writes the record of wire shapes against which the simulator checks requests and answers.
//
// It reads AWS's own service models in the format of botocore, which every copy of botocore and of the AWS CLI carries
// in its data folder (data/ec2/2016-11-15/service-2.json, …, also compressed as .gz), and keeps from them only what a
// checker needs: operations, members, types, wire names, which members are required, and the values of enumerations.
// Run it by hand after the simulator has learned an operation:
//
//	go run ./internal/awssim/shapes/shapegen -out internal/awssim/shapes/shapes.txt MODEL...
//
// It takes one model or more of each service in services; of two models of one service, the first has precedence.
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

// service is one whose requests the simulator takes.
type service struct {
	name       string   // of the credential scope
	operations []string // nil: all, where the API is small
	answers    bool     // its answers are checked too
}

var services = []service{
	{"ec2", ec2Operations, true},
	{"iam", []string{"GetInstanceProfile", "SimulatePrincipalPolicy"}, false},
	{"pcs", nil, true},
	{"ssm", []string{"GetParameter"}, false},
	{"sts", []string{"GetCallerIdentity"}, false},
}

// ec2Operations are the operations of EC2 that the simulator answers.
var ec2Operations = strings.Fields(`
	CancelCapacityReservation CreateCapacityReservation CreateLaunchTemplate CreateLaunchTemplateVersion
	CreateTags DeleteLaunchTemplate DeleteTags DescribeAvailabilityZones DescribeCapacityBlockExtensionHistory
	DescribeCapacityBlockExtensionOfferings DescribeCapacityBlockOfferings DescribeCapacityBlockStatus
	DescribeCapacityBlocks DescribeCapacityReservationTopology DescribeCapacityReservations DescribeImages
	DescribeInstanceStatus DescribeInstanceTopology DescribeInstanceTypes DescribeInstances DescribeKeyPairs
	DescribeLaunchTemplateVersions DescribeLaunchTemplates DescribePlacementGroups DescribeRegions
	DescribeRouteTables DescribeSecurityGroups DescribeSubnets DescribeVpcEndpoints GetConsoleOutput
	GetInstanceMetadataDefaults PurchaseCapacityBlock PurchaseCapacityBlockExtension RunInstances
	TerminateInstances`)

const header = `# Wire shapes of the operations that the simulator answers, made by internal/awssim/shapes/shapegen. Do not edit.
# Source: the service models in botocore, https://github.com/boto/botocore, Copyright Amazon.com, Inc. or its
# affiliates, under the Apache License, Version 2.0: https://www.apache.org/licenses/LICENSE-2.0
# Fields are separated by tabs:
#   service    NAME       API version         protocol
#   operation  NAME       input shape or -    output shape or -    error shapes...
#   structure  NAME       then one indented line a member: name, type, wire=NAME if that differs, query=NAME if requests
#                         have another one, required if it is
#   list       NAME       type of an item     name of its XML element
#   map        NAME       type of a value
#   enum       NAME       values...
`

func main() {
	out := flag.String("out", "", "file to write")
	flag.Parse()
	if *out == "" || flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := generate(*out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "shapegen:", err)
		os.Exit(1)
	}
}

func generate(out string, files []string) error {
	models := map[string]*model{}
	for _, file := range files {
		m, err := readModel(file)
		if err != nil {
			return err
		}
		if first := models[m.Metadata.Service]; first != nil {
			first.add(m)
		} else {
			models[m.Metadata.Service] = m
		}
	}
	record := bytes.NewBufferString(header)
	for _, s := range services {
		m := models[s.name]
		if m == nil {
			return fmt.Errorf("none of the models is of %s", s.name)
		}
		if err := m.write(record, s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
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
