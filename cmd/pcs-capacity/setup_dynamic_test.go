package main

import (
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
)

// What --dynamic does not say stays as the settings have it.
func TestSetupKeepsDynamic(t *testing.T) {
	cfg := &maybeConfig{&config.Config{Cluster: "ml", Partitions: []capacity.PartitionSettings{{Name: "gpu", Groups: []capacity.GroupSettings{
		{Name: "on", Dynamic: true}, {Name: "off"}}}}}, true}
	yes := true
	for _, test := range []struct {
		group   string
		dynamic *bool
		want    bool
	}{
		{"on", nil, true}, {"on", new(bool), false}, {"off", nil, false}, {"off", &yes, true}, {"new", nil, false}, {"new", &yes, true},
	} {
		r, err := (&SetupCmd{Queue: "gpu", NodeGroup: test.group, Dynamic: test.dynamic}).request(t.Context(), cfg)
		if err != nil || r.Dynamic != test.want {
			t.Errorf("%+v: dynamic %t, %v", test, r.Dynamic, err)
		}
	}
}
