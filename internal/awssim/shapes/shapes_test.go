package shapes

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

const goodOfferings = `<?xml version="1.0" encoding="UTF-8"?>
<DescribeCapacityBlockOfferingsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
  <requestId>11111111-2222-3333-4444-555555555555</requestId>
  <capacityBlockOfferingSet><item>
    <capacityBlockOfferingId>cb-0123456789abcdef0</capacityBlockOfferingId>
    <instanceType>p5.48xlarge</instanceType>
    <instanceCount>4</instanceCount>
    <startDate>2026-11-21T11:30:00.000Z</startDate>
    <tenancy>default</tenancy>
    <upfrontFee>100.5</upfrontFee>
  </item></capacityBlockOfferingSet>
</DescribeCapacityBlockOfferingsResponse>`

const goodEC2Error = `<Response><Errors><Error><Code>InvalidParameterValue</Code><Message>no</Message></Error></Errors><RequestID>r</RequestID></Response>`

const goodQueue = `{"queue":{"name":"gpu","id":"pcs_abcdefghij","arn":"arn:aws:pcs:us-east-2:111122223333:cluster/pcs_a/queue/pcs_abcdefghij",
"clusterId":"pcs_a","createdAt":"2026-11-20T10:00:00Z","modifiedAt":"2026-11-20T10:00:00Z","status":"ACTIVE",
"computeNodeGroupConfigurations":[{"computeNodeGroupId":"pcs_g"}]}}`

func TestCheckResponse(t *testing.T) {
	const conflict = `{"__type":"com.amazonaws.pcs#ConflictException","message":"busy","resourceId":"pcs_a","resourceType":"CLUSTER"}`
	tests := []struct {
		name               string
		service, operation string
		status             int
		body               string
		replace            []string // pairs of old and new text, applied to the body
		want               []string // violations, in order
	}{
		{"good XML", "ec2", "DescribeCapacityBlockOfferings", 200, goodOfferings, nil, nil},
		{"wrong element name", "ec2", "DescribeCapacityBlockOfferings", 200, goodOfferings,
			[]string{"tenancy>", "Tenancy>"},
			[]string{"capacityBlockOfferingSet.item[0].Tenancy: unknown member of CapacityBlockOffering"}},
		{"every violation is told", "ec2", "DescribeCapacityBlockOfferings", 200, goodOfferings,
			[]string{">4<", ">four<", "2026-11-21T11:30:00.000Z", "1795260600", "default", "shared", "100.5", "<usd>1</usd>"},
			[]string{
				`capacityBlockOfferingSet.item[0].instanceCount: "four" is not of type integer`,
				`capacityBlockOfferingSet.item[0].startDate: "1795260600" is not a timestamp like 2006-01-02T15:04:05.000Z`,
				`capacityBlockOfferingSet.item[0].tenancy: "shared" is not a value of CapacityReservationTenancy`,
				`capacityBlockOfferingSet.item[0].upfrontFee: has child elements, want a string`,
			}},
		{"list without items", "ec2", "DescribeCapacityBlockOfferings", 200, goodOfferings,
			[]string{"<item>", "<member>", "</item>", "</member>"},
			[]string{"capacityBlockOfferingSet.member: is no <item> of the list"}},
		{"wrong root", "ec2", "DescribeCapacityBlockOfferings", 200, goodOfferings,
			[]string{"OfferingsResponse", "OfferingsResult"},
			[]string{`the root is <DescribeCapacityBlockOfferingsResult> in namespace "http://ec2.amazonaws.com/doc/2016-11-15/", want <DescribeCapacityBlockOfferingsResponse> in "http://ec2.amazonaws.com/doc/2016-11-15/"`}},
		{"no request id", "ec2", "DescribeCapacityBlockOfferings", 200, goodOfferings,
			[]string{"requestId", "RequestId"},
			[]string{"0 elements <requestId>, want 1", "RequestId: unknown member of DescribeCapacityBlockOfferingsResult"}},
		{"member twice", "ec2", "DescribeCapacityBlockOfferings", 200, goodOfferings,
			[]string{"<tenancy>", "<tenancy>default</tenancy><tenancy>"},
			[]string{"capacityBlockOfferingSet.item[0].tenancy: appears twice"}},
		{"no output", "ec2", "CreateTags", 200,
			`<CreateTagsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>r</requestId><return>true</return></CreateTagsResponse>`, nil, nil},
		{"no output, but one is given", "ec2", "CreateTags", 200,
			`<CreateTagsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>r</requestId><tagSet/></CreateTagsResponse>`, nil,
			[]string{"tagSet: unknown member: the operation has no output"}},
		{"not XML", "ec2", "DescribeSubnets", 200, `{}`, nil, []string{"not XML: the body has no single root element"}},
		{"error of EC2", "ec2", "DescribeSubnets", 400, goodEC2Error, nil, nil},
		{"error of EC2 without code", "ec2", "DescribeSubnets", 400, goodEC2Error, []string{"<Code>InvalidParameterValue</Code>", ""},
			[]string{"Errors.Error.Code: missing or empty"}},
		{"error of EC2 with other request id", "ec2", "Nonsense", 400, goodEC2Error, []string{"RequestID", "RequestId"},
			[]string{"RequestID: missing or empty", "RequestId: unknown member of an error"}},
		{"operation not recorded", "ec2", "Nonsense", 200, "<a/>", nil,
			[]string{"the operation is not in the record of shapes: add it to shapegen and run that"}},

		{"good JSON", "pcs", "GetQueue", 200, goodQueue, nil, nil},
		{"missing required member", "pcs", "GetQueue", 200, goodQueue, []string{`"status":"ACTIVE",`, ""},
			[]string{"queue.status: required member of Queue is missing"}},
		{"unknown member in a list", "pcs", "GetQueue", 200, goodQueue, []string{"computeNodeGroupId", "ComputeNodeGroupId"},
			[]string{"queue.computeNodeGroupConfigurations[0].ComputeNodeGroupId: unknown member of ComputeNodeGroupConfiguration"}},
		{"wrong JSON types", "pcs", "GetQueue", 200, goodQueue,
			[]string{`"ACTIVE"`, `"READY"`, `"gpu"`, `7`, `"createdAt":"2026-11-20T10:00:00Z"`, `"createdAt":1795260600.5`},
			[]string{
				"queue.createdAt: is a number, want a string",
				"queue.name: is a number, want a string",
				`queue.status: "READY" is not a value of QueueStatus`,
			}},
		{"null", "pcs", "GetQueue", 200, `{"queue":null}`, nil, []string{"queue: is null, want the structure Queue"}},
		{"text after JSON", "pcs", "GetQueue", 200, goodQueue + "{}", nil, []string{"not JSON: text follows the JSON value"}},
		{"error of PCS", "pcs", "CreateQueue", 409, conflict, nil, nil},
		{"error of PCS without its member", "pcs", "CreateQueue", 409, conflict, []string{`"resourceId":"pcs_a",`, ""},
			[]string{"resourceId: required member of ConflictException is missing"}},
		{"error that the operation does not have", "pcs", "UntagResource", 409, conflict, nil,
			[]string{"__type: ConflictException is not an error of this operation"}},
		{"error without name space", "pcs", "CreateQueue", 409, conflict, []string{"com.amazonaws.pcs#", ""},
			[]string{`__type: "ConflictException" is not like com.amazonaws.pcs#Name`}},
		{"error of the front end", "pcs", "CreateQueue", 400, `{"__type":"com.amazon.coral.service#SerializationException","message":"no"}`, nil, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			body := strings.NewReplacer(test.replace...).Replace(test.body)
			err := CheckResponse(test.service, test.operation, test.status, []byte(body))
			compareViolations(t, err, test.want)
		})
	}
}

func TestCheckJSON(t *testing.T) {
	compareViolations(t, CheckJSON("pcs", "ListQueues", []byte(`{"clusterIdentifier":"ml","maxResults":2,"nextToken":null}`)), nil)
	compareViolations(t, CheckJSON("pcs", "ListQueues", []byte(`{"maxResults":2.5,"queue":1}`)), []string{
		`maxResults: "2.5" is not of type integer`,
		"queue: unknown member of ListQueuesRequest",
		"clusterIdentifier: required member of ListQueuesRequest is missing",
	})
}

func compareViolations(t *testing.T, err error, want []string) {
	t.Helper()
	var got []string
	var shapeError *Error
	if errors.As(err, &shapeError) {
		for _, v := range shapeError.Violations {
			got = append(got, v.String())
		}
	} else if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Errorf("violations:\n\t%s\nwant:\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func TestCheckResponseOfUnknownService(t *testing.T) {
	if err := CheckResponse("s3", "GetObject", 200, nil); err == nil {
		t.Error("no error for a service that is not recorded")
	}
}

// TestShapeRecordIsClosed finds names in the record that nothing defines, as after an edit by hand.
func TestShapeRecordIsClosed(t *testing.T) {
	for name, service := range recordedShapes() {
		for operation, op := range service.operations {
			for _, shape := range append([]string{op.input, op.output}, op.errors...) {
				if service.structures[shape] == nil && shape != "-" {
					t.Errorf("%s: operation %s: structure %s is not recorded", name, operation, shape)
				}
			}
		}
		known := func(typ string) bool {
			inline := []string{"string", "blob", "boolean", "integer", "long", "float", "double", "timestamp"}
			return slices.Contains(inline, typ) || service.structures[typ] != nil || service.lists[typ].item != "" ||
				service.maps[typ] != "" || service.enums[typ] != nil
		}
		for structure, s := range service.structures {
			for _, m := range s.members {
				if !known(m.typ) {
					t.Errorf("%s: %s.%s: type %s is not recorded", name, structure, m.name, m.typ)
				}
			}
		}
		for list, l := range service.lists {
			if !known(l.item) {
				t.Errorf("%s: list %s: type %s is not recorded", name, list, l.item)
			}
		}
	}
}
