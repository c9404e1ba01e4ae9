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
	"cmp"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
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
	{"pcs", nil, true},
	{"sts", []string{"GetCallerIdentity"}, false},
}

// ec2Operations are the operations of EC2 that the simulator answers.
var ec2Operations = strings.Fields(`
	CancelCapacityReservation CreateCapacityReservation CreateLaunchTemplate CreateLaunchTemplateVersion
	CreateTags DeleteLaunchTemplate DeleteTags DescribeAvailabilityZones DescribeCapacityBlockExtensionHistory
	DescribeCapacityBlockExtensionOfferings DescribeCapacityBlockOfferings DescribeCapacityBlockStatus
	DescribeCapacityBlocks DescribeCapacityReservationTopology DescribeCapacityReservations DescribeImages
	DescribeInstanceStatus DescribeInstanceTypes DescribeInstances
	DescribeLaunchTemplateVersions DescribeLaunchTemplates DescribeRegions
	DescribeRouteTables DescribeSecurityGroups DescribeSubnets DescribeVpcEndpoints GetConsoleOutput
	PurchaseCapacityBlock PurchaseCapacityBlockExtension RunInstances
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

// model is the part of botocore's service-2.json that shapegen reads.
type model struct {
	Metadata struct {
		APIVersion string `json:"apiVersion"`
		Protocol   string `json:"protocol"`
		Service    string `json:"endpointPrefix"`
	} `json:"metadata"`
	Operations map[string]struct {
		Input  *shapeRef  `json:"input"`
		Output *shapeRef  `json:"output"`
		Errors []shapeRef `json:"errors"`
	} `json:"operations"`
	Shapes map[string]shape `json:"shapes"`
}

type shape struct {
	Type     string              `json:"type"`
	Members  map[string]shapeRef `json:"members"`
	Required []string            `json:"required"`
	Enum     []string            `json:"enum"`
	Member   shapeRef            `json:"member"` // of a list
	Value    shapeRef            `json:"value"`  // of a map
}

type shapeRef struct {
	Shape        string `json:"shape"`
	LocationName string `json:"locationName"`
	QueryName    string `json:"queryName"` // of requests, where it differs
	Location     string `json:"location"`  // of what is not in the body
}

func (m *model) operationNames() []string {
	return slices.Sorted(maps.Keys(m.Operations))
}

// add takes from another model of the service what this one lacks.
func (m *model) add(other *model) {
	for name, op := range other.Operations {
		if _, ok := m.Operations[name]; !ok {
			m.Operations[name] = op
		}
	}
	for name, s := range other.Shapes {
		if _, ok := m.Shapes[name]; !ok {
			m.Shapes[name] = s
		}
	}
}

// write appends the record of a service's operations and of every shape that they reach.
func (m *model) write(w io.Writer, s service) error {
	fmt.Fprintf(w, "\nservice\t%s\t%s\t%s\n", s.name, m.Metadata.APIVersion, m.Metadata.Protocol)
	operations := s.operations
	if operations == nil {
		operations = m.operationNames()
	}
	reached := map[string]bool{}
	for _, name := range operations {
		op, ok := m.Operations[name]
		if !ok {
			return fmt.Errorf("the model has no operation %s", name)
		}
		fields := []string{"operation", name, "-", "-"}
		if op.Input != nil {
			fields[2] = op.Input.Shape
			for member, ref := range m.Shapes[op.Input.Shape].Members {
				if ref.Location != "" {
					return fmt.Errorf("%s.%s is in the %s: the record is of bodies", name, member, ref.Location)
				}
			}
		}
		if s.answers {
			if op.Output != nil {
				fields[3] = op.Output.Shape
			}
			for _, e := range op.Errors {
				fields = append(fields, e.Shape)
			}
		}
		for _, shape := range fields[2:] {
			m.reach(shape, reached)
		}
		fmt.Fprintln(w, strings.Join(fields, "\t"))
	}
	for _, name := range slices.Sorted(maps.Keys(reached)) {
		m.writeShape(w, name)
	}
	return nil
}

// reach marks a shape and what it refers to. Shapes that are written inline, such as plain strings, are not marked.
func (m *model) reach(name string, reached map[string]bool) {
	if name == "-" || reached[name] || m.inline(name) != "" {
		return
	}
	reached[name] = true
	s := m.Shapes[name]
	for _, ref := range s.Members {
		m.reach(ref.Shape, reached)
	}
	if s.Member.Shape != "" {
		m.reach(s.Member.Shape, reached)
	}
	if s.Value.Shape != "" {
		m.reach(s.Value.Shape, reached)
	}
}

// inline returns the type of a shape that needs no entry of its own, else "".
func (m *model) inline(name string) string {
	s := m.Shapes[name]
	switch s.Type {
	case "structure", "list", "map":
		return ""
	case "string":
		if len(s.Enum) > 0 {
			return ""
		}
	}
	return s.Type
}

func (m *model) typeOf(name string) string {
	if inline := m.inline(name); inline != "" {
		return inline
	}
	return name
}

func (m *model) writeShape(w io.Writer, name string) {
	s := m.Shapes[name]
	switch s.Type {
	case "structure":
		fmt.Fprintf(w, "structure\t%s\n", name)
		for _, member := range slices.Sorted(maps.Keys(s.Members)) {
			m.writeMember(w, member, s.Members[member], slices.Contains(s.Required, member))
		}
	case "list":
		// The default of the EC2 and Query protocols for an item without a name is "member".
		fmt.Fprintf(w, "list\t%s\t%s\t%s\n", name, m.typeOf(s.Member.Shape), cmp.Or(s.Member.LocationName, "member"))
	case "map":
		fmt.Fprintf(w, "map\t%s\t%s\n", name, m.typeOf(s.Value.Shape))
	default:
		fmt.Fprintf(w, "enum\t%s\t%s\n", name, strings.Join(s.Enum, "\t"))
	}
}

func (m *model) writeMember(w io.Writer, name string, ref shapeRef, required bool) {
	fields := []string{"", name, m.typeOf(ref.Shape)}
	if ref.LocationName != "" && ref.LocationName != name {
		fields = append(fields, "wire="+ref.LocationName)
	}
	if ref.QueryName != "" {
		fields = append(fields, "query="+ref.QueryName)
	}
	if required {
		fields = append(fields, "required")
	}
	fmt.Fprintln(w, strings.Join(fields, "\t"))
}
