package preflight

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/pcs-capacity/pcs-capacity/ec2"
)

// Read completes image, type and account defaults from EC2 with one round of calls, side by side.
// Unreadable parts stay as they are.
func Read(ctx context.Context, aws *ec2.Client, s Seen) (Seen, error) {
	var image, kind, defaults error
	var all sync.WaitGroup
	all.Go(func() {
		types, err := aws.InstanceTypes(ctx, []string{s.Template.InstanceType})
		s.Type, kind = types[s.Template.InstanceType], err
		if id := s.Template.ImageID; strings.HasPrefix(id, "ami-") { // else Systems Manager names it
			s.Image, image = ReadImage(ctx, aws, id, s.Type)
		}
	})
	all.Go(func() { s.MetadataTags, defaults = aws.MetadataTagsByDefault(ctx) })
	all.Wait()
	return s, errors.Join(image, kind, defaults)
}
