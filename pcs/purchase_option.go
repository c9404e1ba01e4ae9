package pcs

import (
	"github.com/aws/aws-sdk-go-v2/service/pcs/types"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// purchaseOptions are PCS's words for our kinds. PCS buys an ODCR like on-demand
// capacity; the target in the launch template makes the difference.
var purchaseOptions = map[capacity.Kind]types.PurchaseOption{
	capacity.CapacityBlock:     types.PurchaseOptionCapacityBlock,
	capacity.InterruptibleODCR: types.PurchaseOptionInterruptibleCapacityReservation,
	capacity.ODCR:              types.PurchaseOptionOndemand,
	capacity.OnDemand:          types.PurchaseOptionOndemand,
}

// PurchaseOption is PCS's word for a kind: "CAPACITY_BLOCK".
func PurchaseOption(k capacity.Kind) string { return string(purchaseOptions[k]) }

// kindOf turns PCS's purchase option back; OnDemand also stands for an ODCR.
func kindOf(option types.PurchaseOption) capacity.Kind {
	switch option {
	case types.PurchaseOptionCapacityBlock:
		return capacity.CapacityBlock
	case types.PurchaseOptionInterruptibleCapacityReservation:
		return capacity.InterruptibleODCR
	case types.PurchaseOptionOndemand, "":
		return capacity.OnDemand
	}
	return capacity.Kind(option)
}
