package ec2

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// A program finds the instance that it runs on by the metadata, and its tags in EC2.
func TestOwnInstance(t *testing.T) {
	sim, c := newSim(t)
	launched, err := c.Launch(t.Context(), capacity.Launch{ClientToken: "x", LaunchTemplate: nodes, InstanceType: "p5.48xlarge", SubnetID: subnetA,
		ReservationID: openBlock, Kind: capacity.CapacityBlock, Count: 1, Tags: map[string]string{capacity.TagReservation: openBlock}})
	if err != nil {
		t.Fatal(err)
	}
	metadata := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-aws-ec2-metadata-token-ttl-seconds", "60")
		_, _ = io.WriteString(w, map[string]string{"/latest/api/token": "tok", "/latest/meta-data/instance-id": launched[0].ID}[r.URL.Path])
	}))
	defer metadata.Close()
	if err := sim.Serve(t.Setenv); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_EC2_METADATA_DISABLED", "false")
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", metadata.URL)
	if c, err = New(t.Context(), Options{}); err != nil {
		t.Fatal(err)
	}
	if own, err := c.OwnInstance(t.Context()); err != nil || own.ID != launched[0].ID || own.Tags[capacity.TagReservation] != openBlock {
		t.Errorf("its own instance is %+v, %v", own, err)
	}
}
