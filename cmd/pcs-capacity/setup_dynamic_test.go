package main

import (
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
)

// What neither --static nor --dynamic says stays as the settings have it.
func TestSetupKeepsDynamic(t *testing.T) {
	cfg := &maybeConfig{&config.Config{Cluster: "ml", Partitions: []capacity.PartitionSettings{{Name: "gpu", Groups: []capacity.GroupSettings{
		{Name: "on", Dynamic: true}, {Name: "off"}}}}}, true}
	for _, test := range []struct {
		group           string
		static, dynamic bool
		want            bool
	}{
		{"on", false, false, true}, {"on", true, false, false}, {"on", false, true, true},
		{"off", false, false, false}, {"off", false, true, true}, {"new", false, false, false}, {"new", false, true, true},
	} {
		r, err := (&SetupCmd{Queue: "gpu", NodeGroup: test.group, Static: test.static, Dynamic: test.dynamic}).request(t.Context(), cfg)
		if err != nil || r.Dynamic != test.want {
			t.Errorf("%+v: dynamic %t, %v", test, r.Dynamic, err)
		}
	}
}
