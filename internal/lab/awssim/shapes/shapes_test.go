package shapes

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

const goodQueue = `{"queue":{"name":"gpu","id":"pcs_abcdefghij",
	"arn":"arn:aws:pcs:us-east-2:111122223333:cluster/pcs_a/queue/pcs_abcdefghij",
"clusterId":"pcs_a","createdAt":"2026-11-20T10:00:00Z","modifiedAt":"2026-11-20T10:00:00Z","status":"ACTIVE",
"computeNodeGroupConfigurations":[{"computeNodeGroupId":"pcs_g"}]}}`

func TestCheckAnswer(t *testing.T) {
	const conflict = `{"__type":"com.amazonaws.pcs#ConflictException","message":"busy","resourceId":"pcs_a","resourceType":"CLUSTER"}`

	tests := []struct {
		name      string
		operation string
		status    int
		body      string
		replace   []string // pairs of old and new text, applied to the body
		want      []string // violations, in order
	}{
		{"good JSON", "GetQueue", 200, goodQueue, nil, nil},
		{
			"missing required member", "GetQueue", 200, goodQueue,
			[]string{`"status":"ACTIVE",`, ""},
			[]string{"queue.status: required member of Queue is missing"},
		},
		{
			"unknown member in a list", "GetQueue", 200, goodQueue,
			[]string{"computeNodeGroupId", "ComputeNodeGroupId"},
			[]string{
				"queue.computeNodeGroupConfigurations[0].ComputeNodeGroupId: unknown member of " +
					"ComputeNodeGroupConfiguration",
			},
		},
		{
			"wrong JSON types", "GetQueue", 200, goodQueue,
			[]string{
				`"ACTIVE"`, `"READY"`, `"gpu"`, `7`,
				`"createdAt":"2026-11-20T10:00:00Z"`, `"createdAt":1795260600.5`,
			},
			[]string{
				"queue.createdAt: is a number, want a string", "queue.name: is a number, want a string",
				`queue.status: "READY" is not a value of QueueStatus`,
			},
		},
		{"null", "GetQueue", 200, `{"queue":null}`, nil, []string{"queue: is null, want the structure Queue"}},
		{"text after JSON", "GetQueue", 200, goodQueue + "{}", nil, []string{"not JSON: text follows the JSON value"}},
		{"error of PCS", "CreateQueue", 409, conflict, nil, nil},
		{
			"error of PCS without its member", "CreateQueue", 409, conflict,
			[]string{`"resourceId":"pcs_a",`, ""},
			[]string{"resourceId: required member of ConflictException is missing"},
		},
		{
			"error that the operation does not have", "UntagResource", 409, conflict, nil,
			[]string{"__type: ConflictException is not an error of this operation"},
		},
		{
			"error without name space", "CreateQueue", 409, conflict,
			[]string{"com.amazonaws.pcs#", ""},
			[]string{`__type: "ConflictException" is not like com.amazonaws.SERVICE#Name`},
		},
		{
			"error of the front end",
			"CreateQueue",
			400,
			`{"__type":"com.amazon.coral.service#SerializationException","message":"no"}`,
			nil,
			nil,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			body := strings.NewReplacer(test.replace...).Replace(test.body)
			err := CheckAnswer("pcs", test.operation, test.status, []byte(body))
			compareViolations(t, err, test.want)
		})
	}
}

func TestCheckJSON(t *testing.T) {
	compareViolations(
		t,
		CheckJSON("pcs", "ListQueues", []byte(`{"clusterIdentifier":"ml","maxResults":2,"nextToken":null}`)),
		nil,
	)
	compareViolations(t, CheckJSON("pcs", "ListQueues", []byte(`{"maxResults":2.5,"queue":1}`)),
		[]string{
			`maxResults: "2.5" is not of type integer`, "queue: unknown member of ListQueuesRequest",
			"clusterIdentifier: required member of ListQueuesRequest is missing",
		})
}

func compareViolations(t *testing.T, err error, want []string) {
	t.Helper()

	var (
		got        []string
		shapeError *Error
	)
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

func TestEncodeEC2(t *testing.T) {
	type offering struct {
		CapacityBlockOfferingId string
		InstanceCount           *int
		StartDate               time.Time
	}

	four, day := 4, time.Date(2026, 11, 21, 11, 30, 0, 0, time.UTC)
	answer := func(o any) any { return map[string]any{"CapacityBlockOfferings": []any{o}, "NextToken": ""} }

	good, err := EncodeEC2("DescribeCapacityBlockOfferings", "r", answer(offering{"cb-<1>", &four, day}))

	const want = `<requestId>r</requestId><capacityBlockOfferingSet><item><capacityBlockOfferingId>cb-&lt;1&gt;</capacityBlockOfferingId>` +
		`<instanceCount>4</instanceCount><startDate>2026-11-21T11:30:00.000Z</startDate></item></capacityBlockOfferingSet></DescribeCapacityBlockOfferingsResponse>`
	if err != nil || !strings.HasSuffix(string(good), want) {
		t.Errorf("%v: %s", err, good)
	}

	done, err := EncodeEC2("CreateTags", "r", nil)
	if err != nil ||
		!strings.HasSuffix(string(done), "<requestId>r</requestId><return>true</return></CreateTagsResponse>") {
		t.Errorf("%v: %s", err, done)
	}

	_, err = EncodeEC2(
		"DescribeCapacityBlockOfferings",
		"r",
		answer(map[string]any{"Tenancy": "shared", "Price": 1, "InstanceCount": "four"}),
	)
	compareViolations(t, err, []string{
		`CapacityBlockOfferings[0].InstanceCount: "four" is not of type integer`,
		`CapacityBlockOfferings[0].Tenancy: "shared" is not a value of CapacityReservationTenancy`,
		"CapacityBlockOfferings[0].Price: unknown member of CapacityBlockOffering",
	})
	_, err = EncodeEC2("Nonsense", "r", nil)
	compareViolations(
		t,
		err,
		[]string{"the operation is not in the record of shapes: add it to shapes.py and run that"},
	)
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
