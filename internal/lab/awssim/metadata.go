package awssim

import (
	"cmp"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The instance metadata service, version 2 (EC2 User Guide, "Use the Instance Metadata Service to access instance
// metadata"). An instance has it at an address of its own; here it is below MetadataURL, because all instances are one
// machine. Faults hit it as service "imds", with the last part of the path as the operation.

// tokenTTL asks for the length of a session in seconds; at most maxTokenTTL.
const (
	tokenTTL    = "X-aws-ec2-metadata-token-ttl-seconds"
	maxTokenTTL = 21600
)

// MetadataURL returns the value of AWS_EC2_METADATA_SERVICE_ENDPOINT for an instance, of a simulator that listens.
func (s *Sim) MetadataURL(instance string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return "http://" + s.listener.Addr().String() + "/_sim/metadata/" + instance
}

func (s *Sim) routeMetadata(mux *http.ServeMux) {
	mux.HandleFunc("/_sim/metadata/{instance}/latest/{path...}", s.serveMetadata)
}

func (s *Sim) serveMetadata(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("instance")
	path := r.PathValue("path")
	c := &call{Service: "imds", Operation: path[strings.LastIndexByte(path, '/')+1:]}
	if fault := s.takeFault(c); fault != nil && (!s.awaitLatency(fault, r) || fault.breaks()) {
		s.dropConnection(w, c, fault)
		return
	}

	var text string

	status := http.StatusNotFound
	s.do(func() {
		for _, region := range s.regions {
			if i := region.instances[id]; i != nil && (i.State == statePending || i.State == stateRunning) {
				text, status = s.metadata(i, r, path)
			}
		}
	})
	w.Header().Set("Content-Type", "text/plain")

	if path == "api/token" { // said again, as the SDKs expect
		w.Header().Set(tokenTTL, r.Header.Get(tokenTTL))
	}

	if status != http.StatusOK {
		w.WriteHeader(status)
		return
	}

	_, _ = io.WriteString(w, text)
}

// metadata answers one request of an instance. Called with mu held.
func (s *Sim) metadata(i *instance, r *http.Request, path string) (string, int) {
	options := i.data.MetadataOptions
	if options == nil {
		options = &metadataOptions{}
	}

	if options.HttpEndpoint == "disabled" {
		return "", http.StatusForbidden
	}

	if path == "api/token" {
		return s.metadataToken(i, r)
	}

	if r.Method != http.MethodGet {
		return "", http.StatusMethodNotAllowed
	}

	if !slices.Contains(i.sessions, r.Header.Get("X-aws-ec2-metadata-token")) {
		return "", http.StatusUnauthorized
	}

	item, ok := strings.CutPrefix(path, "meta-data/")
	if !ok {
		return "", http.StatusNotFound
	}

	if tag, ok := strings.CutPrefix(item, "tags/instance/"); ok {
		value, there := i.Tags[tag]
		if !there || !s.regions[i.Region].hasTagsInMetadata(i.data) {
			return "", http.StatusNotFound
		}

		return value, http.StatusOK
	}

	items := map[string]string{
		"instance-id":                    i.ID,
		"instance-type":                  i.Type,
		"ami-launch-index":               strconv.Itoa(i.AMILaunchIndex),
		"placement/region":               i.Region,
		"placement/availability-zone-id": i.subnet.zone.id,
	}
	if p := i.data.IamInstanceProfile; p != nil {
		profile := cmp.Or(p.Arn, s.iamARN("instance-profile/"+p.Name))
		items["iam/info"] = `{"Code": "Success", "InstanceProfileArn": "` + profile +
			`", "InstanceProfileId": "AIPASIMULATED"}`
	}

	if value, there := items[item]; there {
		return value, http.StatusOK
	}

	return "", http.StatusNotFound
}

// metadataToken opens a session, which lasts as long as the instance.
func (s *Sim) metadataToken(i *instance, r *http.Request) (string, int) {
	seconds, err := strconv.Atoi(r.Header.Get(tokenTTL))
	switch {
	case r.Method != http.MethodPut:
		return "", http.StatusMethodNotAllowed
	case err != nil || seconds < 1 || seconds > maxTokenTTL:
		return "", http.StatusBadRequest
	}

	token := s.newID("imds")
	i.sessions = append(i.sessions, token)

	return token, http.StatusOK
}

// hasTagsInMetadata reports whether an instance finds its tags in its metadata: the launch says so, else the account's
// default (EC2 User Guide, "Order of precedence for instance metadata options").
func (r *region) hasTagsInMetadata(d launchData) bool {
	if d.MetadataOptions != nil && d.MetadataOptions.InstanceMetadataTags != "" {
		return d.MetadataOptions.InstanceMetadataTags == "enabled"
	}
	return r.metadataTags
}

var metadataTagKey = regexp.MustCompile(`^[0-9a-zA-Z\-_+=,.@:]{1,255}$`)

// checkTagKeys refuses a launch with a tag key that cannot be in the path of instance metadata. Code and message as in
// aws/karpenter-provider-aws, issue 1527, and seek-oss/aec, pull request 411.
func (r *region) checkTagKeys(o launchOrder) error {
	if !r.hasTagsInMetadata(o.launchData) {
		return nil
	}

	for _, key := range slices.Sorted(maps.Keys(o.tags)) {
		if !metadataTagKey.MatchString(key) || slices.Contains([]string{".", "..", "_index"}, key) {
			return apiErrorf(
				"InvalidParameterValue",
				"'%s' is not a valid tag key. Tag keys must match pattern ([0-9a-zA-Z\\\\-_+=,.@:]{1,255}), "+
					"and must not be a reserved name ('.', '..', '_index')",
				key,
			)
		}
	}

	return nil
}
