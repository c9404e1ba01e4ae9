package setup

import (
	"bytes"
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// InstallScript puts cli_filter.lua on a node and installs the package from the path or URL in its first argument, or
// in place of URL.
//
//go:embed install.sh
var InstallScript string

// installable matches what nodes can install: cli_filter, or where a package is that they can fetch.
var installable = regexp.MustCompile(`^(cli_filter|(https|s3)://[^\s'"\\]+\.(deb|rpm)(\?[^\s'"\\]*)?)$`)

// CheckInstallHooks says why nodes cannot install something.
func CheckInstallHooks(what string) error {
	if what != "" && !installable.MatchString(what) {
		return fmt.Errorf(
			"--install-hooks=%s: use cli_filter, or the https:// or s3:// URL of a .deb or .rpm", what)
	}

	return nil
}

// isInstallScript reports whether a part of user data is our script, of any version.
func isInstallScript(part []byte) bool {
	begin, _, _ := strings.Cut(InstallScript, ":")
	return bytes.HasPrefix(part, []byte(begin+":"))
}

// withInstallScript returns the user data of a node group of PCS: what is copied, then our script. PCS runs both before
// it starts slurmd (AWS PCS User Guide, "Working with Amazon EC2 user data"). A script that installs what is wanted
// stays as it is, so that a newer version of this program changes no launch template.
func (in *inspection) withInstallScript() ([]byte, error) {
	isSite := func(part []byte) bool { return !isInstallScript(part) }
	site := slices.DeleteFunc(pcs.Parts(in.source.UserData), isInstallScript)

	has := in.source
	if kept := in.keptTemplate(); in.request.Like != "" && kept.ID != "" {
		has = kept
	}

	script := slices.DeleteFunc(pcs.Parts(has.UserData), isSite)
	is := capacity.LaunchTemplate{UserData: bytes.Join(script, nil)}
	if what := in.request.InstallHooks; what != "" && what != is.Installs() {
		script = [][]byte{[]byte(strings.Replace(InstallScript, "'URL'", "'"+what+"'", 1))}
	}

	return pcs.UserData(append(site, script...)...)
}
