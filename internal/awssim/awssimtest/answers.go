package awssimtest

import (
	"testing"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim/shapes"
)

// CheckAnswers fails the test for each answer of EC2 or PCS that differs from AWS's service model.
func CheckAnswers(t testing.TB, sim *awssim.Sim) {
	sim.OnResponse(func(service, operation string, status int, body []byte) {
		if service != "ec2" && service != "pcs" {
			return
		}
		if err := shapes.CheckResponse(service, operation, status, body); err != nil {
			t.Errorf("%v\nanswer (HTTP %d): %s", err, status, body)
		}
	})
}
