package capacity

import "bytes"

// LaunchTemplate is the part of an EC2 launch template's version that decisions depend on.
type LaunchTemplate struct {
	ID      string            `json:"id"`
	Name    string            `json:"name"`
	Version string            `json:"version"`
	Tags    map[string]string `json:"tags,omitempty"`

	ImageID         string `json:"image_id,omitempty"`
	InstanceType    string `json:"instance_type,omitempty"`
	InstanceProfile string `json:"instance_profile,omitempty"`
	KeyName         string `json:"key_name,omitempty"`
	// SecurityGroupIDs of the template and of its network interfaces.
	SecurityGroupIDs []string `json:"security_group_ids,omitempty"`
	// Cores and ThreadsPerCore are its CpuOptions; 0 for those of the instance type.
	Cores          int `json:"cores,omitempty"`
	ThreadsPerCore int `json:"threads_per_core,omitempty"`
	// UserData is decoded, not base64.
	UserData []byte `json:"-"`
	// NetworkInterfaces as the template describes them.
	NetworkInterfaces []Interface `json:"network_interfaces,omitempty"`

	// PublicAddress: its interface asks for a public address, or for none; nil where the subnet decides.
	PublicAddress *bool `json:"public_address,omitempty"`
	// Protected: its instances cannot be terminated.
	Protected bool `json:"protected,omitempty"`
	// VolumeKeys are the keys of AWS KMS that its volumes are encrypted with.
	VolumeKeys []string `json:"volume_keys,omitempty"`

	// ReservationID is the reservation that launches go to; "" if none.
	ReservationID string `json:"reservation_id,omitempty"`
	// Market is EC2's MarketType: capacity-block, spot, …; "" for On-Demand.
	Market string `json:"market,omitempty"`
	// NoTarget: the template specifies something about reservations but no target. So it is when an id was written next
	// to CapacityReservationTarget instead of in it.
	NoTarget bool `json:"no_target,omitempty"`
	// MetadataTags: an instance sees its tags in its metadata. NoMetadataTags: it does not, whatever the account's
	// default is.
	MetadataTags   bool `json:"metadata_tags,omitempty"`
	NoMetadataTags bool `json:"no_metadata_tags,omitempty"`
	// InstanceTagKeys are the keys of the tags that instances get from the template.
	InstanceTagKeys []string `json:"instance_tag_keys,omitempty"`
	// Digest identifies the LaunchTemplateSpec that we wrote the version from; "" if somebody else wrote it.
	Digest string `json:"digest,omitempty"`
}

// ShowsTags reports whether instances see their tags in their metadata, with this default of the account.
func (t LaunchTemplate) ShowsTags(byDefault bool) bool {
	return t.MetadataTags || byDefault && !t.NoMetadataTags
}

// AsksConfServer reports whether the user data makes nodes fetch slurm.conf from slurmctld.
func (t LaunchTemplate) AsksConfServer() bool {
	return bytes.Contains(t.UserData, []byte("--conf-server"))
}

// EFAMode says which network interfaces instances have for EFA (Elastic Fabric Adapter).
type EFAMode string

// The modes. EFA has an IP address on each interface, as AWS PCS documents it. EFAOnly has one address, on a plain
// first interface, as EC2 recommends it.
const (
	EFA     EFAMode = "efa"
	EFAOnly EFAMode = "efa-only"
	NoEFA   EFAMode = "none"
)

// LaunchTemplateSpec is a launch template to write. If From is set, it is a copy of From with the other fields laid
// over it; an empty field keeps the copy's value.
type LaunchTemplateSpec struct {
	Name string
	// From and FromVersion name the template to copy.
	From, FromVersion string

	ImageID  string
	UserData []byte
	// SecurityGroupIDs and KeyName are for a template that is no copy.
	SecurityGroupIDs []string
	KeyName          string
	// InstanceProfile is an ARN or a name. On PCS it must be "" and the copy's is dropped: PCS takes the profile from
	// the node group.
	InstanceProfile string
	// MetadataTags shows an instance its tags in its metadata. IMDSv2 is always required.
	MetadataTags bool
	// InstanceType is always written. Network interfaces are copied only from a template for the same type, because
	// their number depends on the type.
	InstanceType string
	// EFA writes the type's network interfaces, whatever the copy has; "" keeps the copy's. A type without EFA gets none.
	EFA EFAMode
	// SubnetID is the subnet of EFA interfaces, and of the copy's interfaces that name one; "" leaves the subnet to the
	// launch.
	SubnetID string
	// ReservationID and Kind are the target of launches; Kind OnDemand has no target.
	ReservationID string
	Kind          Kind
	// PlacementGroup is the reservation's placement group; "" if it has none.
	PlacementGroup string

	Tags map[string]string
}
