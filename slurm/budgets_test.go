package slurm

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// What accounting lets jobs use, as slurmctld shows it while two jobs of one CPU run.
func TestBudgetsAsSlurmShowsThem(t *testing.T) {
	text, err := os.ReadFile("testdata/assoc_mgr-22.05.txt")
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseBudgets(string(text))
	cpu := func(limit, taken int64) map[string]capacity.Meter {
		return map[string]capacity.Meter{"cpu": {Limit: limit, Taken: taken}}
	}
	of := capacity.TRES{"cpu": 400}
	want := capacity.Budgets{
		QOS: []capacity.Budget{{QOS: "normal", Jobs: 1}, {QOS: "short", Jobs: 1, PerJob: capacity.TRES{"cpu": 70, "gres/gpu": 90}, Running: cpu(100000, 4+rounded)},
			{QOS: "part", Jobs: 1, Wall: &capacity.Meter{Limit: 10000}, Total: map[string]capacity.Meter{"cpu": {Limit: 5000, Taken: 100 + rounded}, "mem": {Limit: 10000000, Taken: 100 + rounded}}}},
		Associations: []capacity.Budget{{Account: "root", Jobs: 2}, {Account: "root", User: "root"},
			{Account: "top", Parent: "root", Jobs: 2, Total: cpu(40000, 104+rounded)},
			{Account: "nlp", Parent: "top", Jobs: 2, PerJob: of, Running: cpu(7000, 104+rounded), Wall: &capacity.Meter{Limit: 700}},
			{Account: "nlp", User: "games", Partition: "special", Jobs: 1, PerJob: of},
			{Account: "nlp", User: "games", Jobs: 1, PerJob: of, Total: cpu(900, 4+rounded)}},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	for what, broken := range map[string]string{
		"nothing":       "",
		"no QOS":        strings.Split(string(text), "QOS Records")[0],
		"no limit":      strings.ReplaceAll(string(text), "GrpTRESRunMins=", "GrpRunMins="),
		"another form":  strings.ReplaceAll(string(text), "cpu=40000(0)", "cpu=40000"),
		"not a number":  strings.ReplaceAll(string(text), "GrpWall=700(", "GrpWall=11:40:00("),
		"no real limit": strings.ReplaceAll(string(text), "MaxTRESMinsPJ=cpu=400", "MaxTRESMinsPJ=cpu=many"),
	} {
		if got, err := parseBudgets(broken); err == nil {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

func TestParseTRES(t *testing.T) {
	for text, want := range map[string]capacity.TRES{
		"cpu=1,mem=1M,node=1,billing=1":                {"cpu": 1, "mem": 1, "node": 1, "billing": 1},
		"cpu=192,mem=1.50G,gres/gpu=8,gres/gpu:h100=8": {"cpu": 192, "mem": 1536, "gres/gpu": 8, "gres/gpu:h100": 8},
		"mem=100K": {"mem": 1}, "mem=2T": {"mem": 2 << 20}, "": {},
		"cpu": nil, "cpu=": nil, "cpu=-1": nil, "cpu=1X": nil, "cpu=NaN": nil, "cpu=1e300": nil, "cpu=MM": nil, "N/A": nil,
	} {
		if got, err := ParseTRES(text); !cmp.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}
