package ec2

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	gocmp "github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2/groups"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
)

// RunInstances takes every field of a launch template under the same name, so a template can be tried before it exists.
func TestTrialSendsAllOfATemplate(t *testing.T) {
	data := &types.RequestLaunchTemplateData{}
	fill(reflect.ValueOf(data).Elem())

	launch := &ec2.RunInstancesInput{}
	if err := copyByName(data, launch); err != nil {
		t.Fatal(err)
	}

	want, got := tree(t, data), tree(t, launch)
	want["RamdiskId"] = want["RamDiskId"]
	// Of a template only: types by their attributes, which a spec replaces by its type, and accelerators that EC2 has
	// given up.
	for _, name := range []string{"RamDiskId", "InstanceRequirements", "ElasticGpuSpecifications"} {
		delete(want, name)
	}

	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("the launch differs (-template +launch):\n%s", diff)
	}
}

func TestTryLaunches(t *testing.T) {
	scenario := awssim.DefaultScenario()
	home := &scenario.Regions[0]
	home.LaunchTemplates = append(
		home.LaunchTemplates,
		awssim.LaunchTemplateScenario{
			ID:             "lt-0e200000000000091",
			Name:           "small",
			Image:          image,
			SecurityGroups: []string{groupOfAll},
			RootGiB:        7,
			InstanceTags:   map[string]string{"team": "nlp"},
		},
		awssim.LaunchTemplateScenario{
			ID:             "lt-0e200000000000092",
			Name:           "good",
			Image:          image,
			SecurityGroups: []string{groupOfAll},
			InstanceTags:   map[string]string{"team": "nlp"},
		},
		awssim.LaunchTemplateScenario{
			ID:             "lt-0e200000000000093",
			Name:           "no-image",
			SecurityGroups: []string{groupOfAll},
		},
	)

	sim, c, calls := simOf(t, scenario)

	group, err := groups.From(c.Shared()).Create(t.Context(), "holds", nil)
	if err != nil {
		t.Fatal(err)
	}

	into := func(template, id string, kind capacity.Kind) capacity.Launch {
		return capacity.Launch{
			LaunchTemplate: template,
			InstanceType:   "p5.48xlarge",
			ReservationID:  id,
			Kind:           kind,
			Tags:           map[string]string{"team": "vision"},
		}
	}
	spec := func(template string, mode capacity.EFAMode) *capacity.LaunchTemplateSpec {
		return &capacity.LaunchTemplateSpec{
			Name:          "new",
			From:          template,
			FromVersion:   "1",
			InstanceType:  "p5.48xlarge",
			EFA:           mode,
			SubnetID:      subnetA,
			ReservationID: openBlock,
			Kind:          capacity.CapacityBlock,
		}
	}
	inGroup := func(arn string) *capacity.LaunchTemplateSpec {
		s := spec("good", capacity.NoEFA)
		s.Kind, s.ReservationID = capacity.OnDemand, ""
		s.ReservationGroup = arn

		return s
	}
	for name, test := range map[string]struct {
		trial Trial
		want  string // "code of A, aside; code of B, aside"
	}{
		"a template that is there": {
			Trial{Launch: into("good", openBlock, capacity.CapacityBlock)},
			"ok; ok aside",
		},
		"a block that is not open": {
			Trial{Launch: into("good", laterBlock, capacity.CapacityBlock)},
			"ok aside; ok aside",
		},
		"no reservation": {Trial{Launch: into("good", "", capacity.OnDemand)}, "ok; ok"},
		"not a block": {
			Trial{Launch: into("good", openBlock, capacity.ODCR)},
			"InvalidParameterValue; InvalidParameterValue",
		},
		"a volume that is too small": {
			Trial{Launch: into("small", openBlock, capacity.CapacityBlock)},
			"InvalidBlockDeviceMapping; InvalidBlockDeviceMapping",
		},
		"too small and not open": {
			Trial{Launch: into("small", laterBlock, capacity.CapacityBlock)},
			"InvalidBlockDeviceMapping; InvalidBlockDeviceMapping",
		},
		"inline, as PCS launches": {
			Trial{
				Inline:          true,
				ImageID:         image,
				InstanceProfile: "AWSPCS-nodes",
				Launch:          into("no-image", openBlock, capacity.CapacityBlock),
			},
			"ok; ok aside",
		},
		"inline, without an image": {
			Trial{Inline: true, Launch: into("no-image", openBlock, capacity.CapacityBlock)},
			"MissingParameter; MissingParameter",
		},
		"before there is a template": {
			Trial{Spec: spec("good", capacity.EFA), Launch: into("", openBlock, capacity.CapacityBlock)},
			"ok; ok aside",
		},
		"one that would be refused": {
			Trial{Spec: spec("small", capacity.EFA), Launch: into("", openBlock, capacity.CapacityBlock)},
			"InvalidBlockDeviceMapping; InvalidBlockDeviceMapping",
		},
		"before, without an interface": {
			Trial{Spec: spec("good", capacity.NoEFA), Launch: into("", openBlock, capacity.CapacityBlock)},
			"ok; ok aside",
		},
		"a group of reservations": {
			Trial{Spec: inGroup(group.ARN), Launch: into("", "", capacity.OnDemand)},
			"ok; ok",
		},
		"a group that is not there": {
			Trial{Spec: inGroup(group.ARN + "x"), Launch: into("", "", capacity.OnDemand)},
			"InvalidParameterValue; InvalidParameterValue",
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.trial.Subnets = []string{subnetA, subnetB}

			tried, err := c.TryLaunches(t.Context(), test.trial)
			if err != nil {
				t.Fatal(err)
			}

			var got []string
			for i, one := range tried {
				words := cmp.Or(one.Code, "ok")
				if one.NoReservation && one.Verdict == Accepts {
					words += " aside"
				}

				got = append(got, words)

				if one.SubnetID != test.trial.Subnets[i] {
					t.Errorf("subnet %s", one.SubnetID)
				}
			}

			if text := strings.Join(got, "; "); text != test.want {
				t.Errorf("%s, want %s (%v)", text, test.want, tried)
			}
		})
	}

	if n := len(sim.Instances("")); n > 0 || calls("CreateLaunchTemplate") > 0 {
		t.Errorf("%d instances, %d launch templates", n, calls("CreateLaunchTemplate"))
	}

	if _, err := c.TryLaunches(t.Context(), Trial{
		Inline: true,
		Launch: into("nobody", "", capacity.OnDemand),
	}); !isTemplateMissing(
		err,
	) {
		t.Error(fmt.Sprint(err))
	}
}

// answered is the SDK's error for an answer of EC2.
func answered(status int, code string) error {
	return fmt.Errorf(
		"operation error EC2: %w",
		&awshttp.ResponseError{RequestID: "r-1", ResponseError: &smithyhttp.ResponseError{
			Response: &smithyhttp.Response{
				Response: &http.Response{StatusCode: status},
			},
			Err: &smithy.GenericAPIError{Code: code, Message: "no"},
		}},
	)
}

// EC2's code decides; the status only where the code says nothing.
func TestOutcome(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want error
		more []string
	}{
		"no error": {err: nil, want: nil},
		"no instance, a server error": {
			err:  answered(500, "InsufficientInstanceCapacity"),
			want: capacity.ErrNoRoom,
		},
		"no instance, a client error": {
			err:  answered(400, "InsufficientInstanceCapacity"),
			want: capacity.ErrNoRoom,
		},
		"no host": {err: answered(500, "InsufficientHostCapacity"), want: capacity.ErrNoRoom},
		"no reserved instance": {
			err:  answered(500, "InsufficientReservedInstanceCapacity"),
			want: capacity.ErrNoRoom,
		},
		"a full reservation":      {err: answered(400, "ReservationCapacityExceeded"), want: capacity.ErrNoRoom},
		"a full reservation, 500": {err: answered(500, "ReservationCapacityExceeded"), want: capacity.ErrNoRoom},
		"a full subnet": {
			err:  answered(400, "InsufficientFreeAddressesInSubnet"),
			want: capacity.ErrNoRoom,
		},
		"a block before its time": {
			err:  answered(400, "InvalidCapacityReservationState.PendingActivation"),
			want: capacity.ErrNoRoom,
		},
		"no such reservation": {
			err:  answered(400, "InvalidCapacityReservationId.NotFound"),
			want: capacity.ErrNoRoom,
		},
		"a quota": {err: answered(400, "VcpuLimitExceeded"), want: capacity.ErrRefused},
		"a quota, of a hold": {
			err:  answered(400, "VcpuLimitExceeded"),
			want: capacity.ErrNoRoom,
			more: elsewhereCodes,
		},
		"a token": {
			err:  answered(400, "IdempotentParameterMismatch"),
			want: capacity.ErrTokenUsed,
		},
		"throttled":                     {err: answered(503, "RequestLimitExceeded"), want: capacity.ErrRefused},
		"not allowed":                   {err: answered(403, "UnauthorizedOperation"), want: capacity.ErrRefused},
		"an error of EC2's":             {err: answered(500, "InternalError"), want: errUnclear},
		"an error of EC2's, status 400": {err: answered(400, "InternalError"), want: errUnclear},
		"not available":                 {err: answered(503, "Unavailable"), want: errUnclear},
		"a code that nobody knows":      {err: answered(500, "SomethingElse"), want: errUnclear},
		"a code that nobody knows, 400": {err: answered(400, "SomethingElse"), want: capacity.ErrRefused},
		"an answer without a code":      {err: answered(400, ""), want: errUnclear},
		"a timeout":                     {err: context.DeadlineExceeded, want: errUnclear},
		"a cut connection": {
			err:  &net.OpError{Op: "read", Err: errors.New("connection reset by peer")},
			want: errUnclear,
		},
		"a connection that is not there": {
			err:  &net.OpError{Op: "dial", Err: errors.New("connection refused")},
			want: capacity.ErrRefused,
		},
		"never sent":                 {err: fmt.Errorf("%w: no token", ErrNotSent), want: capacity.ErrRefused},
		"an answer that has nothing": {err: ErrNotDescribed, want: errUnclear},
	} {
		got := Outcome(c.err, c.more...)
		told := withOutcome(c.err, c.more...)
		if got != c.want || capacity.CreatedNothing(told) != capacity.CreatedNothing(c.want) ||
			c.want != errUnclear && !errors.Is(told, c.want) {
			t.Errorf("%s: %v, and %v as told, want %v", name, got, told, c.want)
		}

		if c.err != nil && Code(withOutcome(c.err)) != Code(c.err) {
			t.Errorf("%s: the code is lost", name)
		}
	}
}
