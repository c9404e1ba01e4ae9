package ec2

import (
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

// laggingWorld is one in which nothing shows for 5 seconds after its creation, and each request takes 3.
func laggingWorld(t *testing.T) (*awssim.Sim, *Client) {
	t.Helper()
	sim, c := newSim(t)
	lag := awssim.Duration(5 * time.Second)
	sim.SetLag(awssim.Lag{Instances: &lag, Templates: &lag, Tags: &lag, Reservations: &lag})
	sim.Clock().SetStep(3 * time.Second)
	return sim, c
}

func launchOne(t *testing.T, c *Client) capacity.Instance {
	t.Helper()
	launched, err := c.Launch(t.Context(), capacity.Launch{ClientToken: "t", LaunchTemplate: nodes, InstanceType: "c7i.4xlarge", SubnetID: subnetA,
		Kind: capacity.OnDemand, Count: 1, Tags: map[string]string{capacity.TagCluster: "ml"}})
	if err != nil {
		t.Fatal(err)
	}
	return launched[0]
}

// NotFound soon after a launch does not mean that the instance is gone.
func TestNewInstanceIsTerminated(t *testing.T) {
	sim, c := laggingWorld(t)
	i := launchOne(t, c)
	second, err := c.Launch(t.Context(), capacity.Launch{ClientToken: "second", LaunchTemplate: nodes, InstanceType: "c7i.4xlarge", SubnetID: subnetA, Kind: capacity.OnDemand, Count: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Terminate(t.Context(), []string{i.ID, second[0].ID}); err != nil {
		t.Fatal(err)
	}
	for _, i := range sim.Instances(homeRegion) {
		if i.State != "shutting-down" && i.State != "terminated" {
			t.Errorf("%s is %s", i.ID, i.State)
		}
	}
}

func TestNewInstanceThatNeverShowsIsNotGone(t *testing.T) {
	sim, c := laggingWorld(t)
	c.shared.settle = 20 * time.Millisecond
	sim.Clock().SetStep(0)
	i := launchOne(t, c)
	if err := c.Terminate(t.Context(), []string{i.ID}); Code(err) != "InvalidInstanceID.NotFound" {
		t.Errorf("terminating what does not show: %v", err)
	}
	if err := c.Terminate(t.Context(), []string{"i-0ffffffffffffffff"}); err != nil {
		t.Errorf("one that nobody has launched is gone: %v", err)
	}
}

// A launch template is what its creation answered, and shows when it is handed out.
func TestNewLaunchTemplate(t *testing.T) {
	_, c := laggingWorld(t)
	made, err := c.EnsureLaunchTemplate(t.Context(), spec(openBlock))
	if err != nil || made.ID == "" || made.Version != "1" || made.ReservationID != openBlock || made.Digest == "" || made.Tags[capacity.TagCluster] != "ml" {
		t.Fatalf("made %+v, %v", made, err)
	}
	if shown, found, err := c.LaunchTemplate(t.Context(), made.ID, "1"); !found || err != nil || shown.Digest != made.Digest {
		t.Errorf("handed out before it shows: %v, %v", found, err)
	}
	next, err := c.EnsureLaunchTemplate(t.Context(), spec(laterBlock))
	if err != nil || next.ID != made.ID || next.Version != "2" || next.ReservationID != laterBlock || next.Tags[capacity.TagReservation] != laterBlock {
		t.Fatalf("next %+v, %v", next, err)
	}
	if shown, found, err := c.LaunchTemplate(t.Context(), made.ID, "2"); !found || err != nil || shown.ReservationID != laterBlock {
		t.Errorf("handed out before it shows: %v, %v", found, err)
	}
}

// Another run finds the name taken, and nothing to read yet.
func TestLaunchTemplateThatAnotherRunMade(t *testing.T) {
	sim, c := laggingWorld(t)
	sim.Clock().SetStep(0)
	c.shared.settle = 20 * time.Millisecond
	if _, err := c.EnsureLaunchTemplate(t.Context(), spec(openBlock)); err != nil {
		t.Fatal(err) // what EC2 answered, though it does not show
	}
	if _, err := c.EnsureLaunchTemplate(t.Context(), spec(openBlock)); !notShown(err) {
		t.Errorf("no way to read it: %v", err)
	}
	c.shared.settle = settleTime
	sim.Clock().SetStep(3 * time.Second)
	again, err := c.EnsureLaunchTemplate(t.Context(), spec(openBlock))
	if err != nil || again.Version != "1" || calls(sim, "CreateLaunchTemplateVersion") != 0 {
		t.Errorf("again %+v, %v", again, err)
	}
}
