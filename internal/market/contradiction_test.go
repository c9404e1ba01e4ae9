package market

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

func TestContradicts(t *testing.T) {
	start := time.Date(2026, 11, 20, 13, 0, 0, 0, time.UTC)
	block := capacity.Offering{ID: "cb-1", InstanceType: "p5.48xlarge", Count: 4, Region: "us-east-2", Start: start, End: start.Add(2*day - 90*time.Minute)}
	servers := capacity.Offering{ID: "cb-1", InstanceType: "trn2u.48xlarge", Count: 8, UltraServerType: "u-trn2u-x64", UltraServerCount: 2, Region: "us-east-2", Start: start, End: start.Add(day)}
	elsewhere := capacity.Offering{ID: "cb-1", Region: "us-east-2"} // what the tags of an UltraServer's reservation tell
	for name, c := range map[string]struct {
		says  PurchaseOrder
		is    capacity.Offering
		asked time.Duration
		want  string // the flags that contradict
	}{
		"nothing is said":               {PurchaseOrder{}, block, 2 * day, ""},
		"all of it":                     {PurchaseOrder{InstanceType: "p5.48xlarge", Count: 4, Duration: 2 * day, Region: "us-east-2", Platform: "Linux/UNIX"}, block, 2 * day, ""},
		"another type":                  {PurchaseOrder{InstanceType: "p4d.24xlarge"}, block, 2 * day, "--instance-type=p4d.24xlarge"},
		"another count":                 {PurchaseOrder{Count: 3}, block, 2 * day, "--count=3"},
		"another length":                {PurchaseOrder{Duration: 3 * day}, block, 2 * day, "--duration=3d"},
		"the length as it is":           {PurchaseOrder{Duration: 2*day - 90*time.Minute}, block, 5 * day, ""},
		"the length as it was asked":    {PurchaseOrder{Duration: 5 * day}, block, 5 * day, ""},
		"a length that EC2 rounds":      {PurchaseOrder{Duration: 30 * time.Hour}, block, 2 * day, ""},
		"a length that EC2 never sells": {PurchaseOrder{Duration: 400 * day}, block, 2 * day, "--duration=400d"},
		"another region":                {PurchaseOrder{Region: "us-west-2"}, block, 2 * day, "--region=us-west-2"},
		"another platform":              {PurchaseOrder{Platform: "SUSE Linux"}, block, 2 * day, `--platform="SUSE Linux"`},
		"two things":                    {PurchaseOrder{Count: 5, Region: "us-west-2"}, block, 2 * day, "--count=5 --region=us-west-2"},
		"UltraServers":                  {PurchaseOrder{InstanceType: "u-trn2u-x64", Count: 2}, servers, day, ""},
		"UltraServers, only counted":    {PurchaseOrder{Count: 2}, servers, day, ""},
		"UltraServers as instances":     {PurchaseOrder{InstanceType: "trn2u.48xlarge", Count: 8}, servers, day, ""},
		"more UltraServers":             {PurchaseOrder{Count: 8}, servers, day, "--count=8"},
		"other UltraServers":            {PurchaseOrder{InstanceType: "u-p6e-gb200x72", Count: 2}, servers, day, "--instance-type=u-p6e-gb200x72"},
		"what is not known":             {PurchaseOrder{InstanceType: "u-trn2u-x64", Count: 2, Duration: day}, elsewhere, 0, ""},
	} {
		c.says.OfferingID = "cb-1"
		err := c.says.contradicts(c.is, c.asked, "Linux/UNIX")
		var flags []string
		if err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				flag, _, _ := strings.Cut(line, ": ")
				flags = append(flags, flag)
			}
			if !errors.As(err, new(Mistake)) {
				t.Errorf("%s: %v is no mistake", name, err)
			}
		}
		if got := strings.Join(flags, " "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	open := PurchaseOrder{Platform: "SUSE Linux"}
	if err := open.contradicts(block, 2*day, ""); err != nil {
		t.Errorf("the platform is open: %v", err)
	}
}
