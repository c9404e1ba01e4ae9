//go:build !race

package main

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

// ask makes a call of an administrator to AWS, past every gate.
func ask(t *testing.T, sim *awssim.Sim, service, operation, body string) []byte {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKIDADMIN/20261121/us-east-2/"+service+"/aws4_request")
	r.Header.Set("X-Amz-Target", "AWSParallelComputingService."+operation)
	answer := httptest.NewRecorder()
	sim.Handler().ServeHTTP(answer, r)
	if answer.Code != http.StatusOK {
		t.Fatalf("%s: %s", operation, answer.Body)
	}
	return answer.Body.Bytes()
}

// askEC2 takes parameters as Key=Value.
func askEC2(t *testing.T, sim *awssim.Sim, action string, parameters ...string) []byte {
	t.Helper()
	form := url.Values{"Action": {action}, "Version": {"2016-11-15"}}
	for _, p := range parameters {
		key, value, _ := strings.Cut(p, "=")
		form.Set(key, value)
	}
	return ask(t, sim, "ec2", action, form.Encode())
}

// What differs from one run to the next: ids that AWS and we make up, and times. The ids of the
// scenarios have zeros.
var (
	madeUp = regexp.MustCompile(`\b(lt|i|eni|r|vol)-[0-9a-f]{8,17}\b|pcs_[a-z0-9]+`)
	times  = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z|"[a-zA-Z]+At": ?[\d.e+]+,?`)
	tokens = regexp.MustCompile(`<clientToken>[^<]*</clientToken>|\b(buy-|commit-|lab/)[0-9a-f]+`)
)

func plain(text string) string {
	text = times.ReplaceAllString(text, "TIME")
	text = tokens.ReplaceAllString(text, "")
	return madeUp.ReplaceAllStringFunc(text, func(id string) string { return id[:strings.IndexAny(id, "-_")+1] + "…" })
}

// account is all of an AWS account that the product could change: a line a thing.
func account(t *testing.T, sim *awssim.Sim) []string {
	t.Helper()
	var all []string
	for _, q := range [][]string{{"DescribeLaunchTemplates"}, {"DescribeLaunchTemplateVersions", "LaunchTemplateVersion.1=$Latest"},
		{"DescribeCapacityReservations"}} {
		for _, item := range items(t, askEC2(t, sim, q[0], q[1:]...)) {
			all = append(all, q[0]+" "+plain(item))
		}
	}
	for _, i := range sim.Instances("us-east-2") {
		if i.State == "running" || i.State == "pending" {
			all = append(all, plain(fmt.Sprintf("instance %s in %s, tags %v", i.Type, i.ReservationID, i.Tags)))
		}
	}
	for _, p := range sim.Ledger() {
		all = append(all, fmt.Sprintf("bought: %s of %d × %s for %s", p.Kind, p.Count, p.InstanceType, p.Fee))
	}
	slices.Sort(all)
	return append(all, pcsAccount(t, sim)...)
}

// pcsAccount is each cluster, node group and queue.
func pcsAccount(t *testing.T, sim *awssim.Sim) []string {
	t.Helper()
	type named struct{ ID, Name string }
	get := func(operation string, in map[string]string) (out map[string]json.RawMessage) {
		body, _ := json.Marshal(in)
		if err := json.Unmarshal(ask(t, sim, "pcs", operation, string(body)), &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	list := func(operation, key string, in map[string]string) (all []named) {
		if err := json.Unmarshal(get(operation, in)[key], &all); err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(all, func(a, b named) int { return strings.Compare(a.Name, b.Name) })
		return all
	}
	var all []string
	names := map[string]string{}
	add := func(what string, text json.RawMessage) {
		line := string(text)
		for id, name := range names {
			line = strings.ReplaceAll(line, id, name)
		}
		all = append(all, what+" "+plain(line))
	}
	for _, c := range list("ListClusters", "clusters", map[string]string{}) {
		in := map[string]string{"clusterIdentifier": c.ID}
		add("cluster "+c.Name, get("GetCluster", in)["cluster"])
		for _, g := range list("ListComputeNodeGroups", "computeNodeGroups", in) {
			names[g.ID] = g.Name
			all = append(all, "")
			in := map[string]string{"clusterIdentifier": c.ID, "computeNodeGroupIdentifier": g.ID}
			add("node group "+g.Name, get("GetComputeNodeGroup", in)["computeNodeGroup"])
		}
		for _, q := range list("ListQueues", "queues", in) {
			in := map[string]string{"clusterIdentifier": c.ID, "queueIdentifier": q.ID}
			add("queue "+q.Name, get("GetQueue", in)["queue"])
		}
	}
	return all
}

// items are those of an answer of EC2: of each its text, in the order of the answer.
func items(t *testing.T, answer []byte) []string {
	t.Helper()
	type item struct {
		Text string `xml:",innerxml"`
	}
	var sets struct {
		Sets []struct {
			XMLName xml.Name
			Items   []item `xml:"item"`
		} `xml:",any"`
	}
	if err := xml.Unmarshal(answer, &sets); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, set := range sets.Sets {
		for _, i := range set.Items {
			all = append(all, i.Text)
		}
	}
	return all
}
