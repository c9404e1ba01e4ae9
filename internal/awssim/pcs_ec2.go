package awssim

import (
	"bytes"
	"encoding/base64"
	"mime"
	"net/mail"
	"strconv"
	"strings"
)

// Things that PCS reads and makes in EC2.

// templateForPCS is the part of a launch template's version that PCS reads.
type templateForPCS struct {
	version             string // number
	instanceType, image string
	market              string // InstanceMarketOptions.MarketType
	reservation         string // CapacityReservationTarget.CapacityReservationId
	plainUserData       bool   // there is some, and it is no MIME multi-part archive
}

func (r *region) templateForPCS(want pcsTemplate) (templateForPCS, bool) {
	t, err := r.template(want.ID, "")
	if err != nil {
		return templateForPCS{}, false
	}
	v, err := t.version(want.Version)
	if err != nil {
		return templateForPCS{}, false
	}
	userData, _ := base64.StdEncoding.DecodeString(v.data.UserData) // checked when the version was made
	return templateForPCS{
		plainUserData: len(userData) > 0 && !isMultipart(userData),
		version:       strconv.FormatInt(v.number, 10), instanceType: v.data.InstanceType, image: v.data.ImageId,
		market: v.data.marketType(), reservation: v.data.target().CapacityReservationId,
	}, true
}

// isMultipart tells whether user data is a MIME multi-part archive.
func isMultipart(data []byte) bool {
	message, err := mail.ReadMessage(bytes.NewReader(data))
	if err != nil {
		return false
	}
	kind, _, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	return err == nil && strings.HasPrefix(kind, "multipart/")
}

// managedData is the content of the launch template that PCS derives for a node group: the custom template, with the
// reservation target unchanged, and the node group's own settings. PCS gives the subnet and the type at launch.
func (r *region) managedData(cl *pcsCluster, g *pcsGroup) (templateData, error) {
	t, err := r.template(g.LaunchTemplate.ID, "")
	if err != nil {
		return templateData{}, err
	}
	v, err := t.version(g.LaunchTemplate.Version)
	if err != nil {
		return templateData{}, err
	}
	data := v.data
	data.IamInstanceProfile = &instanceProfile{Arn: g.InstanceProfile}
	if g.AMI != "" {
		data.ImageId = g.AMI
	}
	return data, nil
}

// makeManagedTemplate makes the launch template pcs-ID-do-not-delete of a node group.
func (s *Sim) makeManagedTemplate(cl *pcsCluster, g *pcsGroup) (id string, err error) {
	data, err := cl.region.managedData(cl, g)
	if err != nil {
		return "", err
	}
	t := &launchTemplate{
		in: cl.region, id: s.newID("lt"), name: "pcs-" + g.ID + "-do-not-delete", created: s.now, defaultVersion: 1,
		versions: map[int64]*templateVersion{}, tags: map[string]string{tagClusterID: cl.ID, tagGroupID: g.ID},
	}
	t.add(s.now, "", data)
	cl.region.templates[t.id] = t
	return t.id, nil
}

// updateManagedTemplate adds the version for an updated node group.
func (s *Sim) updateManagedTemplate(cl *pcsCluster, g *pcsGroup) error {
	data, err := cl.region.managedData(cl, g)
	if err != nil {
		return err
	}
	t, err := cl.region.template(g.managed, "")
	if err != nil {
		// Somebody deleted what is called do-not-delete.
		return pcsConflict(&g.pcsThing, "the managed launch template %s of compute node group %s is gone", g.managed, g.Name)
	}
	t.defaultVersion = t.add(s.now, "", data).number
	return nil
}

// target is the reservation into which a node group launches, or nil.
func (g *pcsGroup) target(r *region) *reservation {
	t := r.templates[g.managed]
	if t == nil {
		return nil
	}
	v, err := t.version("$Latest")
	if err != nil {
		return nil
	}
	return r.reservations[v.data.target().CapacityReservationId]
}
