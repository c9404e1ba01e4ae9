package power

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// A state folder that cannot be made keeps no hook from launching or terminating.
func TestHooksBeginWithoutAStateFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	cfg := config.Default()
	cfg.Region, cfg.StateDir = "us-east-2", filepath.Join(file, "state")
	h, err := newClients(t.Context(), cfg, slog.New(slog.DiscardHandler), nil)
	if err != nil || h.noState == nil {
		t.Errorf("%+v, %v", h, err)
	}
}

// Whose credentials a hook has is written down, if they say it.
func TestHookKeepsItsAccount(t *testing.T) {
	for key, value := range map[string]string{"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_ACCOUNT_ID": "444455556666"} {
		t.Setenv(key, value)
	}
	cfg := config.Default()
	cfg.Region, cfg.StateDir = "us-east-2", t.TempDir()
	h, err := newClients(t.Context(), cfg, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	h.keepAccess(t.Context())
	if last, err := h.state.LastHook(); err != nil || last != (state.HookAccess{Account: "444455556666", Source: "EnvConfigCredentials"}) {
		t.Errorf("%+v, %v", last, err)
	}
}

// The credentials of an instance profile do not say their account; the metadata of the instance does, and is asked
// once. Metadata that says nothing more keeps no hook.
func TestHookKeepsTheAccountOfItsInstanceProfile(t *testing.T) {
	for name, c := range map[string]struct {
		info, account string
	}{
		"an instance profile": {`{"Code": "Success", "InstanceProfileArn": "arn:aws:iam::444455556666:instance-profile/head"}`, "444455556666"},
		"another form":        {`{"Code": "Success", "InstanceProfileArn": "head"}`, ""},
		"an error":            {"", ""},
		"silence":             {"silence", ""},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			metadata := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/latest/api/token":
					w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", r.Header.Get("X-Aws-Ec2-Metadata-Token-Ttl-Seconds"))
					fmt.Fprint(w, "token")
				case "/latest/meta-data/iam/security-credentials/":
					fmt.Fprint(w, "head")
				case "/latest/meta-data/iam/security-credentials/head":
					fmt.Fprintf(w, `{"Code": "Success", "AccessKeyId": "ASIAEXAMPLE", "SecretAccessKey": "secret", "Token": "token", "Expiration": %q}`,
						time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
				case "/latest/meta-data/iam/info":
					if asked++; c.info == "silence" {
						<-r.Context().Done()
					}
					if c.info == "" {
						w.WriteHeader(http.StatusInternalServerError)
					}
					fmt.Fprint(w, c.info)
				default:
					w.WriteHeader(http.StatusNotFound)
				}
			}))
			defer metadata.Close()
			none := filepath.Join(t.TempDir(), "none")
			for key, value := range map[string]string{"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_PROFILE": "", "AWS_ACCOUNT_ID": "", "AWS_CONFIG_FILE": none,
				"AWS_SHARED_CREDENTIALS_FILE": none, "AWS_EC2_METADATA_DISABLED": "false", "AWS_EC2_METADATA_SERVICE_ENDPOINT": metadata.URL} {
				t.Setenv(key, value)
			}
			cfg := config.Default()
			cfg.Region, cfg.StateDir = "us-east-2", t.TempDir()
			h, err := newClients(t.Context(), cfg, slog.New(slog.DiscardHandler), nil)
			if err != nil {
				t.Fatal(err)
			}
			h.keepAccess(t.Context())
			if last, err := h.state.LastHook(); err != nil || last != (state.HookAccess{Account: c.account, Source: "EC2RoleProvider"}) {
				t.Errorf("%+v, %v", last, err)
			}
			if asked != 1 {
				t.Errorf("metadata was asked %d times", asked)
			}
		})
	}
}

// Where slurmctld does not answer, a hook has the mark that an earlier one has kept, and without one none.
func TestHookKnowsItsMarkWithoutSlurmctld(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "scontrol"), []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	cfg := config.Default()
	cfg.Region, cfg.StateDir = "us-east-2", t.TempDir()
	h, err := newClients(t.Context(), cfg, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	if mark, _, err := h.ask(t.Context()); err == nil {
		t.Errorf("without an earlier hook: %q", mark)
	}
	if err := h.state.KeepMark("ml/1"); err != nil {
		t.Fatal(err)
	}
	if mark, timeout, err := h.ask(t.Context()); err != nil || mark != "ml/1" || timeout != 0 {
		t.Errorf("%q, %s, %v", mark, timeout, err)
	}
}

// The last line of a call has all that came of it, R12's code of EC2 among it.
func TestLastLineOfACall(t *testing.T) {
	for want, failure := range map[string]error{
		`level=INFO msg="power up: done" nodes=gpu-[1-2] jobs="[7 8]" reservations=[cr-1] instances="[i-1 i-2]" codes="[no-room ok]" aws_codes="[ReservationCapacityExceeded Throttling]" aws_request_ids=[r-1]`:                  nil,
		`level=ERROR msg="power up: failed; look" nodes=gpu-[1-2] jobs="[7 8]" reservations=[cr-1] instances="[i-1 i-2]" codes="[no-room ok]" aws_codes="[ReservationCapacityExceeded Throttling]" aws_request_ids=[r-1] err=cut`: errors.New("cut"),
	} {
		var log strings.Builder
		c := begin(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == "time" || a.Key == "ms" {
				return slog.Attr{}
			}
			return a
		}})), "power up", "gpu-[1-2]")
		c.aws(ec2.Call{RequestID: "r-1", Code: "Throttling"})
		c.keep([]state.Record{{Jobs: []string{"8"}, Reservation: "cr-1", Code: "ok", Instances: []string{"i-2", "i-1"}}, {Jobs: []string{"7", "8"}, Code: "no-room", EC2Code: "ReservationCapacityExceeded"}})
		status := c.end(failure, "; look")
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if last := lines[len(lines)-1]; last != want || (status == 0) != (failure == nil) {
			t.Errorf("%d:\n%s\nwant\n%s", status, last, want)
		}
	}
}
