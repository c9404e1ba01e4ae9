package prolog

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

// What an instance that ResumeProgram launched says of itself.
func TestMetadataOfAnInstance(t *testing.T) {
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
	t.Setenv(metadataVariable, sim.MetadataURL(launched[0].ID))
	t.Setenv("http_proxy", "http://127.0.0.1:1") // nothing is there
	got, err := metadata(t.Context())
	// the template has no tags in metadata
	want := capacity.Metadata{InstanceID: launched[0].ID, InstanceType: "p5.48xlarge", AZID: "use2-az1"}
	if err != nil || got != want {
		t.Errorf("%v %+v, want %+v", err, got, want)
	}
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-aws-ec2-metadata-token-ttl-seconds", "60")
		_, _ = io.WriteString(w, map[string]string{"/latest/api/token": "tok", "/latest/meta-data/instance-id": launched[0].ID}[r.URL.Path])
	}))
	defer service.Close()
	t.Setenv("AWS_EC2_METADATA_DISABLED", "false")
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", service.URL)
	if client, err = ec2.New(t.Context(), ec2.Options{}); err != nil {
		t.Fatal(err)
	}
	if own, err := client.OwnInstance(t.Context()); err != nil || own.ID != launched[0].ID || own.Tags[capacity.TagReservation] == "" {
		t.Errorf("its own instance is %+v, %v", own, err)
	}
}

// What answers in another way than the metadata service is an error, never a difference.
func TestMetadataTrouble(t *testing.T) {
	good := map[string]string{"api/token": "tok", "meta-data/instance-id": "i-0a", "meta-data/instance-type": "p5.48xlarge",
		"meta-data/placement/availability-zone-id": "use2-az1", "meta-data/tags/instance/pcs-capacity:reservation": "cr-0a"}
	for name, c := range map[string]struct {
		path   string
		status int
		text   string
		want   capacity.Metadata // with an id: no error
	}{
		"all is there":       {"", 0, "", capacity.Metadata{InstanceID: "i-0a", InstanceType: "p5.48xlarge", AZID: "use2-az1", ReservationID: "cr-0a"}},
		"no zone id":         {"meta-data/placement/availability-zone-id", 404, "", capacity.Metadata{InstanceID: "i-0a", InstanceType: "p5.48xlarge", ReservationID: "cr-0a"}},
		"no tags":            {"meta-data/tags/instance/pcs-capacity:reservation", 404, "", capacity.Metadata{InstanceID: "i-0a", InstanceType: "p5.48xlarge", AZID: "use2-az1"}},
		"no token":           {"api/token", 404, "", capacity.Metadata{}},
		"the service is off": {"api/token", 403, "", capacity.Metadata{}},
		"throttled":          {"meta-data/instance-type", 503, "", capacity.Metadata{}},
		"a proxy's page":     {"meta-data/instance-type", 200, "<html>log in", capacity.Metadata{}},
		"a zone's name":      {"meta-data/placement/availability-zone-id", 200, "us-east-2a", capacity.Metadata{}},
		"elsewhere":          {"meta-data/instance-id", 302, "", capacity.Metadata{}},
		"endless":            {"meta-data/instance-type", 200, strings.Repeat("p5.", 1<<20), capacity.Metadata{}},
		"another tag":        {"meta-data/tags/instance/pcs-capacity:reservation", 200, "none", capacity.Metadata{}},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				path := strings.TrimPrefix(r.URL.Path, "/latest/")
				if path == "api/token" != (r.Method == http.MethodPut) || r.Method == http.MethodGet && r.Header.Get("X-aws-ec2-metadata-token") != "tok" {
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
				w.Header().Set("Location", "http://"+r.Host+"/latest/meta-data/instance-id?again")
				if path == c.path && r.URL.RawQuery == "" {
					w.WriteHeader(c.status)
					fmt.Fprint(w, c.text)
					return
				}
				fmt.Fprint(w, good[path])
			}))
			defer server.Close()
			t.Setenv(metadataVariable, server.URL+"/")
			got, err := metadata(t.Context())
			if c.want.InstanceID == "" {
				if err == nil || !strings.Contains(err.Error(), "instance metadata: ") || len(err.Error()) > 2000 {
					t.Errorf("%v %+v, want an error", err, got)
				}
			} else if err != nil || got != c.want {
				t.Errorf("%v %+v, want %+v", err, got, c.want)
			}
		})
	}
}

// Nothing answers: the deadline of the caller holds.
func TestMetadataSilent(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer server.Close()
	t.Setenv(metadataVariable, server.URL)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := metadata(ctx); err == nil {
		t.Error("no error")
	}
}
