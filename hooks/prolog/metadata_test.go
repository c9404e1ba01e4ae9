package prolog

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// What answers in another way than the metadata service is an error, never a difference.
func TestMetadataTrouble(t *testing.T) {
	good := map[string]string{
		"api/token":                                        "tok",
		"meta-data/instance-id":                            "i-0a",
		"meta-data/instance-type":                          "p5.48xlarge",
		"meta-data/placement/availability-zone-id":         "use2-az1",
		"meta-data/tags/instance/pcs-capacity:reservation": "cr-0a",
	}
	for name, c := range map[string]struct {
		path   string
		status int
		text   string
		want   capacity.Metadata // with an id: no error
	}{
		"all is there": {
			"",
			0,
			"",
			capacity.Metadata{
				InstanceID:    "i-0a",
				InstanceType:  "p5.48xlarge",
				AZID:          "use2-az1",
				ReservationID: "cr-0a",
			},
		},
		"no zone id": {
			"meta-data/placement/availability-zone-id",
			404,
			"",
			capacity.Metadata{InstanceID: "i-0a", InstanceType: "p5.48xlarge", ReservationID: "cr-0a"},
		},
		"no tags": {
			"meta-data/tags/instance/pcs-capacity:reservation",
			404,
			"",
			capacity.Metadata{InstanceID: "i-0a", InstanceType: "p5.48xlarge", AZID: "use2-az1"},
		},
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
				if path == "api/token" != (r.Method == http.MethodPut) ||
					r.Method == http.MethodGet && r.Header.Get("X-aws-ec2-metadata-token") != "tok" {
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
	server := httptest.NewServer(
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }),
	)
	defer server.Close()

	t.Setenv(metadataVariable, server.URL)

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()

	if _, err := metadata(ctx); err == nil {
		t.Error("no error")
	}
}
