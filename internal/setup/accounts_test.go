package setup_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awspcs "github.com/aws/aws-sdk-go-v2/service/pcs"
	pcstypes "github.com/aws/aws-sdk-go-v2/service/pcs/types"
)

// What users are told by the filter is also locked in Slurm: allow_accounts becomes a
// setting of the queue, beside those that it has.
func TestAccountsAreLockedInTheQueue(t *testing.T) {
	w := newAccount(t, nil)
	settings := func() map[string]string {
		t.Helper()
		q, _ := w.inventory().Queue("gpu")
		return q.SlurmSettings
	}
	r := w.request(openBlock)
	r.AllowAccounts = []string{"nlp", "vision"}
	p := w.run(r)
	if detail(p, "AllowAccounts") != "nlp,vision" || !maps.Equal(settings(), map[string]string{"AllowAccounts": "nlp,vision"}) {
		t.Errorf("queue %v, steps %+v", settings(), p.Steps())
	}
	if part, _ := w.config().Partition("gpu"); !slices.Equal(part.AllowAccounts, r.AllowAccounts) {
		t.Errorf("settings %+v", part)
	}
	// The site adds a setting, and writes the accounts in another order: both stay.
	change := func(pairs ...string) {
		t.Helper()
		_, err := w.askPCS().UpdateQueue(t.Context(), &awspcs.UpdateQueueInput{ClusterIdentifier: aws.String("ml"), QueueIdentifier: aws.String("gpu"),
			SlurmConfiguration: &pcstypes.UpdateQueueSlurmConfigurationRequest{SlurmCustomSettings: settingsOf(pairs...)}})
		if err != nil {
			t.Fatal(err)
		}
	}
	change("AllowAccounts=Vision,nlp", "DefaultTime=60")
	if p := w.plan(w.request(openBlock)); !p.Done() {
		t.Errorf("in another order: %s", actions(p))
	}
	// Somebody opens it: locked again, and nothing else lost.
	change("AllowAccounts=ALL", "DefaultTime=60")
	p = w.run(w.request(openBlock))
	if actions(p) != "nothing nothing update nothing nothing" || detail(p, "AllowAccounts") != "ALL → nlp,vision" ||
		!maps.Equal(settings(), map[string]string{"AllowAccounts": "nlp,vision", "DefaultTime": "60"}) {
		t.Errorf("%s, queue %v", actions(p), settings())
	}
	// The settings say who may use it, not a flag of a later run.
	r = w.request(openBlock)
	r.AllowAccounts = []string{"others"}
	if p := w.plan(r); !slices.Equal(codes(p), []string{"allow-accounts"}) || !strings.Contains(p.Mismatches[0].Sentence, `partition "gpu" lets accounts nlp,vision in, not others`) {
		t.Errorf("others: %v", p.Mismatches)
	}
	// What is written into the settings by hand is locked by the next run.
	part, _ := w.config().Partition("gpu")
	text, err := os.ReadFile(part.File)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(part.File, []byte(strings.Replace(string(text), `["nlp", "vision"]`, `["nlp"]`, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	w.run(w.request(openBlock))
	if settings()["AllowAccounts"] != "nlp" {
		t.Errorf("queue %v", settings())
	}
}

// A queue whose settings name nobody is not touched.
func TestAccountsOfTheSiteStay(t *testing.T) {
	w := newAccount(t, nil)
	w.run(w.request(openBlock))
	_, err := w.askPCS().UpdateQueue(t.Context(), &awspcs.UpdateQueueInput{ClusterIdentifier: aws.String("ml"), QueueIdentifier: aws.String("gpu"),
		SlurmConfiguration: &pcstypes.UpdateQueueSlurmConfigurationRequest{SlurmCustomSettings: settingsOf("AllowAccounts=mine")}})
	if err != nil {
		t.Fatal(err)
	}
	w.run(w.request(laterBlock)) // adds a node group to the queue
	if q, _ := w.inventory().Queue("gpu"); len(q.GroupIDs) != 2 || q.SlurmSettings["AllowAccounts"] != "mine" {
		t.Errorf("queue %+v", q)
	}
	r := w.request(laterBlock) // the partition is there, and says nothing yet
	r.AllowAccounts = []string{"nlp"}
	if p := w.run(r); actions(p) != "nothing nothing update nothing update" {
		t.Errorf("%s", actions(p))
	}
	if part, _ := w.config().Partition("gpu"); !slices.Equal(part.AllowAccounts, r.AllowAccounts) {
		t.Errorf("settings %+v", part)
	}
}
