package setup

import (
	"context"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// readGPUImage asks which image PCS publishes for the instance type.
func (s Setup) readGPUImage(ctx context.Context, in *inspection, n *notes) error {
	image, parameter, err := s.PCS.GPUImageFor(ctx, in.names.instanceType.Architectures)
	if pcs.Code(err) == "ParameterNotFound" {
		n.problem(capacity.BadImage,
			"give an image by its id with --ami; `aws ec2 describe-images --region "+in.region+" --owners amazon --filters 'Name=name,Values=aws-pcs-ready-dlami-*'` lists those of PCS",
			"PCS publishes no image for %s in %s: Systems Manager has no parameter %s there (%s)",
			strings.Join(in.names.instanceType.Architectures, " and "), in.region, parameter, pcs.Code(err))
		return nil
	}
	in.names.gpuImage = image
	return err
}

// readKeptImage keeps an older image of PCS that a slot has: PCS would replace its nodes for a newer one.
func (s Setup) readKeptImage(ctx context.Context, in *inspection, n *notes) error {
	kept, newest := in.keptImage(), in.names.gpuImage
	if in.request.AMI != pcs.GPUImage || kept == "" || kept == newest {
		return nil
	}
	has, err := s.EC2.Image(ctx, kept)
	switch {
	case absent(err):
		return nil
	case err == nil && pcs.IsGPUImage(has.Name, has.Owner):
		n.warn("the nodes keep image %s (%s), since a change would replace them; by now PCS publishes %s, which --ami %[3]s takes",
			has.ID, has.Name, newest)
		in.names.gpuImage = has.ID
	}
	return err
}

// keptImage is that of the node group in the reservation; "" if none is.
func (in *inspection) keptImage() string {
	for _, slot := range in.slots {
		if slot.group != nil && slot.launchesInto(in.reservation.ID) {
			return first(slot.group.AMI, slot.uses.ImageID)
		}
	}
	return ""
}
