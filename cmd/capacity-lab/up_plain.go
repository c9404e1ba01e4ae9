package main

import (
	"context"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"net/mail"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/machine"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/slurmlab"
)

// plainFiles are the files of a site that nobody prepared for the product.
//
//go:embed plain
var plainFiles embed.FS

func plainFile(name string) string {
	text, err := plainFiles.ReadFile(path.Join("plain", name))
	if err != nil {
		panic(err) // it is compiled in
	}

	return string(text)
}

// The network of a plain site: the subnets of the account are in it.
const (
	headAddress   = "10.0.0.10"
	staticAddress = "10.0.0.11"
	awsAddress    = "10.0.0.2"
	prefixLength  = "/16"
	// metadataAddress answers every instance with its metadata.
	metadataAddress = "169.254.169.254"
)

// plainSite is a Slurm that nobody prepared: a controller, head, and a static node, cpu-1.
// Instances are machines of their own, which boot by their user data.
type plainSite struct {
	lab    *lab
	head   *machine.Machine
	static *machine.Machine
	aws    *http.Server
}

func (l *lab) startPlain(ctx context.Context) error {
	if err := machine.Possible(); err != nil {
		return err
	}

	p := &plainSite{lab: l}
	l.plain = p
	if err := os.MkdirAll(l.path("home"), 0o755); err != nil {
		return err
	}

	if err := p.startHead(ctx); err != nil {
		return err
	}

	if err := p.serveAWS(ctx); err != nil {
		return err
	}

	l.boot(p.boot)
	l.sim.OnConsole(func(id string) string {
		text, _ := os.ReadFile(l.path("machines", id, "console.log")) // none before it boots
		return string(text)
	})

	if err := p.startStatic(ctx); err != nil {
		return err
	}

	return p.writeEntrance()
}

// hidden lists what this machine may have of Slurm and of the product that is not the site's.
var hidden = []string{
	"/etc/slurm",
	"/etc/pcs-capacity",
	"/var/lib/pcs-capacity",
	"/var/cache/pcs-capacity",
	"/var/log/pcs-capacity",
	"/var/lib/slurm",
	"/var/log/slurm",
}

// image returns the image of all machines, with more files.
func image(more map[string]string) map[string]string {
	files := map[string]string{
		"/etc/hosts":                headAddress + " head\n" + staticAddress + " cpu-1\n",
		"/etc/munge/munge.key":      strings.Repeat("a key that all machines of the lab have. ", 4),
		"/etc/image.sh":             plainFile("image.sh"),
		"/usr/sbin/reboot":          plainFile("reboot"),
		"/usr/bin/systemctl":        plainFile("systemctl"), // plays systemd
		"/run/systemd/system/.keep": "",
	}
	maps.Copy(files, more)

	return files
}

func (p *plainSite) startHead(ctx context.Context) error {
	files := image(map[string]string{
		"/etc/slurm/slurm.conf": plainFile("slurm.conf"),
		"/etc/pcs-capacity/environment": "# Stands for the role of a real controller's instance.\n" + strings.Join(
			p.environment(),
			"\n",
		) + "\n",
	})
	binds := map[string]string{"/home": p.lab.path("home")} // all machines share it
	before := p.program(binds, files)

	var err error

	p.head, err = machine.Start(
		ctx,
		machine.Config{
			Name:    "head",
			Address: headAddress + prefixLength,
			Folder:  p.lab.path("machines", "head"),
			Files:   files,
			Binds:   binds,
			Hidden:  hidden,
			Init:    plainFile("image.sh") + before + "systemctl start slurmctld\n",
		},
	)

	return err
}

// program puts the product where its package has it, unless it is there, or there is none. setUp
// makes the folders that the package makes.
func (p *plainSite) program(binds, files map[string]string) (setUp string) {
	program := filepath.Join(p.lab.Bin, "pcs-capacity")
	if _, err := os.Stat(program); err != nil {
		return ""
	}

	if p.lab.Bin != "/usr/bin" { // else machines see it there
		binds["/usr/bin/pcs-capacity"] = program
		binds["/usr/libexec/pcs-capacity"] = filepath.Dir(p.lab.program("pcs-capacity-filter"))
		files["/etc/systemd/system/pcs-capacity-sync.service"] = "[Service]\nExecStart=/usr/bin/pcs-capacity sync " +
			"--watch\nEnvironmentFile=-/etc/pcs-capacity/environment\n"
	}

	return plainFile("installed.sh")
}

func (p *plainSite) startStatic(ctx context.Context) error {
	var err error

	p.static, err = machine.Start(
		ctx,
		machine.Config{
			Name:    "cpu-1",
			Address: staticAddress + prefixLength,
			Switch:  p.head,
			Folder:  p.lab.path("machines", "cpu-1"),
			Files:   image(map[string]string{"/etc/slurm/slurm.conf": plainFile("slurm.conf")}),
			Hidden:  hidden,
			Init:    plainFile("image.sh") + "exec slurmd\n",
		},
	)
	if err != nil {
		return err
	}

	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()

	var said string

	err = slurmlab.WaitUntil(ctx, func() bool {
		said, _ = p.head.Run(ctx, "sinfo --noheader --format=%T --nodes cpu-1")
		return strings.HasPrefix(said, "idle\n")
	})
	if err != nil {
		return fmt.Errorf("slurmctld or slurmd of cpu-1 does not start: %s: %w; see %s", said, err, p.head.Log())
	}

	return nil
}

// environment makes the SDK take simulated AWS for AWS.
func (p *plainSite) environment() []string {
	var all []string
	for _, variable := range p.lab.sim.Env() {
		if strings.HasPrefix(variable, "AWS_ENDPOINT_URL=") {
			variable = "AWS_ENDPOINT_URL=http://" + awsAddress
		}

		all = append(all, variable)
	}

	return append(all, "AWS_EC2_METADATA_DISABLED=true")
}

// serveAWS serves AWS and the metadata service in the network of the machines.
func (p *plainSite) serveAWS(ctx context.Context) error {
	for _, address := range []string{awsAddress, metadataAddress} {
		if out, err := p.head.Run(ctx, "ip address add "+address+"/32 dev switch"); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
	}

	listener, err := p.head.Listen(":80")
	if err != nil {
		return err
	}

	aws := p.lab.sim.Handler()
	p.aws = &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if path := r.URL.Path; r.Host == metadataAddress {
				address, _, _ := strings.Cut(r.RemoteAddr, ":")
				for _, i := range p.lab.sim.Instances("") {
					if i.PrivateIP == address { // the last one has it now
						r.URL.Path = "/_sim/metadata/" + i.ID + path
					}
				}
			}

			aws.ServeHTTP(w, r)
		}),
	}
	go func() { _ = p.aws.Serve(listener) }() // ends by Close

	return nil
}

// boot starts the machine of an instance, which runs its user data as cloud-init would.
func (p *plainSite) boot(ctx context.Context, i awssim.Instance) (stop func() error, err error) {
	scripts, err := bootScripts(i.UserData)
	if err != nil {
		return nil, err
	}

	files := image(nil)
	init := plainFile("image.sh") + plainFile("gpus.sh")
	for n, script := range scripts {
		name := fmt.Sprintf("/var/lib/cloud/instance/scripts/part-%03d", n+1)
		files[name] = script
		init += name + "\n"
	}

	m, err := machine.Start(
		ctx,
		machine.Config{
			Name:    "ip-" + strings.ReplaceAll(i.PrivateIP, ".", "-"),
			Address: i.PrivateIP + prefixLength,
			Switch:  p.head,
			Folder: p.lab.path(
				"machines",
				i.ID,
			),
			Hidden: hidden,
			Files:  files,
			Binds:  map[string]string{"/home": p.lab.path("home")},
			Init:   init,
		},
	)
	if err != nil {
		return nil, err
	}

	return m.Stop, nil
}

// onHead is the program that runs a command on the controller.
const onHead = "on-head"

// writeEntrance writes it.
func (p *plainSite) writeEntrance() error {
	var b strings.Builder
	b.WriteString(
		"#!/bin/sh\n# Runs a command on the controller, as root, in the folder that all machines share.\nexec",
	)

	for _, word := range p.head.Enter(p.environment()...) {
		b.WriteString(" " + shellQuote(word))
	}

	b.WriteString(" sh -c 'cd /home && exec \"$@\"' sh \"$@\"\n")

	if err := os.MkdirAll(p.lab.path("bin"), 0o755); err != nil {
		return err
	}

	return os.WriteFile(p.lab.path("bin", onHead), []byte(b.String()), 0o755)
}

func (p *plainSite) stop() error {
	var errs []error

	if p.aws != nil {
		_ = p.aws.Close()
	}

	for _, m := range []*machine.Machine{p.static, p.head} {
		if m != nil {
			errs = append(errs, m.Stop())
		}
	}

	return errors.Join(errs...)
}

// bootScripts returns the scripts of user data, in the order in which cloud-init runs them.
func bootScripts(userData string) ([]string, error) {
	plain, err := base64.StdEncoding.DecodeString(userData)
	if err != nil {
		return nil, fmt.Errorf("the user data is not base64: %w", err)
	}

	if strings.HasPrefix(string(plain), "#!") {
		return []string{string(plain)}, nil
	}

	message, err := mail.ReadMessage(strings.NewReader(string(plain)))
	if err != nil {
		return nil, nil // cloud-init ignores it
	}

	return partScripts(message.Header.Get("Content-Type"), message.Body)
}

// partScripts returns the scripts of a part of an archive, and of the parts in it.
func partScripts(contentType string, body io.Reader) ([]string, error) {
	kind, parameters, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, err
	}

	if !strings.HasPrefix(kind, "multipart/") {
		text, err := io.ReadAll(body)
		if err != nil || kind != "text/x-shellscript" {
			return nil, err
		}

		return []string{string(text)}, nil
	}

	var all []string
	for parts := multipart.NewReader(body, parameters["boundary"]); ; {
		part, err := parts.NextPart()
		if err == io.EOF {
			return all, nil
		}

		if err != nil {
			return nil, err
		}

		scripts, err := partScripts(part.Header.Get("Content-Type"), part)
		if err != nil {
			return nil, err
		}

		all = append(all, scripts...)
	}
}
