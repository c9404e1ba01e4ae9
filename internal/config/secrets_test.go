package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Settings are shown without secrets.
func TestSecretsAreNotShown(t *testing.T) {
	for webhook, want := range map[string]string{
		"":                                    "",
		"https://hooks.example/services/T0/B": "https://hooks.example/(not shown)",
		"https://bot:word@hooks.example":      "https://hooks.example/(not shown)",
		"https://hooks.example/?key=K":        "https://hooks.example/(not shown)",
		"http://alerts:9093":                  "http://alerts:9093",
		"file:///etc/pcs-capacity/webhook":    "file:///etc/pcs-capacity/webhook",
	} {
		c := &Config{Notify: Notify{Webhook: webhook}}
		if got := c.Redacted().Notify.Webhook; got != want || c.Notify.Webhook != webhook {
			t.Errorf("%s is shown as %s, want %s", webhook, got, want)
		}
	}
}

// A secret that others can read is found in each of the files that may have one.
func TestExposed(t *testing.T) {
	const url = "https://hooks.example/services/T0/B"
	for name, c := range map[string]struct {
		webhook     string
		secret      string // a line of the environment
		mode        os.FileMode
		settingMode os.FileMode
		group       int
		want        string
	}{
		"no secret": {webhook: "https://hooks.example", secret: "AWS_PROFILE=capacity", mode: 0o644},
		"webhook": {
			webhook: url,
			want: `all users can read webhook in DIR/config.toml, and post there; write the URL into ` +
				`DIR/webhook, with mode 0600, and set webhook = "file://DIR/webhook"`,
		},
		"webhook, of root alone": {webhook: url, settingMode: 0o600},
		"webhook in a file":      {webhook: "file://DIR/webhook", mode: 0o600},
		"webhook in an open file": {
			webhook: "file://DIR/webhook",
			mode:    0o644,
			want: "others can read DIR/webhook, which has the URL of the webhook; chown root DIR/webhook; chmod " +
				"600 DIR/webhook",
		},
		"keys": {
			secret: "AWS_SECRET_ACCESS_KEY=x",
			mode:   0o644,
			want:   "others can read DIR/environment, which has a secret; give it",
		},
		"keys, of root alone": {secret: "AWS_SECRET_ACCESS_KEY=x", mode: 0o600},
		"keys, of a group": {
			secret: "export=1\nAWS_SESSION_TOKEN=x",
			mode:   0o640,
			group:  12,
			want:   "others can read DIR/environment",
		},
		"keys, of SlurmUser's group": {secret: "AWS_SECRET_ACCESS_KEY=x", mode: 0o640, group: 64030},
		"keys in a comment":          {secret: "#AWS_SECRET_ACCESS_KEY=", mode: 0o644},
		"a variable that is not set": {secret: "AWS_SECRET_ACCESS_KEY=\nX=1", mode: 0o644},
		"a password of a proxy": {
			secret: "HTTPS_PROXY=http://me:word@proxy:3128",
			mode:   0o644,
			want:   "others can read DIR/environment",
		},
		"a proxy that asks for none": {secret: "HTTPS_PROXY=http://proxy:3128", mode: 0o644},
	} {
		t.Run(name, func(t *testing.T) {
			if c.group != 0 && os.Geteuid() != 0 {
				t.Skip("only root can give a file to another group")
			}

			dir := t.TempDir()
			settings := filepath.Join(dir, "config.toml")

			if c.settingMode == 0 {
				c.settingMode = 0o644
			}

			err := os.WriteFile(settings, nil, c.settingMode)
			for _, file := range []string{filepath.Join(dir, "webhook"), EnvironmentPath(settings)} {
				err = errors.Join(err, os.WriteFile(file, []byte(c.secret+"\n"), c.mode), os.Chmod(file, c.mode))
				if c.group != 0 {
					err = errors.Join(err, os.Chown(file, -1, c.group))
				}
			}

			if err != nil {
				t.Fatal(err)
			}

			said := (&Config{
				Path:   settings,
				Notify: Notify{Webhook: strings.ReplaceAll(c.webhook, "DIR", dir)},
			}).CheckSecrets(
				64030,
			)
			got := strings.ReplaceAll(errorsText(said), dir, "DIR")
			if c.want == "" && got != "" || !strings.HasPrefix(got, c.want) || len(said) > 1 {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func errorsText(all []error) string {
	if err := errors.Join(all...); err != nil {
		return err.Error()
	}

	return ""
}
