package setup_test

import (
	"slices"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// meeting are calls of PCS with what comes before them and what makes them; the empty call
// stands for any.
var meeting = map[string]struct {
	before []string
	run    func(w *account) error
}{
	"": {nil, func(w *account) error { return w.apply(openBlock, 4) }},
	// Setup itself says which clusters there are.
	"GetCluster":             {nil, func(w *account) error { _, err := w.setup.PCS.Cluster(w.Context(), "ml"); return err }},
	"CreateComputeNodeGroup": {nil, func(w *account) error { return w.apply(openBlock, 4) }},
	"CreateQueue":            {nil, func(w *account) error { return w.apply(openBlock, 4) }},
	"UpdateComputeNodeGroup": {[]string{openBlock}, func(w *account) error { return w.apply(openBlock, 5) }},
	"UpdateQueue":            {[]string{openBlock}, func(w *account) error { return w.apply(laterBlock, 4) }},
	"UpdateCluster": {nil, func(w *account) error {
		return pcs.Provisioner{PCS: w.setup.PCS, EC2: w.ec2, Poll: w.setup.Poll}.ChangeClusterSettings(w.Context(), "ml", map[string]string{"Prolog": "/x"})
	}},
	"DeleteQueue":            {[]string{openBlock}, (*account).tearAll},
	"DeleteComputeNodeGroup": {[]string{openBlock}, (*account).tearAll},
}

func (w *account) apply(reservation string, nodes int) error {
	r := w.request(reservation)
	r.MaxNodes = nodes
	p, err := w.setup.Plan(w.Context(), r)
	if err != nil {
		return err
	}
	return w.setup.Apply(w.Context(), p)
}

func (w *account) tearAll() error {
	p, err := w.setup.PlanTeardown(w.Context(), w.teardown(""))
	if err != nil {
		return err
	}
	return w.setup.Teardown(w.Context(), p)
}

func (w *account) before(call string) {
	for _, reservation := range meeting[call].before {
		if err := w.apply(reservation, 4); err != nil {
			w.Fatal(err)
		}
	}
}

// PCS takes no change of what is being changed; that is waited for, however long it takes
// within reason, whatever the change is.
func TestConflictsAreWaitedFor(t *testing.T) {
	i := slices.IndexFunc(pcs.Remedies, func(r awsconfig.Remedy) bool { return r.Code == "ConflictException" })
	for _, call := range pcs.Remedies[i].Calls {
		w := newAccount(t, nil)
		w.before(call)
		w.fault(awssim.Fault{Service: "pcs", Effect: awssim.FailBefore, Operation: call, Code: "ConflictException", Count: 20})
		if err := meeting[call].run(w); err != nil {
			t.Errorf("%s: %v", call, err)
		}
	}
}
