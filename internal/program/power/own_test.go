package power

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

// A program finds the instance that it runs on by the metadata, and its tags in EC2.
func TestOwnInstance(t *testing.T) {
	scenario, err := awssim.LoadScenario("../../../hooks/power/testdata/power.toml")
	if err != nil {
		t.Fatal(err)
	}
	sim, err := awssim.New(scenario, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer sim.Close()
	if err := sim.Serve(t.Setenv); err != nil {
		t.Fatal(err)
	}
	client, err := ec2.New(t.Context(), ec2.Options{})
	if err != nil {
		t.Fatal(err)
	}
	launched, err := client.Launch(t.Context(), capacity.Launch{ClientToken: "x", LaunchTemplate: "lt-0aaaaaaaaaaaaaaaa", InstanceType: "p5.48xlarge",
		SubnetID: "subnet-0aaaaaaaaaaaaaaaa", ReservationID: "cr-0aaaaaaaaaaaaaaa1", Kind: capacity.CapacityBlock, Count: 1,
		Tags: map[string]string{capacity.TagReservation: "cr-0aaaaaaaaaaaaaaa1"}})
	if err != nil {
		t.Fatal(err)
	}
	metadata := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-aws-ec2-metadata-token-ttl-seconds", "60")
		_, _ = io.WriteString(w, map[string]string{"/latest/api/token": "tok", "/latest/meta-data/instance-id": launched[0].ID}[r.URL.Path])
	}))
	defer metadata.Close()
	t.Setenv("AWS_EC2_METADATA_DISABLED", "false")
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", metadata.URL)
	if client, err = ec2.New(t.Context(), ec2.Options{}); err != nil {
		t.Fatal(err)
	}
	if own, err := client.OwnInstance(t.Context()); err != nil || own.ID != launched[0].ID || own.Tags[capacity.TagReservation] == "" {
		t.Errorf("its own instance is %+v, %v", own, err)
	}
}
