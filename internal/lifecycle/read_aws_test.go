package lifecycle

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/lab/model"
)

// No question to AWS waits for the answer of another, but for the instances in reservations that a first pass has to
// find by tag.
func TestQuestionsToAWSWaitForNoOther(t *testing.T) {
	st := newStage(t)
	st.block("cr-1", "solo", -24*time.Hour, 48*time.Hour, 4)
	synctest.Test(t, func(t *testing.T) {
		st.Before = func(c model.Call) error {
			if c.EC2 {
				time.Sleep(time.Second)
			}

			return nil
		}

		for _, want := range []time.Duration{2 * time.Second, time.Second} {
			began := time.Now()

			if _, _, err := Pass(t.Context(), st.sources); err != nil {
				t.Error(err)
			}

			if took := time.Since(began); took != want {
				t.Errorf("a pass took %s at a second a call, want %s", took, want)
			}
		}
	})
}
