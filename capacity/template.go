package capacity

import "bytes"

// LaunchTemplate is what one version of an EC2 launch template says, as far as a
// decision depends on it.
type LaunchTemplate struct {
	ID      string            `json:"id"`
	Name    string            `json:"name"`
	Version string            `json:"version"`
	Tags    map[string]string `json:"tags,omitempty"`

	ImageID         string `json:"image_id,omitempty"`
	InstanceType    string `json:"instance_type,omitempty"`
	InstanceProfile string `json:"instance_profile,omitempty"`
	KeyName         string `json:"key_name,omitempty"`
	// SecurityGroupIDs are those of the template and of its network interfaces.
	SecurityGroupIDs []string `json:"security_group_ids,omitempty"`
	// UserData is plain, not in base64.
	UserData []byte `json:"-"`
	// NetworkInterfaces are those that the template describes.
	NetworkInterfaces []Interface `json:"network_interfaces,omitempty"`

	// ReservationID is the reservation that launches go to; "" if none.
	ReservationID string `json:"reservation_id,omitempty"`
	// Market is EC2's MarketType: capacity-block, spot, …; "" for On-Demand.
	Market string `json:"market,omitempty"`
	// NoTarget: it says something about reservations, but not which. That is what is left of
	// an id that was written beside CapacityReservationTarget instead of in it.
	NoTarget bool `json:"no_target,omitempty"`
	// MetadataTags: an instance finds its tags in its metadata.
	MetadataTags bool `json:"metadata_tags,omitempty"`
	// Digest is that of the LaunchTemplateSpec that we wrote the version from; "" if
	// somebody else wrote it.
	Digest string `json:"digest,omitempty"`
}

// AsksConfServer reports whether nodes get slurm.conf from slurmctld, by their user data.
func (t LaunchTemplate) AsksConfServer() bool {
	return bytes.Contains(t.UserData, []byte("--conf-server"))
}

// EFAMode is which network interfaces instances have for EFA (Elastic Fabric Adapter).
type EFAMode string

// The modes. EFA has an address on each interface, as AWS PCS documents it; EFAOnly has one
// address, on a plain first interface, as EC2 recommends it.
const (
	EFA     EFAMode = "efa"
	EFAOnly EFAMode = "efa-only"
	NoEFA   EFAMode = "none"
)

// LaunchTemplateSpec is a launch template to write: a copy of another one, if From
// is set, with the other fields laid over it; an empty field leaves the copy's.
type LaunchTemplateSpec struct {
	Name string
	// From and FromVersion name the template to copy.
	From, FromVersion string

	ImageID          string
	SecurityGroupIDs []string
	UserData         []byte
	// InstanceProfile is an ARN or a name. PCS takes it from the node group, so that it is ""
	// there, and that of the copy is dropped all the same.
	InstanceProfile string
	// MetadataTags shows an instance its tags in its metadata, which is IMDSv2 in any case.
	MetadataTags bool
	// RootVolume is laid over the copy, and over what the image says.
	RootVolume RootVolume
	// InstanceType is always written. Network interfaces are copied only from a
	// template for the same type, because their number goes with the type.
	InstanceType string
	// EFA writes the network interfaces of the type, whatever the copy has; "" leaves
	// those of the copy. A type without EFA gets none.
	EFA EFAMode
	// SubnetID is the subnet of the interfaces for EFA, and of those in the copy that name
	// one; "" leaves it to who launches.
	SubnetID string
	// ReservationID and Kind say where launches go. OnDemand: nowhere.
	ReservationID string
	Kind          Kind
	// PlacementGroup is that of the reservation; "" if it has none.
	PlacementGroup string

	Tags map[string]string
}

// RootVolume is the volume that instances boot from.
type RootVolume struct {
	// Device is its name in the image, such as /dev/xvda.
	Device string
	// GiB is its size; 0 leaves it.
	GiB int
	// Type is EC2's word, such as gp3; "" leaves it.
	Type string
}
