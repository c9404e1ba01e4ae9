package setup

import (
	_ "embed"
	"regexp"
)

// installScript installs the package on a node. 'URL' stands for the source.
//
//go:embed install.sh
var installScript string

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

func withSource(script []byte, from string) []byte {
	return fromLine.ReplaceAllLiteral(script, []byte("FROM=${1:-'"+from+"'}"))
}
