package setup

import (
	"context"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/preflight"
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

// readImage reads the image of the nodes. A slot that has an older image of PCS keeps it: PCS would
// replace its nodes for a newer one.
func (s Setup) readImage(ctx context.Context, in *inspection, n *notes, id string) error {
	var has ec2.Image
	reads, readCtx := errgroup.WithContext(ctx)
	if kept := in.keptImage(); in.request.AMI == pcs.GPUImage && kept != "" && kept != id {
		reads.Go(func() (err error) {
			if has, err = s.EC2.Image(readCtx, kept); absent(err) {
				return nil
			}
			return err
		})
	}
	reads.Go(func() (err error) {
		if in.unattended { // the slot that runs has it
			in.names.image, err = s.EC2.Image(readCtx, id)
		} else {
			in.names.image, err = preflight.ReadImage(readCtx, s.EC2, id, in.names.instanceType)
		}
		if !absent(err) {
			return err
		}
		n.problem(capacity.BadImage, "give an image of this region with --ami", "EC2 has no image %s in %s (%s)", id,
			in.region, ec2.Code(err))
		return nil
	})
	if err := reads.Wait(); err != nil || !pcs.IsGPUImage(has.Name, has.Owner) {
		return err
	}
	n.warn(
		"the nodes keep image %s (%s), since a change would replace them; by now PCS publishes %s (%s), which --ami %[3]s takes",
		has.ID, has.Name, id, in.names.image.Name)
	in.names.image, in.names.gpuImage = has, has.ID
	return nil
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
