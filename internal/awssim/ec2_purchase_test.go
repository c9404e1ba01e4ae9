package awssim

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// worldOf is a world of the default scenario with lines before it.
func worldOf(t *testing.T, lines string) *ec2World {
	sim, endpoint := wireSim(t, lines+"\n"+string(defaultTOML))
	return &ec2World{t, sim, ec2Client(endpoint), endpoint}
}

// What was bought shows only after a while: until then no call knows it, by its id, its tag or its
// block's history.
func TestPurchasesShowLate(t *testing.T) {
	w := worldOf(t, `lag = { purchases = "20s" }`)
	bought, err := w.purchase(*w.offerings(2, 1)[1].CapacityBlockOfferingId)
	if err != nil {
		t.Fatal(err)
	}
	id := *bought.CapacityReservation.CapacityReservationId
	if n := len(do(t, w.ec2.PurchaseCapacityBlockExtension, extend(openBlock, w.extensionOffering(openBlock, 1))).CapacityBlockExtensions); n != 1 {
		t.Fatalf("%d extensions bought", n)
	}
	seen := func() (byTag, blocks, statuses, extensions int) {
		tagged := do(t, w.ec2.DescribeCapacityReservations, &ec2.DescribeCapacityReservationsInput{Filters: []types.Filter{{Name: aws.String("tag:team"), Values: []string{"nlp"}}}})
		for _, r := range tagged.CapacityReservations {
			if *r.CapacityReservationId == id {
				byTag++
			}
		}
		for _, b := range do(t, w.ec2.DescribeCapacityBlocks, &ec2.DescribeCapacityBlocksInput{}).CapacityBlocks {
			if strings.Join(b.CapacityReservationIds, " ") == id {
				blocks++
			}
		}
		for _, s := range do(t, w.ec2.DescribeCapacityBlockStatus, &ec2.DescribeCapacityBlockStatusInput{}).CapacityBlockStatuses {
			if *s.CapacityReservationStatuses[0].CapacityReservationId == id {
				statuses++
			}
		}
		history := do(t, w.ec2.DescribeCapacityBlockExtensionHistory, &ec2.DescribeCapacityBlockExtensionHistoryInput{CapacityReservationIds: []string{openBlock}})
		return byTag, blocks, statuses, len(history.CapacityBlockExtensions)
	}
	for _, step := range []struct {
		wait time.Duration
		want int
	}{{19 * time.Second, 0}, {time.Second, 1}} {
		w.sim.Clock().Advance(step.wait)
		if byTag, blocks, statuses, extensions := seen(); byTag != step.want || blocks != step.want || statuses != step.want || extensions != step.want {
			t.Errorf("after %s: %d by its tag, %d blocks, %d statuses, %d extensions; want %d of each", step.wait, byTag, blocks, statuses, extensions, step.want)
		}
		if step.want == 0 {
			fails(t, w.ec2.DescribeCapacityReservations, &ec2.DescribeCapacityReservationsInput{CapacityReservationIds: []string{id}}, "InvalidCapacityReservationId.NotFound")
		}
	}
	w.reservation(id)
}
