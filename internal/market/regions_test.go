package market

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

// A region that fails hides none of the others; only when all fail there is an error (R8).
func TestR8_AskRegions(t *testing.T) {
	w := newWorld(t, nil)
	regions := []string{"eu-north-1", "us-east-1", "us-east-2"}
	ask := func(failing ...string) ([]string, []RegionFailure, error) {
		return AskRegions(t.Context(), &w.customer, w.aws, regions, func(_ context.Context, aws *ec2.Client) (string, error) {
			if slices.Contains(failing, aws.Region()) {
				return "", fmt.Errorf("%s is down\nfor good", aws.Region())
			}
			return "from " + aws.Region(), nil
		})
	}
	all := []string{"from eu-north-1", "from us-east-1", "from us-east-2"}
	if got, failed, err := ask(); err != nil || failed != nil || !slices.Equal(got, all) {
		t.Errorf("%v, %v, %v", got, failed, err)
	}
	if !strings.Contains(w.said(), "asked 3 of 3 regions") {
		t.Errorf("said: %s", w.said())
	}
	got, failed, err := ask("us-east-1")
	if err != nil || !slices.Equal(got, []string{all[0], "", all[2]}) || !slices.Equal(failed, []RegionFailure{{Region: "us-east-1", Message: "us-east-1 is down"}}) {
		t.Errorf("%v, %v, %v", got, failed, err)
	}
	got, failed, err = ask(regions...)
	if err == nil || !strings.Contains(err.Error(), "none of the 3 regions") || got != nil || len(failed) != 3 {
		t.Errorf("%v, %v, %v", got, failed, err)
	}
	regions = regions[:1]
	if got, failed, err := ask(regions...); err == nil || err.Error() != "eu-north-1 is down\nfor good" || got != nil || len(failed) != 1 {
		t.Errorf("the only one: %v, %v, %v", got, failed, err)
	}
	if got, failed, err := ask(); err != nil || failed != nil || len(got) != 1 {
		t.Errorf("the only one: %v, %v, %v", got, failed, err)
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := AskRegions(stopped, &w.customer, w.aws, regions, func(context.Context, *ec2.Client) (int, error) { return 1, nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

func TestRegionFailure(t *testing.T) {
	if got := (RegionFailure{Region: "us-east-2", Message: "timeout"}).Reason(); got != "timeout" {
		t.Errorf("without a code: %q", got)
	}
	if got := (RegionFailure{Code: "AuthFailure", Message: "who are you"}).Reason(); got != "AuthFailure: who are you" {
		t.Errorf("with a code: %q", got)
	}
	w := newWorld(t, nil)
	w.fault(awssim.Fault{Operation: "DescribeSubnets", Effect: awssim.FailBefore, Code: "AuthFailure", Message: "who are you", Status: 401})
	_, err := w.aws.Subnets(t.Context(), []string{subnetA1})
	if f := newRegionFailure("us-east-2", err); f.Code != "AuthFailure" || !strings.Contains(f.Message, "who are you") || strings.Contains(f.Message, "describ") {
		t.Errorf("%+v of %v", f, err)
	}
	one, two := RegionFailure{Region: "a", Message: "first"}, RegionFailure{Region: "b"}
	if diff := cmp.Diff([]RegionFailure{one, two}, unionOfFailures([]RegionFailure{one}, []RegionFailure{{Region: "a", Message: "again"}, two})); diff != "" {
		t.Error(diff)
	}
}

func TestChooseRegions(t *testing.T) {
	w := newWorld(t, nil)
	given := []string{"us-west-2", "eu-north-1", "us-west-2"}
	for name, c := range map[string]struct{ given, want []string }{
		"none":  {nil, []string{"us-east-2"}},
		"some":  {given, []string{"eu-north-1", "us-west-2"}},
		"all":   {[]string{"eu-north-1", "all"}, []string{"us-east-2"}}, // the world has one
		"alone": {[]string{"eu-north-1"}, []string{"eu-north-1"}},
	} {
		if got, err := ChooseRegions(t.Context(), w.aws, c.given); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if given[0] != "us-west-2" {
		t.Errorf("what was given is changed: %v", given)
	}
}
