package setup

import (
	"bytes"
	"cmp"
	_ "embed"
	"regexp"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// installScript installs the package on a node. 'URL' stands for the source.
//
//go:embed install.sh
var installScript string

// installMark is in installScript only.
const installMark = "# pcs-capacity-install: "

var (
	// packageURL matches nothing that could end a quoted string in a shell.
	packageURL = regexp.MustCompile(
		`^(https://|s3://|/)[A-Za-z0-9._~/%+=:@,-]+\.(deb|rpm)(\?[A-Za-z0-9._~/%+=:@,&-]*)?$`,
	)
	fromLine = regexp.MustCompile(`(?m)^FROM=\$\{1:-'([^']*)'\}`)
)

// InstallScript returns the script that installs the package on a node, from its first argument or
// by default from the given place.
func InstallScript(from string) string { return string(withSource([]byte(installScript), from)) }

// CheckInstallFrom says why a node cannot install a package from a place; "" if it can.
func CheckInstallFrom(from string) (why string) {
	if packageURL.MatchString(from) {
		return ""
	}
	return "it is no https:// or s3:// URL, and no path that begins with /, of a .deb or .rpm"
}

// installAction is the lifecycle action that installs the package.
const installAction = "pcs-capacity-install"

// scriptName ends the location of a script, apart from a signature.
var scriptName = regexp.MustCompile(`^[^?#]*\.sh([?#]|$)`)

// byAction reports whether --install-from names a script, which a lifecycle action of PCS runs.
func (in *inspection) byAction() bool { return scriptName.MatchString(in.request.InstallFrom) }

// addAction adds the script of --install-from after the other lifecycle actions before slurmd starts, which may mount its
// file system. When it fails, the node goes on.
func (in *inspection) addAction() {
	from := in.request.InstallFrom
	why := ""
	switch actions, err := in.actions.With(pcs.Script{Name: installAction, Source: pcs.ScriptSource{Location: from}, OnError: "CONTINUE", Policy: "FIRST_BOOT_ONLY"}); {
	case in.onEC2():
		why = "a script is a lifecycle action of PCS, and with --provider ec2 there are none"
	case bytes.Contains(in.userData, []byte(installMark)):
		why = "the user data installs the package already; give --user-data-file without that, or name a package"
	case !pcs.IsScriptLocation(from):
		why = "PCS fetches a script from s3://BUCKET/KEY or an https:// URL of up to 1024 characters"
	case err != nil:
		why = err.Error()
	default:
		in.actions = actions
		return
	}
	in.problem(capacity.InstallFrom,
		"name a package, such as s3://BUCKET/pcs-capacity.deb, or on PCS a script, such as s3://BUCKET/install.sh",
		"--install-from %s cannot be used: %s", from, why)
}

func withSource(script []byte, from string) []byte {
	return fromLine.ReplaceAllLiteral(script, []byte("FROM=${1:-'"+from+"'}"))
}

// addInstall adds the installation of the package to the user data: after the site's own part,
// which may mount its file system, and before slurmd starts. A script becomes a lifecycle action of PCS.
func (in *inspection) addInstall() {
	if found := fromLine.FindSubmatch(in.keptTemplate().UserData); in.request.InstallFrom == "" && found != nil {
		in.request.InstallFrom = string(found[1])
	}
	in.actions = in.lifecycleActions()
	from := cmp.Or(in.request.InstallFrom, in.keptScript())
	if in.request.InstallFrom = from; from == "" {
		return
	}
	if in.byAction() {
		in.addAction()
		return
	}
	why := CheckInstallFrom(from)
	if script := in.keptScript(); script != "" && why == "" {
		why = "nodes run lifecycle action " + installAction + " from " + script + " already; name a script, or take that out of the node group in PCS"
	}
	if why != "" {
		in.problem(capacity.InstallFrom, "name a package, such as s3://BUCKET/pcs-capacity.deb",
			"--install-from %s cannot be used: %s", from, why)
		return
	}
	if bytes.Contains(in.userData, []byte(installMark)) {
		in.userData = withSource(in.userData, from)
		return
	}
	data, err := pcs.AddPart(in.userData, []byte(InstallScript(from)), []byte(nodeScriptMark))
	if err != nil {
		in.problem(capacity.BadUserData, "give other user data with --user-data-file",
			"the user data cannot be used: %s", err)
	}
	in.userData = data
}

// installWord is the source of the package in the plan, without a URL's signature.
func (in *inspection) installWord() string {
	from, _, _ := strings.Cut(in.request.InstallFrom, "?")
	return from
}
